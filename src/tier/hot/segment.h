// SPDX-License-Identifier: Apache-2.0
// The memory of the hot tier: a memfd that the node writes and everybody else may only read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "env/fd.h"
#include "larder/status.h"

namespace larder::tier {

enum class PageMode : std::uint8_t {
  kAuto = 0,    // 2 MiB pages if enough are free, else transparent ones if allowed, else 4 KiB
  k4K = 1,      // plain pages
  kThp = 2,     // transparent huge pages, where shmem_enabled allows them
  kHuge2M = 3,  // explicit huge pages (vm.nr_hugepages)
};

inline constexpr std::uint64_t kSegmentBytesMax = 64ULL << 40;  // 64 TiB

struct SegmentOptions {
  std::uint64_t bytes = 0;  // rounded up to whole pages
  PageMode pages = PageMode::kAuto;
  bool populate = true;   // touch every page now; a first touch later costs 3 to 5 times a copy
  bool fallback = false;  // kThp and kHuge2M: take smaller pages, with a note, rather than fail
  std::string name = "larder-segment";  // for /proc/PID/maps; 1 to 200 bytes
};

// A mapping of shared memory; unmaps itself. Movable, not copyable.
class SharedMapping {
 public:
  SharedMapping() = default;
  SharedMapping(std::byte* data, std::uint64_t bytes) noexcept : data_(data), bytes_(bytes) {}
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();
  std::byte* data() const noexcept { return data_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// The owner's side. Once created the memfd is sealed: its size is fixed and the kernel refuses any
// further writable mapping and any write() to it, by anybody, this process included; only the
// mapping here writes. Threads: all methods const; who writes where is the caller's affair.
class Segment {
 public:
  // Checks that the memory is there, makes, maps, populates (blocks for as long as that takes, some
  // seconds for 10 GiB) and seals. Errors: kInvalidArgument (options), kExhausted (not enough
  // memory: says wanted and available bytes), kUnsupported (no such pages here and no fallback).
  static Result<Segment> create(const SegmentOptions& options);

  int fd() const noexcept { return fd_.get(); }  // stays ours; pass it on with SCM_RIGHTS
  std::byte* data() const noexcept { return mapping_.data(); }
  std::uint64_t bytes() const noexcept { return mapping_.bytes(); }
  // What bytes() is a multiple of and data() is aligned to: 4096 or 2 MiB.
  std::uint64_t page_bytes() const noexcept;
  std::string_view page_kind() const noexcept;  // "4KiB", "thp" or "2MiB"
  // Why the pages are smaller than asked, or than would be best; empty when they are not.
  const std::string& page_note() const noexcept { return page_note_; }

 private:
  Segment() = default;

  env::Fd fd_;
  SharedMapping mapping_;
  PageMode pages_ = PageMode::k4K;
  std::string page_note_;
};

struct MapOptions {
  bool populate = false;    // fill the page tables now, so that no read faults later
  bool huge_pages = false;  // the owner said "thp": map it with huge pages where the kernel can
};

// A reader's side of somebody else's segment.
class MappedSegment {
 public:
  // Maps `fd` (stays the caller's, may be closed afterwards) read-only. It must be a memfd of
  // exactly `bytes` bytes that can never shrink, or a read could end in SIGBUS. Errors:
  // kInvalidArgument (bytes), kCorrupt (it is something else), kExhausted (no address space).
  static Result<MappedSegment> map(int fd, std::uint64_t bytes, const MapOptions& options = {});

  std::span<const std::byte> view() const noexcept { return {data(), mapping_.bytes()}; }
  const std::byte* data() const noexcept { return mapping_.data(); }
  std::uint64_t bytes() const noexcept { return mapping_.bytes(); }

 private:
  explicit MappedSegment(SharedMapping mapping) noexcept : mapping_(std::move(mapping)) {}
  SharedMapping mapping_;
};

}  // namespace larder::tier
