// SPDX-License-Identifier: Apache-2.0
// Superblock, header, tombstone and manifest: what is written is read back, golden bytes, and no
// single wrong bit is believed.
#include <cstring>

#include "base/bytes.h"
#include "extent/extent_testing.h"
#include "extent/record_header.h"
#include "extent/superblock.h"

namespace larder::extent {
namespace {

Layout small_layout() {
  return take_value(layout_of({.blocks = 1024}, 4096));
}

Superblock a_superblock() {
  Superblock out;
  out.uuid = take_value(Uuid::parse("0f8fad5b-d9cb-469f-a165-70867728950e"));
  out.generation = 7;
  out.opens = 3;
  out.epoch = 12;
  out.clean = false;
  out.layout = small_layout();
  out.owner = "node-1 pid 4711";
  return out;
}

template <class Bytes, class Believed>
void expect_no_bit_is_believed(Bytes bytes, Believed believed) {
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    bytes[i / 8] ^= static_cast<std::byte>(1U << i % 8);
    EXPECT_FALSE(believed(bytes)) << "bit " << i;
    bytes[i / 8] ^= static_cast<std::byte>(1U << i % 8);
  }
}

TEST(ExtentCodec, Superblock) {
  const Superblock superblock = a_superblock();
  for (const std::size_t copy : {0U, 1U}) {
    const auto page = encode(superblock, copy);
    EXPECT_EQ(take_value(decode_superblock(page, copy).superblock), superblock);
    EXPECT_EQ(code_of(decode_superblock(page, 1 - copy).superblock), Code::kCorrupt);
    expect_no_bit_is_believed(
        page, [&](const auto& p) { return decode_superblock(p, copy).superblock.has_value(); });
  }
}

TEST(ExtentCodec, LayoutsThatCannotBe) {
  const Layout good = small_layout();
  EXPECT_TRUE(check(good));
  const auto with = [&](auto change) {
    Layout bad = good;
    change(bad);
    return code_of(check(bad));
  };
  EXPECT_EQ(with([](Layout& l) { l.block_bytes = 4097; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.block_bytes = 256; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.cells = 0; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.cells = 9; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.cells = 1U << 30U; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.data_offset += 512; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.data_offset = 4096; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.data_bytes += 4096 * 4096; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.data_bytes = ~0ULL; }), Code::kCorrupt);
  EXPECT_EQ(with([](Layout& l) { l.device_blocks = ~0ULL; }), Code::kCorrupt);
  EXPECT_EQ(code_of(layout_of({.sector_bytes = 256, .blocks = 1024}, 4096)), Code::kUnsupported);
}

struct Encoded {
  Superblock superblock = a_superblock();
  std::vector<std::byte> manifest;
  RecordHeader header;
  std::vector<std::byte> cells;

  explicit Encoded(std::size_t key_bytes, std::size_t extents = 1) {
    Manifest m = manifest_of(std::string(key_bytes, 'k'), payload_of(1, 100), 3);
    manifest = take_value(encode(m));
    header.cell = 5;
    header.sequence = (3ULL << 44U) + 9;
    header.payload_checksum = 0x1122334455667788;
    for (std::size_t i = 0; i < extents; ++i) {
      header.extents.push_back({superblock.layout.data_offset + i * 3 * 4096, 8192});
    }
    header.payload_bytes = extents * 8192 - 100;
    header.manifest = manifest;
    header.cells = cells_for(extents, manifest.size());
    cells = encode(superblock.uuid, superblock.layout, header);
  }
  Result<RecordHeader> decoded(std::uint32_t cell, std::span<const std::byte> from,
                               std::vector<std::byte>& into) const {
    return decode_header(superblock.uuid, superblock.layout, cell, from, into);
  }
};

TEST(ExtentCodec, Header) {
  for (const std::size_t key : {1U, 300U, 1024U}) {
    for (const std::size_t extents : {1U, 8U}) {
      const Encoded one(key, extents);
      std::vector<std::byte> manifest;
      const auto got = one.decoded(5, one.cells, manifest);
      ASSERT_TRUE(got) << got.error().to_string();
      EXPECT_EQ(got->cells, one.header.cells);
      EXPECT_EQ(got->sequence, one.header.sequence);
      EXPECT_EQ(got->payload_bytes, one.header.payload_bytes);
      EXPECT_EQ(got->payload_checksum, one.header.payload_checksum);
      EXPECT_EQ(got->extents, one.header.extents);
      EXPECT_EQ(manifest, one.manifest);
      expect_no_bit_is_believed(
          one.cells, [&](const auto& c) { return one.decoded(5, c, manifest).has_value(); });
      // Nor elsewhere, nor on another device, nor cut short.
      EXPECT_FALSE(one.decoded(6, one.cells, manifest));
      EXPECT_FALSE(one.decoded(5, std::span(one.cells).first(one.cells.size() - 512), manifest));
      EXPECT_FALSE(decode_header(Uuid::random(), one.superblock.layout, 5, one.cells, manifest));
    }
  }
  EXPECT_EQ(cells_for(8, kManifestBytesMax), kHeaderCellsMax);
  EXPECT_EQ(cells_for(1, 200), 1U);
}

TEST(ExtentCodec, HeadersThatAreWholeAndWrong) {
  const auto encoded_with = [](auto change) {
    Encoded one(10, 2);
    change(one.header);
    one.cells = encode(one.superblock.uuid, one.superblock.layout, one.header);
    std::vector<std::byte> manifest;
    return code_of(one.decoded(5, one.cells, manifest));
  };
  EXPECT_EQ(encoded_with([](RecordHeader&) {}), Code::kOk);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.payload_bytes = 0; }), Code::kCorrupt);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.payload_bytes = 16385; }), Code::kCorrupt);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.payload_bytes = ~0ULL; }), Code::kCorrupt);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.sequence = 1ULL << 24U; }), Code::kCorrupt);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.extents[1].offset = h.extents[0].offset; }),
            Code::kCorrupt);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.extents[1].offset = 4096; }), Code::kCorrupt);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.extents[1].offset = 1023 * 4096; }),
            Code::kCorrupt);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.extents[1].bytes = 0; }), Code::kCorrupt);
  EXPECT_EQ(encoded_with([](RecordHeader& h) { h.extents.clear(); }), Code::kCorrupt);
}

TEST(ExtentCodec, Tombstone) {
  const Superblock s = a_superblock();
  const auto cell = encode_tombstone(s.uuid, s.layout, 9, 77);
  EXPECT_EQ(take_value(decode_tombstone(s.uuid, s.layout, 9, cell)), 77U);
  EXPECT_EQ(kind_of(cell), CellKind::kTombstone);
  EXPECT_FALSE(decode_tombstone(s.uuid, s.layout, 8, cell));
  expect_no_bit_is_believed(
      cell, [&](const auto& c) { return decode_tombstone(s.uuid, s.layout, 9, c).has_value(); });
}

TEST(ExtentCodec, Manifest) {
  Manifest m = manifest_of("key", payload_of(1, 10), 5);
  m.device = Uuid::random();
  const auto bytes = take_value(encode(m));
  EXPECT_EQ(bytes.size(), encoded_bytes(m));
  EXPECT_EQ(take_value(decode(bytes)), m);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_EQ(code_of(decode(std::span(bytes).first(cut))), Code::kCorrupt);
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(code_of(decode(longer)), Code::kCorrupt);
  auto newer = bytes;
  newer[0] = std::byte{2};
  EXPECT_EQ(code_of(decode(newer)), Code::kVersionMismatch);
  newer[0] = std::byte{0};
  EXPECT_EQ(code_of(decode(newer)), Code::kCorrupt);
  m.key = std::string(kManifestKeyMax, '\0');
  m.tenant = m.domain = m.object_set = std::string(kManifestNameMax, '\xff');
  EXPECT_EQ(take_value(decode(take_value(encode(m)))), m);
  EXPECT_EQ(take_value(encode(m)).size(), kManifestBytesMax);
  m.key += 'x';
  EXPECT_EQ(code_of(encode(m)), Code::kInvalidArgument);
  m.key = "k";
  m.domain += 'x';
  EXPECT_EQ(code_of(encode(m)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(encode(Manifest{})), Code::kInvalidArgument);
}

// What another program reads: these bytes never change within a version.
TEST(ExtentCodec, GoldenBytes) {
  const Encoded one(4);
  const auto page = encode(one.superblock, 0);
  EXPECT_EQ(as_text(std::span(page).first(8)), "LRDRSTOR");
  EXPECT_EQ(as_text(std::span(one.cells).first(4)), "LRRH");
  EXPECT_EQ(load_le<std::uint64_t>(one.cells.data() + 16), one.header.sequence);
  EXPECT_EQ(load_le<std::uint64_t>(one.cells.data() + 40),
            one.superblock.layout.data_offset / 4096);
  EXPECT_EQ(as_text(std::span(one.cells).subspan(40 + 16 + 48, 19)), "tenantdomainsetkkkk");
  EXPECT_EQ(checksum64(page), 4214398360229072512U);
  EXPECT_EQ(checksum64(one.cells), 12378279898432979303U);
}

TEST(ExtentCodec, Uuids) {
  const Uuid uuid = Uuid::random();
  EXPECT_EQ(take_value(Uuid::parse(uuid.to_string())), uuid);
  EXPECT_EQ(take_value(Uuid::parse("0f8fad5bd9cb469fa16570867728950E")).to_string(),
            "0f8fad5b-d9cb-469f-a165-70867728950e");
  EXPECT_FALSE(uuid.is_nil());
  EXPECT_FALSE(Uuid::parse("0f8fad5b"));
  EXPECT_FALSE(Uuid::parse("0f8fad5b-d9cb-469f-a165-70867728950g"));
  EXPECT_FALSE(Uuid::parse("0f8fad5b0d9cb-469f-a165-70867728950e"));
}

TEST(ExtentCodec, RecordIds) {
  const RecordId id{0xFFFFFFFF, 0xFFFFFF};
  EXPECT_EQ(RecordId::unpack(id.pack()), id);
  EXPECT_LT(id.pack(), 1ULL << 56U);
  EXPECT_EQ((RecordId{0, 1}).pack(), 1U);
}

}  // namespace
}  // namespace larder::extent
