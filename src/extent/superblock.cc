// SPDX-License-Identifier: Apache-2.0
#include "extent/superblock.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/units.h"
#include "block/aligned_buffer.h"
#include "block/blocking.h"

namespace larder::extent {
namespace {

constexpr char kMagic[] = "LRDRSTOR";  // eight bytes, without the terminator
constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kCrcAt = 12;
constexpr std::size_t kOwnerAt = 96;
static_assert(kOwnerAt + kOwnerBytesMax <= kSuperblockBytes);
constexpr std::uint8_t kClean = 1;
constexpr std::uint8_t kDirty = 2;

bool all_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::uint32_t crc_of(std::span<const std::byte, kSuperblockBytes> page) noexcept {
  const std::array<std::byte, 4> zeros{};
  std::uint32_t crc = crc32c(page.first(kCrcAt));
  crc = crc32c(zeros, crc);
  return crc32c(page.subspan(kCrcAt + zeros.size()), crc);
}

tl::unexpected<Error> corrupt(const std::string& what) {
  return fail(Code::kCorrupt, "superblock: " + what);
}

Result<Superblock> fields_of(std::span<const std::byte, kSuperblockBytes> page, std::size_t copy) {
  const std::byte* at = page.data();
  Superblock out;
  std::memcpy(out.uuid.bytes.data(), at + 16, out.uuid.bytes.size());
  out.generation = load_le<std::uint64_t>(at + 32);
  out.opens = load_le<std::uint64_t>(at + 40);
  out.epoch = load_le<std::uint64_t>(at + 48);
  out.layout = {load_le<std::uint32_t>(at + 64), load_le<std::uint64_t>(at + 56),
                load_le<std::uint32_t>(at + 72), load_le<std::uint64_t>(at + 80),
                load_le<std::uint64_t>(at + 88)};
  const auto state = load_le<std::uint8_t>(at + 76);
  const auto owner = load_le<std::uint16_t>(at + 78);
  const bool fields = (state == kClean || state == kDirty) && !out.uuid.is_nil() &&
                      load_le<std::uint8_t>(at + 77) == copy && owner <= kOwnerBytesMax &&
                      load_le<std::uint32_t>(at + 68) == 0 &&
                      all_zero(page.subspan(kOwnerAt + owner));
  if (!fields) return corrupt("fields that no program writes");
  LARDER_TRY(check(out.layout));
  out.clean = state == kClean;
  out.owner = std::string(as_text(page.subspan(kOwnerAt, owner)));
  return out;
}

Result<void> suits(const Superblock& found, const block::Geometry& g, const std::string& name) {
  if (found.layout.block_bytes != g.block_bytes || g.sector_bytes < kCellBytes) {
    return fail(Code::kUnsupported, name + " was formatted with blocks of " +
                                        std::to_string(found.layout.block_bytes) +
                                        " bytes; open it with those");
  }
  if (found.layout.device_blocks > g.blocks) {
    return fail(Code::kCorrupt, name + " has " + std::to_string(g.bytes()) + " bytes, but was " +
                                    std::to_string(found.layout.device_bytes()) +
                                    " when it was formatted: it was cut short. Restore it, or "
                                    "remove the file (of a disk: zero its first and last 4 KiB), "
                                    "and a new one is made; nothing was changed");
  }
  return {};
}

}  // namespace

std::array<std::byte, kSuperblockBytes> encode(const Superblock& s, std::size_t copy) {
  std::array<std::byte, kSuperblockBytes> page{};
  std::byte* at = page.data();
  std::memcpy(at, kMagic, kMagicBytes);
  store_le(at + 8, kFormatVersion);
  std::memcpy(at + 16, s.uuid.bytes.data(), s.uuid.bytes.size());
  store_le(at + 32, s.generation);
  store_le(at + 40, s.opens);
  store_le(at + 48, s.epoch);
  store_le(at + 56, s.layout.device_blocks);
  store_le(at + 64, s.layout.block_bytes);
  store_le(at + 72, s.layout.cells);
  store_le(at + 76, s.clean ? kClean : kDirty);
  store_le(at + 77, static_cast<std::uint8_t>(copy));
  const std::size_t owner = std::min(s.owner.size(), kOwnerBytesMax);
  store_le(at + 78, static_cast<std::uint16_t>(owner));
  store_le(at + 80, s.layout.data_offset);
  store_le(at + 88, s.layout.data_bytes);
  if (owner > 0) std::memcpy(at + kOwnerAt, s.owner.data(), owner);
  store_le(at + kCrcAt, crc_of(page));
  return page;
}

SuperblockPage decode_superblock(std::span<const std::byte, kSuperblockBytes> page,
                                 std::size_t copy) {
  SuperblockPage out{corrupt("not one"), false, false, 0};
  if (all_zero(page)) {
    out.superblock = fail(Code::kNotFound, "superblock: there is none");
    return out;
  }
  out.marked = std::memcmp(page.data(), kMagic, kMagicBytes) == 0;
  if (!out.marked) return out;
  out.version = load_le<std::uint32_t>(page.data() + 8);
  out.whole = load_le<std::uint32_t>(page.data() + kCrcAt) == crc_of(page);
  if (out.version > kFormatVersion) {
    out.superblock =
        fail(Code::kVersionMismatch, "superblock: format version " + std::to_string(out.version));
  } else if (!out.whole) {
    out.superblock = corrupt("its CRC is wrong");
  } else if (out.version == 0) {
    out.superblock = corrupt("it has no version");
  } else {
    out.superblock = fields_of(page, copy);
  }
  return out;
}

Result<FoundSuperblocks> read_superblocks(block::BlockQueue& queue) {
  const block::Geometry& g = queue.geometry();
  LARDER_ASSIGN(auto memory, block::AlignedBuffer::create(
                                 g.block_bytes, std::max<std::size_t>(g.memory_alignment, 64)));
  FoundSuperblocks out{{SuperblockPage{corrupt("not read"), false, false, 0},
                        SuperblockPage{corrupt("not read"), false, false, 0}},
                       {0, g.bytes() - g.block_bytes}};
  std::size_t unread = 0;
  for (std::size_t copy = 0; copy < 2; ++copy) {
    const auto read = block::read_all(queue, out.offsets[copy], memory.span());
    if (!read) {
      if (++unread == 2) return fail(read.error());
      out.pages[copy].superblock = corrupt(read.error().message());
      continue;
    }
    out.pages[copy] = decode_superblock(memory.span().first<kSuperblockBytes>(), copy);
    // A device that grew has its second copy where it ended before.
    if (copy == 0 && out.pages[0].superblock) {
      const std::uint64_t second = out.pages[0].superblock->layout.superblock_offset(1);
      if (out.pages[0].superblock->layout.block_bytes == g.block_bytes &&
          second + g.block_bytes <= g.bytes()) {
        out.offsets[1] = second;
      }
    }
  }
  return out;
}

Result<Superblock> choose(const FoundSuperblocks& found, const block::Geometry& geometry,
                          const std::string& name, std::uint64_t& damaged) {
  const SuperblockPage& a = found.pages[0];
  const SuperblockPage& b = found.pages[1];
  const auto newer = [](const SuperblockPage& page) { return page.version > kFormatVersion; };
  const bool none = !a.superblock && !b.superblock;
  if ((newer(a) && (a.whole || none)) || (newer(b) && (b.whole || none))) {
    return fail(Code::kVersionMismatch,
                name + " holds a record store of format version " +
                    std::to_string(std::max(a.version, b.version)) + "; this program knows " +
                    std::to_string(kFormatVersion) + ". Use the newer program");
  }
  damaged = (a.superblock ? 0U : 1U) + (b.superblock ? 0U : 1U);
  if (none) {
    const auto blank = [](const SuperblockPage& page) {
      return page.superblock.error().code() == Code::kNotFound;
    };
    if (blank(a) && blank(b)) {
      return fail(Code::kNotFound, name + " holds no record store; format it first");
    }
    return fail(Code::kCorrupt,
                name + ": neither of the two superblocks can be believed (" +
                    a.superblock.error().message() + "; " + b.superblock.error().message() +
                    "). If this is the right device, restore it from a copy, or erase it by "
                    "removing the file (of a disk: zeroing its first and last 4 KiB), and a new "
                    "one is made; nothing was changed");
  }
  if (a.superblock && b.superblock && a.superblock->uuid != b.superblock->uuid) {
    return fail(Code::kConflict, name + " has superblocks of two stores, " +
                                     a.superblock->uuid.to_string() + " and " +
                                     b.superblock->uuid.to_string() +
                                     "; was one device copied over another?");
  }
  const bool second =
      !a.superblock || (b.superblock && b.superblock->generation > a.superblock->generation);
  Superblock chosen = second ? *b.superblock : *a.superblock;
  LARDER_TRY(suits(chosen, geometry, name));
  return chosen;
}

block::Witness witness_of(const Superblock& superblock, const block::Geometry& geometry,
                          const std::string& name) {
  const auto judge = [known = superblock, geometry,
                      name](std::span<const std::byte> blocks) -> Result<void> {
    FoundSuperblocks found;
    for (std::size_t copy = 0; copy < 2; ++copy) {
      const auto page = blocks.subspan(copy * geometry.block_bytes).first<kSuperblockBytes>();
      found.pages[copy] = decode_superblock(page, copy);
    }
    std::uint64_t damaged = 0;
    LARDER_ASSIGN(const Superblock now, choose(found, geometry, name, damaged));
    if (now.uuid != known.uuid) {
      return fail(Code::kConflict, name + " holds the record store " + now.uuid.to_string() +
                                       ", not " + known.uuid.to_string());
    }
    if (now.opens == known.opens) return {};
    return fail(Code::kConflict, "the record store on " + name + " was opened by " +
                                     base::quoted(now.owner) + " meanwhile");
  };
  return {{superblock.layout.superblock_offset(0), superblock.layout.superblock_offset(1)}, judge};
}

Result<void> write_superblocks(block::BlockQueue& queue, const Superblock& superblock,
                               std::size_t first, qos::Purpose purpose) {
  const block::Geometry& g = queue.geometry();
  LARDER_ASSIGN(auto memory, block::AlignedBuffer::create(
                                 g.block_bytes, std::max<std::size_t>(g.memory_alignment, 64)));
  for (const std::size_t copy : {first, 1 - first}) {
    std::memset(memory.data(), 0, memory.size());
    const auto page = encode(superblock, copy);
    std::memcpy(memory.data(), page.data(), page.size());
    LARDER_TRY(block::write_all(queue, superblock.layout.superblock_offset(copy), memory.span(),
                                {.purpose = purpose}));
    LARDER_TRY(block::flush(queue, {.purpose = purpose}));
  }
  return {};
}

}  // namespace larder::extent
