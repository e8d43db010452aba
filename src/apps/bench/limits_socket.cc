// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/bench/limits.h"
#include "base/units.h"

namespace larder::apps {
namespace {

// Long enough that the one round trip of a stream exchange is lost in it.
constexpr std::uint64_t kStreamExchangeBytes = 64ULL << 20;

std::string wait_text(Wait wait) {
  if (wait == Wait::kBlock) return "block";
  return wait == Wait::kSpin ? "spin" : "brief";
}
std::string path_name_of(BenchPath path) {
  return path == BenchPath::kTcp ? "tcp" : "unix";
}

// The connections of a probe and their share of its memory.
struct Worker {
  RawConnection connection;
  Slots source;
  Slots sink;
};

Result<std::vector<Worker>> connect_workers(const RawPeer& peer, const ExchangeShape& shape,
                                            std::size_t source_slot, std::size_t sink_slot,
                                            std::span<std::byte> memory) {
  std::vector<Worker> workers;
  for (std::size_t i = 0; i < shape.connections; ++i) {
    const auto share = share_of(memory, i, shape.connections);
    if (share.size() < std::max(source_slot, sink_slot)) {
      return fail(Code::kInvalidArgument, "the buffers of a raw-socket limit are too small");
    }
    LARDER_ASSIGN(RawConnection connection, RawConnection::connect(peer.address(shape.path)));
    workers.push_back({std::move(connection), Slots(share, source_slot), Slots(share, sink_slot)});
  }
  return workers;
}

class ExchangeLimit : public Probe {
 public:
  ExchangeLimit(std::string name, const ExchangeShape& shape, std::vector<Worker> workers)
      : name_(std::move(name)), shape_(shape), workers_(std::move(workers)) {}

  std::string name() const override { return name_; }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t items_per_call() const override { return shape_.items; }
  std::uint64_t bytes_per_call() const override { return shape_.value_bytes; }
  Result<void> begin() override { return set_wait(shape_.wait); }
  Result<void> end() override { return set_wait(Wait::kBlock); }
  Result<void> step(std::size_t thread) override {
    Worker& worker = workers_[thread];
    return worker.connection.exchange(shape_.up_bytes, worker.source, shape_.down_bytes,
                                      worker.sink);
  }

 private:
  Result<void> set_wait(Wait wait) {
    for (Worker& worker : workers_) LARDER_TRY(worker.connection.set_wait(wait));
    return {};
  }
  std::string name_;
  ExchangeShape shape_;
  std::vector<Worker> workers_;
};

class PipelineLimit final : public Probe {
 public:
  PipelineLimit(std::string name, const ExchangeShape& shape, std::size_t depth, std::size_t burst,
                Worker worker)
      : name_(std::move(name)),
        shape_(shape),
        depth_(depth),
        burst_(burst),
        worker_(std::move(worker)) {}

  std::string name() const override { return name_; }
  std::uint64_t bytes_per_call() const override { return shape_.value_bytes; }
  std::size_t calls_per_span() const override { return 2 * depth_; }
  Result<void> begin() override {
    LARDER_TRY(worker_.connection.set_wait(shape_.wait));
    due_ = 0;
    return worker_.connection.ask(depth_, shape_.down_bytes);
  }
  Result<void> step(std::size_t) override {
    LARDER_TRY(worker_.connection.answer(shape_.down_bytes, worker_.sink));
    if (++due_ < burst_) return {};
    return worker_.connection.ask(std::exchange(due_, 0), shape_.down_bytes);
  }
  Result<void> end() override {
    for (std::size_t left = depth_ - due_; left > 0; --left) {
      LARDER_TRY(worker_.connection.answer(shape_.down_bytes, worker_.sink));
    }
    return worker_.connection.set_wait(Wait::kBlock);
  }

 private:
  std::string name_;
  ExchangeShape shape_;
  const std::size_t depth_;
  const std::size_t burst_;
  std::size_t due_ = 0;  // answers without a new request
  Worker worker_;
};

class RoundTripLookups final : public Probe {
 public:
  RoundTripLookups(ProbePtr exchange, ProbePtr lookups)
      : exchange_(std::move(exchange)), lookups_(std::move(lookups)) {}
  std::string name() const override { return exchange_->name() + " + " + lookups_->name(); }
  std::size_t threads() const override { return exchange_->threads(); }
  std::uint64_t items_per_call() const override { return exchange_->items_per_call(); }
  std::uint64_t bytes_per_call() const override { return exchange_->bytes_per_call(); }
  Result<void> begin() override { return exchange_->begin(); }
  Result<void> end() override { return exchange_->end(); }
  Result<void> step(std::size_t thread) override {
    LARDER_TRY(exchange_->step(thread));
    return lookups_->step(thread);
  }

 private:
  ProbePtr exchange_;
  ProbePtr lookups_;
};

// A message larger than a slot would be cut over several; the far side always is.
std::size_t slot_of(std::uint64_t bytes) {
  return std::max<std::size_t>(static_cast<std::size_t>(bytes), kRawHeaderBytes);
}

}  // namespace

// Judged by latency, both sides wait in the same way: spinning, of which the brief kind is the
// better one where other processes want the cores. Judged by throughput, whichever way of waiting
// moves more bytes is the limit (both ends are busy then: plain spinning has nothing to add).
std::vector<Wait> waits_for(Measure measure, Wait ours) {
  if (ours == Wait::kBlock) return {Wait::kBlock};
  if (measure == Measure::kLatency) return {Wait::kSpin, Wait::kBrief};
  return {Wait::kBrief, Wait::kBlock};
}

Result<ProbePtr> make_exchange_limit(const RawPeer& peer, const ExchangeShape& shape,
                                     std::span<std::byte> memory) {
  LARDER_ASSIGN(auto workers, connect_workers(peer, shape, slot_of(shape.up_bytes),
                                              slot_of(shape.down_bytes), memory));
  std::string name =
      fmt::format("{} request-reply {}/{} {} x{}", path_name_of(shape.path),
                  base::format_size(kRawHeaderBytes + shape.up_bytes),
                  base::format_size(shape.down_bytes), wait_text(shape.wait), shape.connections);
  return std::make_unique<ExchangeLimit>(std::move(name), shape, std::move(workers));
}

Result<ProbePtr> make_pipeline_limit(const RawPeer& peer, const ExchangeShape& shape,
                                     std::size_t depth, std::size_t burst,
                                     std::span<std::byte> memory) {
  LARDER_ASSIGN(auto workers,
                connect_workers(peer, shape, kRawHeaderBytes, slot_of(shape.down_bytes), memory));
  std::string name =
      fmt::format("{} request-reply {}/{} {} {} in flight, {} at a time", path_name_of(shape.path),
                  base::format_size(kRawHeaderBytes), base::format_size(shape.down_bytes),
                  wait_text(shape.wait), depth, burst);
  return std::make_unique<PipelineLimit>(std::move(name), shape, depth, burst,
                                         std::move(workers.front()));
}

Result<ProbePtr> make_stream_limit(const RawPeer& peer, BenchPath path, Wait wait,
                                   Direction direction, std::size_t connections,
                                   std::uint64_t value_bytes, std::span<std::byte> memory) {
  const bool up = direction == Direction::kUp;
  ExchangeShape shape;
  shape.path = path;
  shape.wait = wait;
  shape.connections = connections;
  shape.up_bytes = up ? kStreamExchangeBytes : 0;
  shape.down_bytes = up ? kRawHeaderBytes : kStreamExchangeBytes;
  shape.value_bytes = kStreamExchangeBytes;
  shape.items = std::max<std::uint64_t>(kStreamExchangeBytes / value_bytes, 1);
  LARDER_ASSIGN(auto workers, connect_workers(peer, shape, kRawWriteBytes, kRawWriteBytes, memory));
  std::string name = fmt::format("{} stream {} 1MiB writes {} x{}", path_name_of(path),
                                 up ? "up" : "down", wait_text(wait), connections);
  return std::make_unique<ExchangeLimit>(std::move(name), shape, std::move(workers));
}

Result<ProbePtr> make_round_trip_lookup_limit(const RawPeer& peer, const ExchangeShape& shape,
                                              std::span<std::byte> memory,
                                              std::span<const std::string_view> keys,
                                              std::size_t per_call) {
  LARDER_ASSIGN(ProbePtr exchange, make_exchange_limit(peer, shape, memory));
  LARDER_ASSIGN(ProbePtr lookups, make_lookup_limit(keys, per_call, shape.connections));
  return std::make_unique<RoundTripLookups>(std::move(exchange), std::move(lookups));
}

}  // namespace larder::apps
