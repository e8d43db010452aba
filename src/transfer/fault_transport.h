// SPDX-License-Identifier: Apache-2.0
// A transport that misbehaves on purpose, by a script or from a seed: for tests and the simulator.
// It claims any type and any abilities, and really moves the bytes. It has no clock and no thread:
// its time are step()s, from whichever threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <random>
#include <span>
#include <vector>

#include "transfer/transport.h"

namespace larder::transfer {

// What becomes of one piece.
struct Fate {
  static constexpr unsigned kNever = std::numeric_limits<unsigned>::max();

  bool at_once = false;   // it ends within submit()
  unsigned steps = 1;     // that it takes otherwise; kNever: until it is cancelled or drained
  double part = 1;        // of its bytes, from the first on, that move
  Code code = Code::kOk;  // that it ends with; kOk takes all bytes, whatever `part` says
  // Steps of going on once it was cancelled: a read puts noise into local memory, a write reads it.
  unsigned after_cancel = 0;
  bool ends_in_cancel = false;       // within cancel(), within a second one if it goes on
  bool completes_cancelled = false;  // it ends as if nobody had cancelled it
  bool noisy = false;         // each step of a read puts noise somewhere into its local memory
  unsigned extra_ends = 0;    // its end is reported as often again
  unsigned stale_ends = 0;    // with its end come some of pieces that were over before
  unsigned foreign_ends = 0;  // and some with tokens that nobody ever gave
};

// Probabilities are 0 to 1, drawn once per piece. All zero: each piece completes with the next
// step, in order, and a cancelled one ends with the next step.
struct FaultTransportOptions {
  TransportType type = TransportType::kTcp;
  TransportAbilities abilities = {.moves = {Ability::kCpuToCpu, Ability::kCpuToFile}};
  // What file segments are made of; lent, may be shared. In a memory segment the target is the
  // address itself. A piece that goes beyond the end gets kConflict.
  std::span<std::byte> file = {};
  std::uint64_t seed = 1;
  double at_once = 0;
  double late = 0;
  double stuck = 0;     // never ends by itself
  double error = 0;     // nothing moved
  double partial = 0;   // an error after some of the bytes
  double too_late = 0;  // an error after all of the bytes
  double after_cancel = 0;
  double ends_in_cancel = 0;
  double completes_cancelled = 0;
  double noisy = 0;
  double duplicate = 0;
  double stale = 0;
  double foreign = 0;
  double reorder = 0;  // per step: what ends, ends in any order
  unsigned steps_max = 8;
  std::vector<Code> codes = {Code::kUnavailable};  // that errors have
};

// What happened so far.
struct FaultTransportCounts {
  std::uint64_t pieces = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;  // that ended with kCancelled
  std::uint64_t partial = 0;
  std::uint64_t too_late = 0;
  std::uint64_t at_once = 0;
  std::uint64_t after_cancel = 0;  // steps of pieces that went on though cancelled
  std::uint64_t strays = 0;        // ends that were none: extra, stale and foreign ones
};

// Any thread.
class FaultTransport final : public Transport {
 public:
  static constexpr std::byte kNoise{0xDD};

  FaultTransport(const FaultTransportOptions& options, PieceSink& sink);

  // The fates of the next pieces, one each; those after them are drawn from the seed.
  void script(std::span<const Fate> fates);
  // One step for every piece that is held. How many ended.
  std::size_t step();
  // What is held ends with kUnavailable as the steps go on, and what comes ends at once.
  void die();
  // Copies of the pieces that it has, oldest first.
  std::vector<Piece> held() const;
  FaultTransportCounts counts() const;

  TransportType type() const noexcept override { return options_.type; }
  TransportAbilities abilities() const noexcept override { return options_.abilities; }
  void submit(std::span<const Piece* const> pieces) override;
  void cancel(PieceToken token) noexcept override;
  bool help() override { return step() > 0; }
  // Steps until nothing is held, also what never ends otherwise.
  bool drain(std::int64_t deadline) override;

 private:
  struct Held {
    const Piece* piece = nullptr;
    Fate fate;
    unsigned left = 0;  // steps
    bool cancelled = false;
  };
  struct End {
    PieceToken token;
    Code code = Code::kOk;
    bool real = false;
  };
  static constexpr std::size_t kOverMax = 64;  // ended tokens that are remembered

  bool chance(double probability);
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  Fate draw();
  Fate next_fate();
  std::byte* target_of(const Piece& piece) const;
  void move(const Piece& piece, std::uint64_t bytes) const;
  void disturb(const Held& held);
  std::vector<Held> advance();
  void finish(const Held& held, std::vector<End>& ends);
  void count_end(const Held& held, Code code);
  void add_strays(const Held& held, std::vector<End>& ends);
  void report(std::span<const End> ends);

  const FaultTransportOptions options_;
  PieceSink& sink_;
  mutable std::mutex mutex_;  // the rest
  std::mt19937_64 random_;
  std::deque<Fate> script_;
  std::vector<Held> held_;
  std::deque<PieceToken> over_;
  bool dead_ = false;
  bool draining_ = false;
  FaultTransportCounts counts_;
};

}  // namespace larder::transfer
