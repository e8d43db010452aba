// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/bench/store_probe.h"

namespace larder::apps {
namespace {

constexpr std::size_t kFreshKeysMax = 16384;  // per client, between two removals

class PutProbe final : public Probe {
 public:
  PutProbe(const CaseName& name, const StoreContext& context)
      : name_(name), verify_(context.options.verify) {}
  ~PutProbe() override {
    for (Worker& worker : workers_) {
      // Best effort: the node of a failed run may be gone.
      if (worker.client) (void)remove_all(*worker.client, worker.keys.views());
    }
  }

  Result<void> prepare(const StoreContext& context) {
    // Put values and the set that gets read share the node: a set's worth each.
    const std::uint64_t budget = context.options.set_bytes / name_.clients;
    const std::size_t wanted = context.options.keys > 0 && name_.op == Op::kPutOver
                                   ? context.options.keys / name_.clients
                                   : static_cast<std::size_t>(budget / name_.value_bytes);
    const std::size_t count = std::min(wanted, kFreshKeysMax) / name_.batch * name_.batch;
    if (count == 0) return fail(Code::kInvalidArgument, "the case needs a larger --set-bytes");
    workers_.resize(name_.clients);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      worker.keys = KeyList(fmt::format("put{}", i), count);
      worker.pieces.resize(name_.batch);
      worker.items.resize(name_.batch);
      LARDER_ASSIGN(worker.client, context.session.connect(name_.path, 0));
      LARDER_TRY(prepare_source(worker, share_of(context.local, i, workers_.size())));
      if (name_.op == Op::kPutOver) LARDER_TRY(fill(i));
    }
    return {};
  }

  std::string name() const override { return to_string(name_); }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t items_per_call() const override { return name_.batch; }
  std::uint64_t bytes_per_call() const override { return name_.batch * name_.value_bytes; }

  Result<void> step(std::size_t thread) override {
    Worker& worker = workers_[thread];
    for (std::size_t i = 0; i < name_.batch; ++i) {
      worker.pieces[i] = next_source(worker, worker.used + i);
      worker.items[i] = {worker.keys.views()[worker.used + i], std::span(&worker.pieces[i], 1)};
    }
    worker.used += name_.batch;
    if (name_.batch == 1) {
      LARDER_ASSIGN(const PutResult result,
                    worker.client->put(worker.items[0].key, worker.pieces[0]));
      return check(std::span(&result, 1), worker);
    }
    LARDER_ASSIGN(const auto results, worker.client->put(worker.items));
    return check(results, worker);
  }

  Result<void> settle(std::size_t thread) override {
    Worker& worker = workers_[thread];
    if (verify_) LARDER_TRY(verify(worker));
    if (worker.used < worker.keys.size()) return {};
    worker.used = 0;
    ++worker.laps;
    if (name_.op == Op::kPutOver) return {};
    return remove_all(*worker.client, worker.keys.views());
  }

 private:
  struct alignas(64) Worker {
    std::unique_ptr<Client> client;
    KeyList keys;
    std::size_t used = 0;  // of keys, in this lap
    std::size_t laps = 0;
    std::optional<SharedBuffer> buffer;
    Slots source;
    std::vector<ConstBytes> pieces;
    std::vector<PutItem> items;
  };

  Result<void> prepare_source(Worker& worker, std::span<std::byte> share) {
    if (name_.op == Op::kPutShared) {
      auto buffer = worker.client->alloc_buffer(share.size());
      if (!buffer) return fail(std::move(buffer).error());
      worker.buffer.emplace(std::move(*buffer));
      share = worker.buffer->bytes();
    }
    fill_pattern(share, static_cast<std::uint64_t>(&worker - workers_.data()));
    worker.source = Slots(share, name_.value_bytes);
    if (worker.source.count() >= std::max<std::size_t>(name_.batch, 2)) return {};
    return fail(Code::kInvalidArgument, "the case needs a larger --set-bytes");
  }

  // Every key of put_over is there before its first round.
  Result<void> fill(std::size_t thread) {
    Worker& worker = workers_[thread];
    while (worker.laps == 0) {
      LARDER_TRY(step(thread));
      LARDER_TRY(settle(thread));
    }
    return {};
  }

  ConstBytes next_source(Worker& worker, std::size_t index) const {
    if (name_.op != Op::kPutOver) return worker.source.next();
    // The slots differ, so from lap to lap each key gets other bytes.
    return worker.source.slot((index + worker.laps) % worker.source.count());
  }

  Result<void> check(std::span<const PutResult> results, const Worker& worker) const {
    LARDER_TRY(first_failure(results, worker.items));
    for (const PutResult& result : results) {
      if (!result.already_stored) continue;
      return fail(Code::kInternal,
                  "a benchmark put found its bytes stored already: such a put "
                  "moves nothing and must not be measured");
    }
    return {};
  }

  Result<void> verify(Worker& worker) const {
    for (const PutItem& item : worker.items) {
      LARDER_ASSIGN(const Value value, worker.client->get(item.key));
      const ConstBytes got = value.bytes();
      const ConstBytes want = item.pieces[0];
      if (!std::equal(got.begin(), got.end(), want.begin(), want.end())) {
        return fail(Code::kCorrupt,
                    fmt::format("WRONG BYTES under key '{}' after a put", item.key));
      }
    }
    return {};
  }

  CaseName name_;
  bool verify_;
  std::vector<Worker> workers_;
};

}  // namespace

Result<ProbePtr> make_put_probe(const CaseName& name, const StoreContext& context) {
  auto probe = std::make_unique<PutProbe>(name, context);
  LARDER_TRY(probe->prepare(context));
  return probe;
}

}  // namespace larder::apps
