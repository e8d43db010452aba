// SPDX-License-Identifier: Apache-2.0
// What one transfer case is measured with: the engine, its memory, and the other end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "apps/bench/disk_file.h"
#include "apps/bench/memory.h"
#include "apps/bench/options.h"
#include "apps/bench/transfer_case.h"
#include "apps/bench/transfer_peer.h"
#include "env/temp_directory.h"
#include "larder/status.h"
#include "larder/transfer.h"

namespace larder::apps {

// Bytes at both ends. Walks never visit neighbours in turn where there are four places or more
// (memory.h), so that the engine cannot merge what a case asks for one by one.
struct BedSizes {
  std::uint64_t local = 0;
  std::uint64_t target = 0;  // of memory
};
// At least `set_bytes` at the target, and room for every request of all batches. kInvalidArgument:
// more than a benchmark should take.
Result<BedSizes> bed_sizes(const TransferCase& name, std::uint64_t set_bytes);
// For a case on a file of that size. kInvalidArgument: it is too small.
Result<void> check_file_room(const TransferCase& name, std::uint64_t file_bytes);

class TransferBed {
 public:
  // `file` is for the file cases only, and outlives the bed. kUnsupported: this build's engine
  // cannot reach such a target.
  static Result<std::unique_ptr<TransferBed>> open(const TransferCase& name,
                                                   const BenchOptions& options,
                                                   const DiskFile* file);

  TransferEngine& engine() const noexcept { return *engine_; }
  SegmentId target() const noexcept { return target_; }
  std::uint64_t target_begin() const noexcept { return target_begin_; }  // an offset in target()
  std::uint64_t target_bytes() const noexcept { return target_bytes_; }
  // The engine's memory, touched; the limits use it too, unless it is a device's.
  std::span<std::byte> local() const noexcept { return local_; }
  bool on_device() const noexcept { return on_device_; }
  // Memory of this process for the limits: of the kind and size that the target has for the copy
  // limit, host memory in large pages, as the engine stages through, where local() is a device's.
  std::span<std::byte> beside() const noexcept { return beside_; }
  // Of the threads' own, a request's size for each, and as much again for what is on a device; only
  // with --verify.
  std::span<std::byte> scratch() const noexcept { return scratch_; }
  // Between a device's memory and the host's, by the engine.
  Result<void> copy(Opcode op, std::byte* device, std::byte* host, std::uint64_t bytes) const;

 private:
  TransferBed() = default;
  Result<std::span<std::byte>> allocate(std::uint64_t bytes, std::uint64_t seed) const;
  Result<void> open_file(const DiskFile& file);
  Result<void> open_peer(const TransferCase& name, const BenchOptions& options,
                         std::uint64_t bytes);
  Result<void> open_device(const BenchOptions& options, std::uint64_t bytes);
  Result<void> open_local(const BenchOptions& options, std::uint64_t bytes);

  std::optional<env::TempDirectory> directory_;  // of the peer's socket
  std::unique_ptr<TransferPeer> peer_;
  Mapping host_;  // the engine's, lent
  std::unique_ptr<TransferEngine> engine_;
  SegmentId target_;
  std::uint64_t target_begin_ = 0;
  std::uint64_t target_bytes_ = 0;
  std::span<std::byte> local_;
  std::span<std::byte> beside_;
  bool on_device_ = false;
  std::span<std::byte> scratch_;
};

}  // namespace larder::apps
