// SPDX-License-Identifier: Apache-2.0
// Which object the hot tier drops next: CLOCK as a queue, with credits, and ghosts of what it
// dropped.
//
// New entries join the tail with no credit; a hit sets the credit to 3. The hand looks at the head:
// with credit left the entry pays one and goes to the tail, without it is the victim. Of a victim a
// fingerprint of its key stays, a ghost; when that key comes back it starts with credit 3.
//
// Why these numbers: measured on the two FAST'25 traces (credit: Mooncake, Apache-2.0), evicting
// from 90 % down to 80 %, hits = blocks of the longest present prefix over blocks asked; then the
// missing blocks are put, and eviction follows the request. In percent, conversation / synthetic,
// with room for 20,000 blocks:
//   LRU, all 20,000 blocks, no watermarks                    28.75 / 57.15
//   no ghosts, a hit sets 2 (3)                              28.19 (28.06) / 56.10 (55.79)
//   20,000 ghosts, a hit sets 2, a ghost gives 2 (3)         28.55 (28.54) / 56.59 (56.46)
//   20,000 ghosts, a hit sets 3, a ghost gives 2 (4)         28.51 (28.52) / 57.25 (57.14)
//   20,000 ghosts, a hit sets 3, a ghost gives 3             28.66 / 57.33   <- the default here
//   the same, 10,000 (40,000) ghosts                         28.42 (28.66) / 56.77 (57.33)
//   20,000 ghosts, a hit sets 4, a ghost gives 4             28.38 / 57.33
//   the ring below (32,768 places here), 3 and 3             28.67 / 57.33
//   the same, evicting inside the put that crosses the mark  28.74 / 57.08
//   the same at 95/90                                        29.36 / 58.25
// Room for 5,000: LRU 11.04 / 27.91, no ghosts 9.87 / 24.24, the ring 12.37 / 26.33. For 50,000:
// 35.46 / 63.96, 34.43 / 63.96, 34.28 / 63.96. Crediting a put of a present key moves it by < 0.1.
// Ghosts beyond once the entries gain nothing, so the ring follows the entries: it doubles while it
// is smaller than the entries at an eviction, hence 12 to 24 bytes of ghosts an entry.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "larder/status.h"

namespace larder::tier {

struct ClockOptions {
  std::uint32_t handles_max = 1U << 24;  // handles are 0 .. handles_max - 1; at most 2^31
  std::uint8_t fresh_credit = 0;         // of a new entry
  std::uint8_t hit_credit = 3;           // a hit sets this; at most 15
  std::uint8_t ghost_credit = 3;         // of a new entry whose key was evicted lately; at most 15
  std::uint32_t ghosts_max = 1U << 20;   // rounded down to a power of two; 0: none; at most 2^30
};

// A bounded queue of fingerprints in which one is found by its value: a ring, and an open-addressed
// table of positions in it. 12 bytes a place, made as needed. Not thread safe.
class GhostList {
 public:
  explicit GhostList(std::uint32_t places_max = 0) noexcept : places_max_(places_max) {}
  // Puts it in as the youngest, in the place of the oldest when full. Grows, by doubling, while
  // there are fewer than `wanted` places. 0 is no fingerprint.
  void remember(std::uint32_t fingerprint, std::uint64_t wanted) noexcept;
  // Takes it out; false when it was not in.
  bool take(std::uint32_t fingerprint) noexcept;
  std::uint32_t places() const noexcept { return static_cast<std::uint32_t>(ring_.size()); }
  std::uint64_t report_memory_bytes() const noexcept;

 private:
  std::uint32_t home(std::uint32_t fingerprint) const noexcept;
  std::uint32_t find(std::uint32_t fingerprint) const noexcept;  // its cell, or an empty one
  void add(std::uint32_t place) noexcept;
  void clear_cell(std::uint32_t cell) noexcept;
  void grow() noexcept;

  std::uint32_t places_max_;
  std::uint32_t next_ = 0;            // the oldest place, which is written next
  std::vector<std::uint32_t> ring_;   // fingerprints; 0: never used, or taken out
  std::vector<std::uint32_t> cells_;  // twice as many: place + 1; 0: empty
};

// Threads: touch() and credit() from any thread at any time; all else under the caller's lock.
// Memory: 17 bytes per handle, in chunks of 4096 handles made when first used, never moved; and the
// ghosts.
class ClockPolicy {
 public:
  // Errors: kInvalidArgument (options), kExhausted (memory).
  static Result<ClockPolicy> create(const ClockOptions& options = {});
  ClockPolicy(ClockPolicy&&) noexcept;
  ClockPolicy& operator=(ClockPolicy&&) noexcept;
  ~ClockPolicy();

  // The fingerprint of a key whose hash is `hash`; never 0.
  static std::uint32_t fingerprint(std::uint64_t hash) noexcept;
  // Makes room for the handle, so that insert() cannot lack memory. False: out of range, no memory.
  bool prepare(std::uint32_t handle) noexcept { return ensure_chunk(handle); }
  // False when the handle is out of range, already in, or there is no memory for its chunk. The
  // fingerprint's ghost, if there is one, is used up. 0: none.
  bool insert(std::uint32_t handle, std::uint64_t bytes, std::uint32_t fingerprint = 0) noexcept;
  // An entry was evicted, not removed.
  void remember(std::uint32_t fingerprint) noexcept { ghosts_.remember(fingerprint, entries_); }
  // False when it is not in.
  bool erase(std::uint32_t handle) noexcept;
  bool contains(std::uint32_t handle) const noexcept;

  // A hit. Unknown handles are ignored. A touch that races with erase() and a new insert() of the
  // same handle may credit the newcomer: it then stays a little longer, no more.
  void touch(std::uint32_t handle) noexcept;
  std::uint8_t credit(std::uint32_t handle) const noexcept;

  // The first entry without credit for which `evictable` holds; it stays in, now at the tail, until
  // the caller erases it. Entries passed over go to the tail too. Empty after `steps_max` entries
  // were looked at (0: full_steps()).
  std::optional<std::uint32_t> next_victim(const std::function<bool(std::uint32_t)>& evictable,
                                           std::uint64_t steps_max = 0);

  // After so many steps without a touch every entry was looked at without credit.
  std::uint64_t full_steps() const noexcept;

  std::uint64_t entries() const noexcept { return entries_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t report_memory_bytes() const noexcept;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  static constexpr std::uint32_t kAbsent = 0xFFFFFFFEU;  // in `before`: not in the queue
  static constexpr std::uint32_t kChunk = 4096;

  struct Entry {
    std::uint64_t bytes = 0;
    std::uint32_t before = kAbsent;
    std::uint32_t after = kNone;
  };
  struct Chunk;

  explicit ClockPolicy(const ClockOptions& options) noexcept
      : options_(options), ghosts_(options.ghosts_max) {}
  Chunk* chunk_of(std::uint32_t handle) const noexcept;
  Entry* entry_of(std::uint32_t handle) const noexcept;  // null when its chunk is not there
  bool ensure_chunk(std::uint32_t handle) noexcept;
  void push_tail(std::uint32_t handle, Entry& entry) noexcept;
  void unlink(Entry& entry) noexcept;
  void drop_chunks() noexcept;

  ClockOptions options_;
  std::uint32_t chunk_slots_ = 0;
  std::uint32_t chunks_made_ = 0;
  std::unique_ptr<std::atomic<Chunk*>[]> chunks_;  // fixed in size, so that touch() needs no lock
  std::uint32_t head_ = kNone;
  std::uint32_t tail_ = kNone;
  std::uint64_t entries_ = 0;
  std::uint64_t bytes_ = 0;
  GhostList ghosts_;
};

}  // namespace larder::tier
