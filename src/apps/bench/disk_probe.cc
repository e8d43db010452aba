// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/disk_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "apps/bench/memory.h"
#include "env/clock.h"

namespace larder::apps {
namespace {

constexpr env::Nanos kOnDiskPatience = 300 * env::kSecond;
constexpr env::Nanos kOnDiskPause = 20 * env::kMilli;
constexpr std::size_t kStatBatch = 4096;
constexpr int kPushesMax = 8;  // of as many bytes as DRAM has

// Puts values under ever new keys.
class Putter {
 public:
  Putter(std::unique_ptr<Client> client, std::span<std::byte> memory, std::uint64_t bytes,
         std::size_t batch, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)), batch_(batch) {
    fill_pattern(memory, 7);
    slots_ = Slots(memory, bytes);
    names_.resize(batch);
    pieces_.resize(batch);
    items_.resize(batch);
  }
  Result<void> put() {
    for (std::size_t i = 0; i < batch_; ++i) {
      names_[i] = fmt::format("{}/{}", prefix_, next_++);
      pieces_[i] = slots_.next();
      items_[i] = {names_[i], std::span(&pieces_[i], 1)};
    }
    PutOptions options;
    options.timeout = std::chrono::seconds(60);
    LARDER_ASSIGN(const auto results, client_->put(items_, options));
    return first_failure(results, items_);
  }

 private:
  std::unique_ptr<Client> client_;
  const std::string prefix_;
  const std::size_t batch_;
  std::uint64_t next_ = 0;
  Slots slots_;
  std::vector<std::string> names_;
  std::vector<ConstBytes> pieces_;
  std::vector<PutItem> items_;
};

class OffloadProbe final : public Probe {
 public:
  OffloadProbe(const DiskCase& name, const DiskContext& context, Putter putter)
      : case_(name), hot_bytes_(context.hot_bytes), putter_(std::move(putter)) {}
  std::string name() const override { return case_.name; }
  std::uint64_t items_per_call() const override { return case_.batch; }
  std::uint64_t bytes_per_call() const override { return case_.batch * case_.bytes; }
  // Until DRAM is full of what the disk has not taken yet: from then on puts go at its speed.
  Result<void> begin() override {
    for (std::uint64_t bytes = 0; bytes < 2 * hot_bytes_; bytes += bytes_per_call()) {
      LARDER_TRY(putter_.put());
    }
    return {};
  }
  Result<void> step(std::size_t) override { return putter_.put(); }

 private:
  const DiskCase case_;
  const std::uint64_t hot_bytes_;
  Putter putter_;
};

class ColdGetProbe final : public Probe {
 public:
  ColdGetProbe(const DiskCase& name, const DiskContext& context, std::unique_ptr<Client> client)
      : case_(name),
        data_(*context.data),
        verify_(context.verify),
        client_(std::move(client)),
        memory_(context.memory),
        slots_(context.memory, name.bytes),
        indexes_(name.batch),
        pieces_(name.batch),
        items_(name.batch) {}
  std::string name() const override { return case_.name; }
  std::uint64_t items_per_call() const override { return case_.batch; }
  std::uint64_t bytes_per_call() const override { return case_.batch * case_.bytes; }
  // In order through a set that is larger than DRAM: each is read again when it has long left.
  // The bare disk's memory is pinned, too.
  Result<void> begin() override {
    if (std::exchange(registered_, true)) return {};
    return client_->register_buffer(memory_);
  }
  Result<void> step(std::size_t) override {
    for (std::size_t i = 0; i < case_.batch; ++i) {
      indexes_[i] = next_;
      next_ = (next_ + 1) % data_.keys().size();
      pieces_[i] = slots_.next();
      items_[i] = {data_.keys()[indexes_[i]], std::span(&pieces_[i], 1)};
    }
    LARDER_ASSIGN(const auto results, client_->get_into(items_));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].code != Code::kOk) {
        return fail(results[i].code, fmt::format("'{}': {}", items_[i].key, results[i].message));
      }
    }
    return {};
  }
  Result<void> settle(std::size_t) override {
    for (std::size_t i = 0; verify_ && i < case_.batch; ++i) {
      LARDER_TRY(data_.check(indexes_[i], pieces_[i]));
    }
    return {};
  }

 private:
  const DiskCase case_;
  const Dataset& data_;
  const bool verify_;
  std::unique_ptr<Client> client_;
  const std::span<std::byte> memory_;
  bool registered_ = false;
  Slots slots_;
  std::size_t next_ = 0;
  std::vector<std::size_t> indexes_;
  std::vector<MutableBytes> pieces_;
  std::vector<GetItem> items_;
};

class HotGetProbe final : public Probe {
 public:
  HotGetProbe(const DiskCase& name, const DiskContext& context, std::unique_ptr<Client> client,
              std::unique_ptr<Putter> beside)
      : case_(name),
        client_(std::move(client)),
        beside_(std::move(beside)),
        piece_(context.memory.first(name.bytes)) {}
  ~HotGetProbe() override { static_cast<void>(end()); }
  std::string name() const override { return case_.name; }
  std::uint64_t bytes_per_call() const override { return case_.bytes; }
  Result<void> begin() override {
    LARDER_TRY(client_->put(kKey, piece_));
    if (!beside_) return {};
    stop_ = false;
    thread_ = std::thread([this] {
      while (!stop_.load(std::memory_order_relaxed) && beside_->put()) {
      }
    });
    return {};
  }
  Result<void> end() override {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return {};
  }
  Result<void> step(std::size_t) override {
    LARDER_TRY(client_->get_into(kKey, piece_));
    return {};
  }

 private:
  static constexpr std::string_view kKey = "bench/hot";
  const DiskCase case_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Putter> beside_;
  MutableBytes piece_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

constexpr std::uint64_t kBesideBytes = 1U << 20U;
constexpr std::size_t kBesideBatch = 8;

Result<std::unique_ptr<Putter>> make_putter(const DiskContext& context, std::uint64_t bytes,
                                            std::size_t batch, const char* prefix) {
  LARDER_ASSIGN(auto client, context.session.connect(BenchPath::kLocal, 0));
  return std::make_unique<Putter>(std::move(client), context.memory, bytes, batch, prefix);
}

}  // namespace

Result<ProbePtr> make_disk_probe(const DiskCase& name, const DiskContext& context) {
  if (name.op == DiskOp::kOffload) {
    LARDER_ASSIGN(auto putter, make_putter(context, name.bytes, name.batch, "bench/off"));
    return std::make_unique<OffloadProbe>(name, context, std::move(*putter));
  }
  LARDER_ASSIGN(auto client, context.session.connect(BenchPath::kLocal, 0));
  if (name.op == DiskOp::kGet) {
    return std::make_unique<ColdGetProbe>(name, context, std::move(client));
  }
  std::unique_ptr<Putter> beside;
  DiskContext rest = context;
  rest.memory = context.memory.subspan(name.bytes);
  if (name.busy) {
    LARDER_ASSIGN(beside, make_putter(rest, kBesideBytes, kBesideBatch, "bench/beside"));
  }
  return std::make_unique<HotGetProbe>(name, context, std::move(client), std::move(beside));
}

namespace {

Result<bool> all_in(Client& client, std::span<const std::string_view> keys, auto holds) {
  while (!keys.empty()) {
    const auto some = keys.first(std::min(keys.size(), kStatBatch));
    LARDER_ASSIGN(const auto stats, client.stat(some));
    for (const StatResult& one : stats) {
      if (one.code != Code::kOk || !holds(one.info.tier)) return false;
    }
    keys = keys.subspan(some.size());
  }
  return true;
}

}  // namespace

Result<void> push_out_of_dram(Client& client, std::span<const std::string_view> keys,
                              const DiskContext& context) {
  LARDER_ASSIGN(const auto putter, make_putter(context, kBesideBytes, kBesideBatch, "bench/push"));
  for (int push = 0; push < kPushesMax; ++push) {
    for (std::uint64_t bytes = 0; bytes < context.hot_bytes; bytes += kBesideBytes * kBesideBatch) {
      LARDER_TRY(putter->put());
    }
    LARDER_ASSIGN(const bool out,
                  all_in(client, keys, [](Tier tier) { return tier == Tier::kCold; }));
    if (out) return {};
  }
  return fail(Code::kInternal, "values that were to be read from disk stay in DRAM");
}

Result<void> wait_on_disk(Client& client, std::span<const std::string_view> keys) {
  env::Clock& clock = env::system_clock();
  const env::Nanos deadline = clock.now() + kOnDiskPatience;
  while (true) {
    LARDER_ASSIGN(const bool there,
                  all_in(client, keys, [](Tier tier) { return tier != Tier::kHot; }));
    if (there) return {};
    if (clock.now() > deadline) {
      return fail(Code::kDeadlineExceeded, "the values did not get to the disk in time");
    }
    clock.sleep(kOnDiskPause);
  }
}

}  // namespace larder::apps
