// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/bench/store_probe.h"

namespace larder::apps {
namespace {

constexpr std::size_t kCachedCallsPerSpan = 16;  // as the look-up and copy limit
constexpr std::uint64_t kCachedBytesMax = 16 << 10;

class GetProbe final : public Probe {
 public:
  GetProbe(const CaseName& name, const StoreContext& context)
      : name_(name), data_(*context.data), verify_(context.options.verify) {}

  Result<void> prepare(const StoreContext& context) {
    const std::size_t count = data_.keys().size();
    workers_.resize(name_.clients);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      worker.keys = Walk(count, i * count / workers_.size());
      worker.sink = Slots(share_of(context.local, i, workers_.size()), name_.value_bytes);
      if (worker.sink.count() < name_.batch || count < name_.batch) {
        return fail(Code::kInvalidArgument, "the case needs a larger --set-bytes");
      }
      worker.indexes.resize(name_.batch);
      worker.names.resize(name_.batch);
      worker.pieces.resize(name_.batch);
      worker.items.resize(name_.batch);
      LARDER_TRY(connect(worker, context));
    }
    return {};
  }

  std::string name() const override { return to_string(name_); }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t items_per_call() const override { return name_.batch; }
  std::uint64_t bytes_per_call() const override { return name_.batch * name_.value_bytes; }
  std::size_t calls_per_span() const override {
    const bool quick = name_.path == BenchPath::kLocal && name_.op != Op::kGet &&
                       bytes_per_call() < kCachedBytesMax && !verify_;
    return quick ? kCachedCallsPerSpan : 1;
  }

  Result<void> step(std::size_t thread) override {
    Worker& worker = workers_[thread];
    if (name_.op == Op::kGet) return name_.batch == 1 ? get_one(worker) : get_many(worker);
    return name_.batch == 1 ? get_one_into(worker) : get_many_into(worker);
  }

  Result<void> settle(std::size_t thread) override {
    if (!verify_) return {};
    Worker& worker = workers_[thread];
    for (std::size_t i = 0; i < name_.batch; ++i) {
      LARDER_TRY(data_.check(worker.indexes[i], result_of(worker, i)));
      // What is left of this value must not pass for the next one.
      if (name_.op != Op::kGet)
        std::fill(worker.pieces[i].begin(), worker.pieces[i].end(), std::byte{});
    }
    return {};
  }

 private:
  struct alignas(64) Worker {
    std::unique_ptr<Client> client;
    Walk keys;
    Slots sink;
    std::vector<std::size_t> indexes;  // of the last call
    std::vector<std::string_view> names;
    std::vector<MutableBytes> pieces;
    std::vector<GetItem> items;
    Value value;  // what kGet brought
    std::vector<Result<Value>> values;
  };

  Result<void> connect(Worker& worker, const StoreContext& context) const {
    const bool cached = name_.path == BenchPath::kLocal && name_.op != Op::kGet;
    // Room for every route: a case that is called cached must not miss.
    const std::size_t routes = cached ? 2 * data_.keys().size() : 0;
    LARDER_ASSIGN(worker.client, context.session.connect(name_.path, routes));
    LARDER_TRY(expect_all(*worker.client, data_.keys()));
    return name_.path == BenchPath::kLocal ? warm_mapping(worker) : Result<void>{};
  }

  // Every value once, untimed: the first read of a page through a new mapping is a fault, and the
  // limit's mapping is warm.
  Result<void> warm_mapping(Worker& worker) const {
    for (const std::string_view key : data_.keys()) {
      LARDER_TRY(worker.client->get_into(key, worker.sink.next()));
    }
    return {};
  }

  ConstBytes result_of(const Worker& worker, std::size_t i) const {
    if (name_.op != Op::kGet) return worker.pieces[i];
    if (name_.batch == 1) return worker.value.bytes();
    return worker.values[i] ? worker.values[i]->bytes() : ConstBytes();
  }

  Error wrong_size(std::size_t index, std::uint64_t got) const {
    return {Code::kCorrupt, fmt::format("key '{}' came back with {} bytes, {} were stored",
                                        data_.keys()[index], got, name_.value_bytes)};
  }

  Result<void> get_one_into(Worker& worker) const {
    const std::size_t index = worker.indexes[0] = worker.keys.next();
    worker.pieces[0] = worker.sink.next();
    LARDER_ASSIGN(const auto size, worker.client->get_into(data_.keys()[index], worker.pieces[0]));
    if (size != name_.value_bytes) return fail(wrong_size(index, size));
    return {};
  }

  Result<void> get_many_into(Worker& worker) const {
    for (std::size_t i = 0; i < name_.batch; ++i) {
      worker.indexes[i] = worker.keys.next();
      worker.pieces[i] = worker.sink.next();
      worker.items[i] = {data_.keys()[worker.indexes[i]], std::span(&worker.pieces[i], 1)};
    }
    LARDER_ASSIGN(const auto results, worker.client->get_into(worker.items));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].code != Code::kOk) return fail(results[i].code, results[i].message);
      if (results[i].size != name_.value_bytes) {
        return fail(wrong_size(worker.indexes[i], results[i].size));
      }
    }
    return {};
  }

  Result<void> get_one(Worker& worker) const {
    const std::size_t index = worker.indexes[0] = worker.keys.next();
    LARDER_ASSIGN(worker.value, worker.client->get(data_.keys()[index]));
    if (worker.value.size() != name_.value_bytes) {
      return fail(wrong_size(index, worker.value.size()));
    }
    return {};
  }

  Result<void> get_many(Worker& worker) const {
    for (std::size_t i = 0; i < name_.batch; ++i) {
      worker.indexes[i] = worker.keys.next();
      worker.names[i] = data_.keys()[worker.indexes[i]];
    }
    LARDER_ASSIGN(worker.values, worker.client->get(worker.names));
    for (std::size_t i = 0; i < worker.values.size(); ++i) {
      const auto size = worker.values[i] ? worker.values[i]->size() : 0;
      if (size != name_.value_bytes) return fail(wrong_size(worker.indexes[i], size));
    }
    return {};
  }

  CaseName name_;
  const Dataset& data_;
  bool verify_;
  std::vector<Worker> workers_;
};

}  // namespace

Result<ProbePtr> make_get_probe(const CaseName& name, const StoreContext& context) {
  auto probe = std::make_unique<GetProbe>(name, context);
  LARDER_TRY(probe->prepare(context));
  return probe;
}

}  // namespace larder::apps
