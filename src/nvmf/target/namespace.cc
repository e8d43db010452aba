// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/namespace.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"
#include "env/random.h"
#include "nvmf/target/disk_worker.h"

namespace larder::nvmf {
namespace {

constexpr std::uint64_t kPage = 4096;
// Below it, writing zeros costs less than the page faults that follow giving pages back.
constexpr std::uint64_t kGiveBackFrom = 2U << 20U;

Id16 id_of(const std::string& identity, char kind) {
  const std::string first = identity + kind + "1";
  const std::string second = identity + kind + "2";
  Id16 id{};
  store_le(id.data(), checksum64(as_bytes(first)));
  store_le(id.data() + 8, checksum64(as_bytes(second)));
  return id;
}

// Version 8 of RFC 9562: made of whatever the maker likes.
Id16 uuid_of(const std::string& identity) {
  Id16 id = id_of(identity, 'u');
  id[6] = static_cast<std::uint8_t>((id[6] & 0x0FU) | 0x80U);
  id[8] = static_cast<std::uint8_t>((id[8] & 0x3FU) | 0x80U);
  return id;
}

void name(Namespace& space, const std::string& identity) {
  space.nguid = id_of(identity, 'n');
  space.uuid = uuid_of(identity);
}

Result<void> build_on_ram(const NamespaceOptions& options, Namespace& space) {
  if (options.block_bytes != 512 && options.block_bytes != 4096) {
    return fail(Code::kInvalidArgument,
                fmt::format("namespace {}: blocks have 512 or 4096 bytes, not {}", space.nsid,
                            options.block_bytes));
  }
  space.block_shift = static_cast<std::uint32_t>(std::countr_zero(options.block_bytes));
  space.blocks = options.ram_bytes >> space.block_shift;
  if (space.blocks == 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("namespace {}: {} bytes are less than one block of {}", space.nsid,
                            options.ram_bytes, options.block_bytes));
  }
  LARDER_ASSIGN(space.ram, Ram::create(std::max(space.bytes(), options.ram_bytes_max),
                                       options.populate ? space.bytes() : 0));
  space.discards = true;
  space.discard_zeroes = true;
  name(space, options.identity.empty()
                  ? fmt::format("ram {:016x}{:016x}", env::random_u64(), env::random_u64())
                  : options.identity);
  return {};
}

Result<void> build_on_device(const NamespaceOptions& options, std::uint32_t transfer_max,
                             Namespace& space) {
  const block::Geometry& geometry = options.device->geometry();
  if (geometry.block_bytes > kPage || geometry.memory_alignment > kPage ||
      geometry.transfer_max < transfer_max) {
    return fail(Code::kInvalidArgument,
                fmt::format("namespace {}: {} has blocks of {} bytes, memory alignment {} and "
                            "moves {} bytes at once; 4096, 4096 and {} are what works",
                            space.nsid, options.device->identity().name, geometry.block_bytes,
                            geometry.memory_alignment, geometry.transfer_max, transfer_max));
  }
  space.block_shift = static_cast<std::uint32_t>(std::countr_zero(geometry.block_bytes));
  space.blocks = geometry.blocks;
  space.volatile_cache = geometry.volatile_cache;
  space.discards = geometry.discard_bytes > 0;
  space.discard_zeroes = space.discards && geometry.discard_zeroes;
  const block::Identity& identity = options.device->identity();
  name(space, options.identity.empty() ? identity.kind + " " + identity.id : options.identity);
  LARDER_ASSIGN(space.disk, DiskWorker::create(options.device));
  return {};
}

}  // namespace

Result<std::shared_ptr<Ram>> Ram::create(std::uint64_t bytes_max, std::uint64_t populate) {
  const std::uint64_t bytes = (bytes_max + kPage - 1) / kPage * kPage;
  void* base = bytes < bytes_max ? MAP_FAILED
                                 : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return fail(Code::kExhausted, fmt::format("no memory for a namespace of {} bytes", bytes_max));
  }
  std::shared_ptr<Ram> ram(new Ram(static_cast<std::byte*>(base), bytes));
  ::madvise(base, bytes, MADV_HUGEPAGE);  // a wish
  if (populate > 0 && ::madvise(base, populate, MADV_POPULATE_WRITE) != 0 &&
      errno != EINVAL) {  // EINVAL: a kernel before 5.14
    return fail(Code::kExhausted,
                fmt::format("no memory for a namespace of {} bytes: {}; make it smaller", populate,
                            env::errno_text(errno)));
  }
  return ram;
}

Ram::~Ram() {
  ::munmap(base_, bytes_);
}

void Ram::zero(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes < kGiveBackFrom) {
    std::memset(base_ + offset, 0, bytes);
  } else {
    forget(offset, bytes);
  }
}

void Ram::forget(std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::uint64_t begin = (offset + kPage - 1) / kPage * kPage;
  const std::uint64_t end = (offset + bytes) / kPage * kPage;
  if (begin >= end || ::madvise(base_ + begin, end - begin, MADV_DONTNEED) != 0) {
    std::memset(base_ + offset, 0, bytes);
    return;
  }
  std::memset(base_ + offset, 0, begin - offset);
  std::memset(base_ + end, 0, offset + bytes - end);
}

Result<std::shared_ptr<const Namespace>> make_namespace(const NamespaceOptions& options,
                                                        std::uint32_t nsid,
                                                        std::uint32_t transfer_max) {
  auto space = std::make_shared<Namespace>();
  space->nsid = nsid;
  space->read_only = options.read_only;
  if ((options.device != nullptr) == (options.ram_bytes > 0)) {
    return fail(Code::kInvalidArgument,
                fmt::format("namespace {}: give it either memory or a device", nsid));
  }
  if (options.device != nullptr) {
    LARDER_TRY(build_on_device(options, transfer_max, *space));
  } else {
    LARDER_TRY(build_on_ram(options, *space));
  }
  return space;
}

Result<std::shared_ptr<const Namespace>> resized(const Namespace& old, std::uint64_t bytes) {
  if (old.ram == nullptr) {
    return fail(Code::kUnsupported,
                fmt::format("namespace {} is on a device, which has its size", old.nsid));
  }
  if (bytes > old.ram->capacity()) {
    return fail(Code::kTooLarge, fmt::format("namespace {} can have {} bytes at most", old.nsid,
                                             old.ram->capacity()));
  }
  auto space = std::make_shared<Namespace>(old);
  space->blocks = bytes >> old.block_shift;
  if (space->blocks == 0) {
    return fail(Code::kInvalidArgument, fmt::format("namespace {} needs a block", old.nsid));
  }
  // What was cut off once does not come back.
  if (space->bytes() > old.bytes()) {
    old.ram->forget(old.bytes(), space->bytes() - old.bytes());
  }
  return space;
}

std::uint32_t NamespaceTable::lowest_free() const noexcept {
  for (std::uint32_t nsid = 1; nsid <= kNamespaceIdMax; ++nsid) {
    if (slots_[nsid - 1] == nullptr) return nsid;
  }
  return 0;
}

bool NamespaceTable::volatile_cache() const noexcept {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& space) { return space && space->volatile_cache; });
}

}  // namespace larder::nvmf
