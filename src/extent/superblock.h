// SPDX-License-Identifier: Apache-2.0
// The page that says that there is a record store, in two copies. Each is one sector, so a loss of
// power leaves the old or the new of it; and they are written one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "block/block_device.h"
#include "extent/layout.h"
#include "extent/uuid.h"
#include "larder/status.h"

namespace larder::extent {

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::size_t kSuperblockBytes = 512;
inline constexpr std::size_t kOwnerBytesMax = 160;

struct Superblock {
  Uuid uuid;
  std::uint64_t generation = 0;  // of these pages: the higher one counts
  std::uint64_t opens = 0;       // how often it was opened for writing; high bits of sequences
  std::uint64_t epoch = 0;       // the highest of those who did
  bool clean = true;
  Layout layout;
  std::string owner;  // at most kOwnerBytesMax

  bool operator==(const Superblock&) const = default;
};

// `copy`: 0 or 1. An owner that is too long is cut.
std::array<std::byte, kSuperblockBytes> encode(const Superblock& superblock, std::size_t copy);

// What of the page at the place of `copy` can be believed. Errors:
//   kNotFound         all zeros
//   kVersionMismatch  of a newer version; with `whole` its CRC is right by the rules of this one
//   kCorrupt          no superblock, rotten, or the numbers in it cannot be
struct SuperblockPage {
  Result<Superblock> superblock;
  bool marked = false;  // it begins as a superblock does
  bool whole = false;   // and its CRC is right
  std::uint32_t version = 0;
};
SuperblockPage decode_superblock(std::span<const std::byte, kSuperblockBytes> page,
                                 std::size_t copy);

struct FoundSuperblocks {
  std::array<SuperblockPage, 2> pages;
  std::array<std::uint64_t, 2> offsets{};
};
// Both copies of a device, as they are. The second is where the first says, else at the device's
// end. Errors of the device only when no copy could be read.
Result<FoundSuperblocks> read_superblocks(block::BlockQueue& queue);

// The one that counts. `damaged`: how many of the two cannot be believed. Errors as
// RecordStore::open(); `name` is the device's.
Result<Superblock> choose(const FoundSuperblocks& found, const block::Geometry& geometry,
                          const std::string& name, std::uint64_t& damaged);

// That the device still holds this store, and nobody has opened it for writing since.
block::Witness witness_of(const Superblock& superblock, const block::Geometry& geometry,
                          const std::string& name);

// Both copies, each durable before the next begins; `first` is written first. `purpose`: why.
Result<void> write_superblocks(block::BlockQueue& queue, const Superblock& superblock,
                               std::size_t first, qos::Purpose purpose);

}  // namespace larder::extent
