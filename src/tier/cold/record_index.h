// SPDX-License-Identifier: Apache-2.0
// The records of one device as the tier needs them: in the order of the same CLOCK as in DRAM, each
// with the hash under which its route is found.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "extent/record_id.h"
#include "larder/status.h"
#include "tier/hot/clock_policy.h"

namespace larder::tier {

struct IndexedRecord {
  extent::RecordId id;
  std::uint64_t hash = 0;  // of the key
};

// Any thread. Some 33 bytes a record: 17 of CLOCK, 13 here, and ghosts.
class RecordIndex {
 public:
  // `cells` of the device: ids are below. kExhausted: memory; kInvalidArgument: cells.
  static Result<RecordIndex> create(std::uint32_t cells);
  RecordIndex(RecordIndex&& other) noexcept;
  RecordIndex& operator=(RecordIndex&&) = delete;

  // False: no memory, or the cell is in.
  bool insert(extent::RecordId id, std::uint64_t hash, std::uint64_t bytes);
  // False: not this record.
  bool erase(extent::RecordId id) noexcept;
  // It was read, or its hot copy went.
  void touch(extent::RecordId id) noexcept;
  // It is read from disk at `now`, 1 to 255. When it was before; 0: never. A read that races with
  // erase() and a new insert() may be taken for one of the newcomer.
  std::uint8_t stamp(extent::RecordId id, std::uint8_t now) noexcept;
  // The one to go next, which stays until it is erased, and how many to ask for at most: empty when
  // there is none.
  std::optional<IndexedRecord> next_victim();
  // It was dropped to make room: should its key come back, it is worth more.
  void remember(std::uint64_t hash);
  // The first record in a cell from `cell` on.
  std::optional<IndexedRecord> from(std::uint32_t cell) const;

  std::uint64_t records() const;
  std::uint64_t memory_bytes() const;

 private:
  using Stamps = std::unique_ptr<std::uint8_t[], decltype(&std::free)>;
  RecordIndex(ClockPolicy clock, Stamps stamps, std::uint32_t cells)
      : clock_(std::move(clock)), stamps_(std::move(stamps)), cells_(cells) {}

  mutable std::mutex mutex_;
  ClockPolicy clock_;  // from here on under the lock, but for touch()
  Stamps stamps_;      // by cell, atomically, without the lock
  std::uint32_t cells_ = 0;
  std::vector<std::uint64_t> hashes_;       // by cell
  std::vector<std::uint32_t> generations_;  // by cell; 0: none
};

}  // namespace larder::tier
