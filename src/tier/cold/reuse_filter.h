// SPDX-License-Identifier: Apache-2.0
// Whether a block is worth a write to disk: by how often its key was looked up.
//
// Measured on the two FAST'25 traces (credit: Mooncake, Apache-2.0) as tier/hot/clock_policy.h
// says: DRAM of 5,000 blocks, a disk of as many as the column says, both evicting by that CLOCK
// from 90 % to 80 %; a block goes to disk when it is put or, if it was not worth it then, at a hit
// in DRAM; a hit on disk copies it to DRAM. Hits in percent, blocks written in percent of those of
// `all` (205,871 189,607 184,172 and 51,979 43,924 43,924, all that are put), 400,000 bytes of
// memory:
//                     conversation                          synthetic
//                     20,000       50,000       100,000     20,000       50,000       100,000
//   all               28.60 100    34.28 100    36.16 100   57.33 100    63.96 100    63.96 100
//   asked             21.69  22    22.07  23    22.07  24   50.64  35    50.64  42    50.64  42
//   asked, room       23.45  27    26.21  38    29.69  55   55.01  54    63.33  94    63.96 100
//   frequency         21.45  24    22.05  26    22.05  26   50.67  35    50.67  42    50.67  42
//   frequency, room   22.96  30    26.05  40    29.56  57   55.11  54    63.33  94    63.96 100
// `room`: everything is worth it while the disk is below its low mark (fill_first). Other things
// tried, conversation with 20,000: 80,000 (200,000, 4 Mi) bytes of memory asked 19.34 (21.10,
// 21.85), frequency 18.26 (20.24, 21.84); asked, decided when put and never again, 21.42, when DRAM
// drops it 21.88; `all` written when DRAM drops it 29.80 and 97: the disk then keeps what DRAM does
// not.
//
// So: no mode gains hits, even on a small disk, since most hits are the first reuse of a block that
// by then nobody had asked for twice. They save three quarters of the wear for 7 to 14 points of
// hits. Hence `all` is the default; `asked` with fill_first is for disks whose endurance is short.
// Memory: 20 bytes a block of the disk are enough. `frequency` needs more for the same hits; it is
// for streams in which being asked for twice says little, and only often says much.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "larder/status.h"

namespace larder::tier {

enum class ReuseMode : std::uint8_t {
  kAll,        // every block is; lookups cost nothing
  kAsked,      // the last keys looked up are remembered, each by a fingerprint and a count
  kFrequency,  // aged counts of lookups in a sketch (after TinyLFU)
};

// "all", "asked", "frequency". Empty: no such name.
std::string_view reuse_mode_name(ReuseMode mode) noexcept;
std::optional<ReuseMode> parse_reuse_mode(std::string_view name) noexcept;

struct ReuseOptions {
  ReuseMode mode = ReuseMode::kAll;
  std::uint64_t memory_bytes = 4U << 20U;  // 64 to 2^32, rounded down to 64; kAll takes none
  // So many lookups make a key worth it, 1 to 3 (asked) or 16 (frequency). Whoever puts a block has
  // mostly just looked for it in vain, hence 2; where blocks are put unasked, 1.
  std::uint8_t asks_min = 2;
  bool fill_first = true;  // while the disk has room everything is worth it
};

// Any thread, without locks: one cache line a call. Lookups that race may be lost, which costs at
// most one write too few, later.
class ReuseFilter {
 public:
  // Errors: kInvalidArgument (options), kExhausted (memory).
  static Result<ReuseFilter> create(const ReuseOptions& options = {});

  // A request asked for the key, whether it was there or not. Once per request, however many calls
  // that is; keys that are on disk already may be left out. `hash`: 64 well mixed bits of the key.
  void looked_up(std::uint64_t hash) noexcept;
  // Asked when the block is put, and again when it is hit in DRAM or dropped from there.
  // `has_room`: nothing has to leave the disk for it.
  bool is_worth(std::uint64_t hash, bool has_room) const noexcept;
  // As far as it is known: 0 to 3 (asked), 0 to 16 (frequency), 0 (all).
  unsigned asks(std::uint64_t hash) const noexcept;

  ReuseMode mode() const noexcept { return options_.mode; }
  std::uint64_t report_memory_bytes() const noexcept { return lines_ * sizeof(Line); }

 private:
  static constexpr unsigned kWords = 8;
  using Word = std::atomic<std::uint64_t>;
  struct alignas(64) Line {
    std::array<Word, kWords> words{};
  };

  explicit ReuseFilter(const ReuseOptions& options) noexcept : options_(options) {}
  Line& line_of(std::uint64_t hash) const noexcept;
  static void remember(Line& line, std::uint32_t hash) noexcept;
  static unsigned remembered(const Line& line, std::uint32_t hash) noexcept;
  static void count(Line& line, std::uint32_t hash) noexcept;
  static unsigned counted(const Line& line, std::uint32_t hash) noexcept;
  static void age(Line& line) noexcept;

  ReuseOptions options_;
  std::uint64_t lines_ = 0;
  std::unique_ptr<Line[]> table_;
};

}  // namespace larder::tier
