// SPDX-License-Identifier: Apache-2.0
// Reads a device that no store has open, and says what is on it. Nothing is written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "block/block_device.h"
#include "extent/manifest.h"
#include "extent/record_id.h"
#include "extent/record_store.h"

namespace larder::extent {

// Of one superblock. Where `error` is not empty the rest may be nothing.
struct SuperblockReport {
  std::uint64_t offset = 0;
  std::string error;
  std::uint32_t version = 0;
  Uuid uuid;
  std::uint64_t generation = 0;  // how often it was written
  bool clean = false;
  std::uint64_t epoch = 0;
  std::string owner;
  std::uint64_t device_bytes = 0;
  std::uint32_t block_bytes = 0;
  std::uint64_t cells = 0;
  std::uint64_t data_offset = 0;
  std::uint64_t data_bytes = 0;
};

struct RecordInfo {
  RecordId id;
  std::uint64_t sequence = 0;
  std::uint32_t cells = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t checksum = 0;  // of the payload, as the header says
  std::vector<Extent> extents;
  Manifest manifest;
  std::optional<bool> payload_good;  // when it was verified
};

struct InspectOptions {
  bool verify_payloads = false;
  // Called in order of cells; false: stop.
  std::function<bool(const RecordInfo&)> record = nullptr;
  std::function<void(std::uint64_t cell, const std::string& what)> damage = nullptr;
};

struct InspectReport {
  std::vector<SuperblockReport> superblocks;
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t tombstones = 0;
  std::uint64_t cells_seen = 0;
  std::uint64_t damaged_headers = 0;
  std::uint64_t damaged_payloads = 0;
  std::uint64_t overlapping = 0;  // records that share space with one of a higher sequence
  std::uint64_t bytes_read = 0;
  std::int64_t scan_nanos = 0;  // of the headers

  bool good() const noexcept;  // nothing is damaged
};

// Errors: as RecordStore::open() when the store cannot be used; `report` then still has the
// superblocks. Else as of the device.
Result<void> inspect(block::BlockDevice& device, const InspectOptions& options,
                     InspectReport& report);

}  // namespace larder::extent
