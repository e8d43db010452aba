// SPDX-License-Identifier: Apache-2.0
// A backend that misbehaves on purpose, from a seed: for tests and the simulator. Around a
// PoolBackend without threads a run is the same every time.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "fileio/io_backend.h"

namespace larder::fileio {

// Probabilities are 0 to 1, drawn once per operation. All zero: nothing is changed.
struct FaultOptions {
  std::uint64_t seed = 1;
  double partial = 0;          // fewer bytes are reported than asked, and maybe fewer moved
  double eio = 0;              // -EIO, whether or not the bytes were moved
  double eagain = 0;           // -EAGAIN, nothing moved
  double late_transfer = 0;    // the bytes move only some polls later: DMA that still runs
  double late_completion = 0;  // the bytes have moved, but that is reported some polls later
  double lost = 0;             // never reported; the bytes move as late as can be: during quiesce()
  double reorder = 0;          // not the oldest completion comes next
  double duplicate = 0;        // a completion comes a second time, some polls later
  double foreign = 0;          // a completion comes with a tag that nobody gave
  double overlong = 0;         // more bytes are reported than asked
  unsigned late_polls_max = 8;
  std::uint64_t death_after = 0;  // operations, then everything is kUnavailable; 0: never
  // Short transfers move a multiple of this many bytes, as O_DIRECT does.
  std::uint32_t partial_unit = 512;
};

// How often each fault happened.
struct FaultCounts {
  std::uint64_t partial = 0;
  std::uint64_t eio = 0;
  std::uint64_t eagain = 0;
  std::uint64_t late = 0;
  std::uint64_t lost = 0;
  std::uint64_t duplicate = 0;
  std::uint64_t foreign = 0;
  std::uint64_t overlong = 0;
};

// Has the depth of `inner`. Threads as IoBackend says.
class FaultBackend final : public IoBackend {
 public:
  FaultBackend(std::unique_ptr<IoBackend> inner, const FaultOptions& options);
  // What was held back still moves its bytes, as it would in hardware.
  ~FaultBackend() override;

  std::string_view name() const noexcept override { return "fault"; }
  std::size_t depth() const noexcept override { return inner_->depth(); }
  std::size_t in_flight() const noexcept override { return in_flight_; }
  Result<std::size_t> submit(std::span<const IoOp> ops) override;
  Result<void> start() override;
  Result<std::size_t> poll(std::span<IoDone> into) override;
  Result<std::size_t> wait(std::span<IoDone> into, env::Nanos deadline) override;
  void wake() noexcept override { inner_->wake(); }
  bool quiesce(env::Nanos deadline) noexcept override;
  bool add_buffer(std::span<std::byte> memory) noexcept override {
    return inner_->add_buffer(memory);
  }
  void remove_buffer(std::span<std::byte> memory) noexcept override {
    inner_->remove_buffer(memory);
  }

  // The faults so far; on the thread that uses the backend.
  const FaultCounts& counts() const noexcept { return counts_; }

 private:
  enum class State : std::uint8_t { kFree, kBefore, kRunning, kAfter, kReady };
  struct Slot {
    State state = State::kFree;
    IoOp op;                  // as the inner backend gets it, but for the tag
    std::uint32_t asked = 0;  // bytes
    unsigned polls = 0;       // until the next state
    unsigned hold = 0;        // polls to hold the completion back
    bool lost = false;
    std::int64_t report_max = 0;  // bytes
    std::int64_t instead = 0;     // reported instead of the result, when not 0
    std::int64_t result = 0;
  };
  struct Echo {
    IoDone done;
    unsigned polls = 0;
  };

  bool chance(double probability);
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  void draw(Slot& slot);
  void draw_partial(Slot& slot);
  bool begin(std::size_t index);
  void finish(std::size_t index, std::int64_t result);
  void collect();
  void advance();
  bool waits_for_polls() const;
  std::size_t give(std::span<IoDone> into);
  IoDone give_slot();
  void release(std::size_t index);
  Result<std::size_t> dead() const;

  std::unique_ptr<IoBackend> inner_;
  const FaultOptions options_;
  std::mt19937_64 random_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
  std::vector<std::size_t> ready_;  // slots, oldest completion first
  std::vector<Echo> echoes_;
  std::vector<IoDone> inner_done_;
  std::size_t in_flight_ = 0;
  std::uint64_t seen_ = 0;  // operations
  bool dead_ = false;
  FaultCounts counts_;
};

}  // namespace larder::fileio
