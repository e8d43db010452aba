// SPDX-License-Identifier: Apache-2.0
// What several tests of this folder share: the parts of an engine around transports of the test's
// own, and memory that tells when it was written to.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "env/clock.h"
#include "transfer/fault_transport.h"
#include "transfer/submitter.h"

namespace larder::transfer {

inline constexpr env::Nanos kSoon = 30 * env::kSecond;  // a wait that fails the test
inline env::Nanos within(env::Nanos time) {
  return env::monotonic_now() + time;
}

template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}

// No byte of real data is kPoison or FaultTransport::kNoise.
inline constexpr std::byte kPoison{0xEE};
inline void fill_data(std::span<std::byte> into, std::uint64_t seed) {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(65521);
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] = static_cast<std::byte>((i * 7 + i / 251 * 13) % 0xD0);
    }
    return made;
  }();
  std::size_t from = seed % bytes.size();
  while (!into.empty()) {
    const std::size_t count = std::min(into.size(), bytes.size() - from);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), count, into.begin());
    into = into.subspan(count);
    from = 0;
  }
}
inline void poison(std::span<std::byte> memory) {
  std::fill(memory.begin(), memory.end(), kPoison);
}
inline bool is_poisoned(std::span<const std::byte> memory) {
  return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == kPoison; });
}
inline bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Every type here may be a FaultTransport; memcpy and shm may not, the submitter copies for those.
inline constexpr std::string_view kFaultPolicy =
    "policy:\n"
    "  - {segment_type: memory, transports: [tcp, gds, nds]}\n"
    "  - {segment_type: file, transports: [tcp, gds, nds]}\n";
inline constexpr SliceLimits kSmallSlices = {.high_slice_max = 4096, .low_slice_max = 2048};

inline Piece piece_of(Opcode opcode, std::span<std::byte> local, const Segment& segment,
                      std::uint64_t offset, PieceToken token) {
  Piece piece;
  piece.opcode = opcode;
  piece.local = local.data();
  piece.bytes = local.size();
  piece.target = &segment;
  piece.target_offset = offset;
  piece.token = token;
  return piece;
}

inline TransferRequest request_of(Opcode opcode, std::span<std::byte> local, SegmentId target,
                                  std::uint64_t offset) {
  TransferRequest request;
  request.opcode = opcode;
  request.local = local.data();
  request.length = local.size();
  request.target = target;
  request.target_offset = offset;
  return request;
}
inline TransferRequest request_of(Opcode opcode, std::span<std::byte> local, std::byte* target) {
  return request_of(opcode, local, kLocalSegment, reinterpret_cast<std::uintptr_t>(target));
}

// The parts of an engine in the order in which they go away, as in core.h.
class Rig {
 public:
  explicit Rig(const DispatcherOptions& options = {.jobs_max = 512, .slices = kSmallSlices},
               std::uint64_t quarantine_bytes_max = 1ULL << 30U, std::size_t batches_max = 64)
      : batches(batches_max),
        dispatcher(options, telemetry, breakers),
        quarantine_bytes_max_(quarantine_bytes_max) {}

  qos::Telemetry telemetry{nullptr};
  MemoryTable memory;
  SegmentTable segments;
  Breakers breakers;
  BatchTable batches;
  Dispatcher dispatcher;

  // All before open().
  FaultTransport& add(const FaultTransportOptions& options) {
    auto made = std::make_unique<FaultTransport>(options, dispatcher);
    FaultTransport& transport = *made;
    faults.push_back(&transport);
    add(std::move(made));
    return transport;
  }
  void add(std::unique_ptr<Transport> transport) { transports_.push_back(std::move(transport)); }
  void add_stager(std::unique_ptr<Transport> stager) { stagers_.push_back(std::move(stager)); }
  void open(std::string_view policy = kFaultPolicy) {
    std::vector<InstalledTransport> installed;
    std::vector<Transport*> list;
    for (const auto& transport : transports_) {
      installed.push_back({transport->type(), transport->abilities()});
      list.push_back(transport.get());
    }
    auto parsed = Policy::parse(policy, "test");
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    auto selector = Selector::create(std::move(*parsed), installed);
    ASSERT_TRUE(selector) << selector.error().to_string();
    selector_.emplace(std::move(*selector));
    std::vector<Transport*> stagers;
    for (const auto& stager : stagers_) stagers.push_back(stager.get());
    dispatcher.install(*selector_, std::move(list), std::move(stagers));
    submitter_.emplace(
        SubmitterParts{memory, segments, *selector_, breakers, dispatcher, telemetry},
        quarantine_bytes_max_);
  }

  void add_memory(std::span<std::byte> range, Location location = {MemoryType::kCpu, -1}) {
    std::vector<std::unique_ptr<MemoryRangeRecord>> records;
    records.push_back(std::make_unique<MemoryRangeRecord>());
    records[0]->base = range.data();
    records[0]->bytes = range.size();
    records[0]->location = location;
    const auto added = memory.add(std::move(records));
    EXPECT_TRUE(added) << added.error().to_string();
  }
  Code remove_memory(std::span<std::byte> range) {
    void* const address = range.data();
    return code_of(memory.remove(std::span(&address, 1)));
  }
  SegmentId add_file(std::shared_ptr<fileio::File> file = nullptr) {
    Segment segment;
    segment.type = SegmentType::kFile;
    segment.name = "file";
    segment.same_machine = true;
    segment.file = std::move(file);
    return segments.add(std::move(segment)).value();
  }

  BatchRef batch(std::size_t tasks) { return batches.find(batches.allocate(tasks).value()); }
  Result<std::vector<SubmitResult>> submit(const BatchRef& batch,
                                           std::span<const TransferRequest> requests,
                                           std::function<void()> then = {}) {
    return submitter_->submit(batch, requests, std::move(then));
  }
  Code cancel(Task& task) {
    return code_of(dispatcher.give_up(task, Outcome::kCancelled,
                                      Error(Code::kCancelled, "cancelled by the test")));
  }
  Code time_out(Task& task) {
    return code_of(dispatcher.give_up(task, Outcome::kTimedOut,
                                      Error(Code::kDeadlineExceeded, "timed out by the test")));
  }
  // One step of every FaultTransport. How many pieces ended.
  std::size_t step() {
    std::size_t ended = 0;
    for (FaultTransport* const fault : faults) ended += fault->step();
    return ended;
  }
  // Until nothing more ends; what is stuck stays.
  void settle() {
    for (int quiet = 0; quiet < 24; ++quiet) {
      if (step() > 0) quiet = 0;
    }
  }

  std::vector<FaultTransport*> faults;

 private:
  const std::uint64_t quarantine_bytes_max_;
  std::optional<Selector> selector_;
  std::optional<Submitter> submitter_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<Transport>> stagers_;
};

}  // namespace larder::transfer
