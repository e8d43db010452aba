// SPDX-License-Identifier: Apache-2.0
// Rot, errors and foreign bytes: detected, counted, never served, and nothing overwritten.
#include "block/fault_device.h"
#include "extent/extent_testing.h"
#include "extent/inspect.h"
#include "extent/record_header.h"
#include "extent/scrubber.h"
#include "extent/superblock.h"

namespace larder::extent {
namespace {

constexpr std::uint64_t kBytes = kMiB;

struct Bed {
  std::shared_ptr<block::MemoryDevice> device = memory_device(kBytes);
  std::map<std::string, std::vector<std::byte>> payloads;
  std::map<std::string, RecordId> ids;
  Uuid uuid;

  Bed() {
    const auto store = fresh_store(device);
    uuid = store->uuid();
    const auto writer = writer_of(*store);
    for (const std::size_t key_bytes : {3U, 700U, 5U}) {
      const std::string key(key_bytes, 'k');
      payloads[key] = payload_of(key_bytes, 5000);
      ids[key] =
          take_value(put_one(*store, *writer, manifest_of(key, payloads[key]), payloads[key]));
    }
  }
  void flip(std::uint64_t byte, unsigned bit) {
    const auto queue = block::queue_of(*device, 1);
    auto block = block::contents(*device, byte / 4096 * 4096, 4096);
    block.data()[byte % 4096] ^= static_cast<std::byte>(1U << bit);
    EXPECT_TRUE(block::write_all(*queue, byte / 4096 * 4096, block.span()));
  }
  void overwrite(std::uint64_t offset, std::byte with) {
    const auto queue = block::queue_of(*device, 1);
    auto block = block::buffer_of(4096, with);
    EXPECT_TRUE(block::write_all(*queue, offset, block.span()));
  }
};

TEST(ExtentDamage, EveryBitOfAHeaderIsNoticed) {
  Bed bed;
  // Cells 0; 1 and 2 (a long key); 3.
  for (std::uint64_t bit = 0; bit < 4 * 512 * 8; bit += 1 + bit % 7) {
    SCOPED_TRACE(bit);
    bed.flip(4096 + bit / 8, bit % 8);
    {
      const auto store = open_store(bed.device, {.read_only = true});
      RecoveryReport report;
      const auto seen = recover_all(*store, &report);
      EXPECT_EQ(seen.size(), 2U);
      const bool in_continuation = bit / 8 / 512 == 2;
      EXPECT_EQ(report.damaged, in_continuation && bit % 4096 < 32 ? report.damaged : 1U);
      EXPECT_GE(report.damaged, 1U);
      EXPECT_GE(store->stats().damaged_headers, 1U);
    }
    bed.flip(4096 + bit / 8, bit % 8);
  }
  const auto store = open_store(bed.device, {.read_only = true});
  EXPECT_EQ(recover_all(*store).size(), 3U);
}

TEST(ExtentDamage, ADamagedCellIsUsedAgainOnlyAfterATombstone) {
  Bed bed;
  bed.flip(4096 + 20, 1);
  {
    const auto store = open_store(bed.device);
    EXPECT_EQ(recover_all(*store).size(), 2U);
    EXPECT_EQ(store->stats().damaged_headers, 1U);
    const auto writer = writer_of(*store);
    while (!writer->idle()) writer->poll({});
    expect_balanced(*store);
  }
  const auto store = open_store(bed.device);
  RecoveryReport report;
  EXPECT_EQ(recover_all(*store, &report).size(), 2U);
  EXPECT_EQ(report.damaged, 0U);
}

TEST(ExtentDamage, RotOfAPayloadIsNeverServed) {
  Bed bed;
  const auto store = open_store(bed.device);
  recover_all(*store);
  const auto reader = reader_of(*store);
  const std::string key(3, 'k');
  const std::uint64_t sum = checksum64(bed.payloads[key]);
  const std::uint64_t at = take_value(store->pin(bed.ids[key])).extents()[0].offset;
  for (const std::uint64_t byte : {0U, 4095U, 4096U, 4999U}) {
    bed.flip(at + byte, byte % 8);
    EXPECT_EQ(code_of(read_one(*store, *reader, bed.ids[key], sum)), Code::kCorrupt);
    bed.flip(at + byte, byte % 8);
  }
  bed.flip(at + 5001, 0);  // behind the payload: nobody's
  EXPECT_TRUE(read_one(*store, *reader, bed.ids[key], sum));
  EXPECT_EQ(store->stats().damaged_payloads, 4U);
}

TEST(ExtentDamage, TheScrubberFindsRot) {
  Bed bed;
  const auto store = open_store(bed.device);
  recover_all(*store);
  std::map<RecordId, Scrubber::Fault> faults;
  auto scrubber = take_value(Scrubber::create(
      *store, [&](RecordId id, Scrubber::Fault fault) { faults[id] = fault; }, 4096));
  const auto round = [&] {
    faults.clear();
    int steps = 0;
    while (!take_value(scrubber->step(4096))) ++steps;
    return steps;
  };
  EXPECT_GE(round(), 3);
  EXPECT_TRUE(faults.empty());
  EXPECT_EQ(scrubber->stats().records, 3U);
  EXPECT_EQ(store->stats().pins, 0U);
  const RecordId id = bed.ids[std::string(3, 'k')];
  bed.flip(take_value(store->pin(id)).extents()[0].offset + 4500, 3);
  bed.flip(4096 + 3 * 512 + 200, 3);
  round();
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults.at(id), Scrubber::Fault::kPayload);
  EXPECT_EQ(faults.at(bed.ids[std::string(5, 'k')]), Scrubber::Fault::kHeader);
  EXPECT_EQ(scrubber->stats().rounds, 2U);
}

TEST(ExtentDamage, OneGoodSuperblockIsEnoughAndTheOtherIsMended) {
  for (const std::uint64_t offset : {std::uint64_t{0}, kBytes - 4096}) {
    Bed bed;
    bed.overwrite(offset, std::byte{0xA5});
    {
      const auto store = open_store(bed.device);
      EXPECT_EQ(store->stats().damaged_superblocks, 1U);
      EXPECT_EQ(store->uuid(), bed.uuid);
      EXPECT_EQ(recover_all(*store).size(), 3U);
    }
    EXPECT_EQ(open_store(bed.device)->stats().damaged_superblocks, 0U);
  }
}

void expect_refused(Bed& bed, Code code, const std::string& word) {
  const auto before = block::contents(*bed.device, 0, bed.device->geometry().bytes());
  const auto opened = RecordStore::open(bed.device, {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), code);
  EXPECT_NE(opened.error().message().find(word), std::string::npos) << opened.error().message();
  const auto after = block::contents(*bed.device, 0, bed.device->geometry().bytes());
  EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size()), 0);
}

void write_page(Bed& bed, std::size_t copy, std::span<const std::byte, 512> page) {
  const auto queue = block::queue_of(*bed.device, 1);
  auto block = block::buffer_of(4096);
  std::memcpy(block.data(), page.data(), page.size());
  EXPECT_TRUE(block::write_all(*queue, copy == 0 ? 0 : kBytes - 4096, block.span()));
}

Superblock superblock_of(Bed& bed) {
  const auto queue = block::queue_of(*bed.device, 1);
  return take_value(std::move(take_value(read_superblocks(*queue)).pages[0].superblock));
}

TEST(ExtentDamage, WhatCannotBeUsedIsRefusedAndLeftAlone) {
  Bed both;
  both.overwrite(0, std::byte{0xA5});
  both.overwrite(kBytes - 4096, std::byte{0xA5});
  expect_refused(both, Code::kCorrupt, "removing the file");
  EXPECT_EQ(code_of(format(*both.device, {})), Code::kConflict);

  Bed newer;
  auto page = encode(superblock_of(newer), 0);
  for (const std::size_t copy : {0U, 1U}) {
    page[8] = std::byte{2};  // its CRC may be by other rules
    write_page(newer, copy, page);
  }
  expect_refused(newer, Code::kVersionMismatch, "newer");
  EXPECT_EQ(code_of(format(*newer.device, {})), Code::kAlreadyExists);

  Bed mixed;
  Superblock other = superblock_of(mixed);
  other.uuid = Uuid::random();
  write_page(mixed, 1, encode(other, 1));
  expect_refused(mixed, Code::kConflict, "two stores");

  Bed cut;
  Superblock longer = superblock_of(cut);
  longer.layout.device_blocks += 16;
  write_page(cut, 0, encode(longer, 0));
  cut.overwrite(kBytes - 4096, std::byte{0});
  expect_refused(cut, Code::kCorrupt, "cut short");
}

// A table from another device is not believed: every header is bound to its own.
TEST(ExtentDamage, AnotherDevicesRecordsDoNotCount) {
  Bed from;
  Bed to;
  const auto queue = block::queue_of(*to.device, 1);
  auto cells = block::contents(*from.device, 4096, 4096);
  ASSERT_TRUE(block::write_all(*queue, 4096, cells.span()));
  const auto store = open_store(to.device, {.read_only = true});
  RecoveryReport report;
  EXPECT_EQ(recover_all(*store, &report).size(), 0U);
  EXPECT_EQ(report.damaged, 3U);
}

TEST(ExtentDamage, UnreadableBlocksCostWhatIsInThem) {
  Bed bed;
  const auto fault = take_value(block::FaultDevice::create(bed.device, {}));
  fault->set_bad(4096, 4096);
  const auto store = open_store(fault);
  RecoveryReport report;
  EXPECT_EQ(recover_all(*store, &report).size(), 0U);
  EXPECT_EQ(report.unreadable, 8U);
  const auto writer = writer_of(*store);
  const auto payload = payload_of(1, 10);
  const RecordId id = take_value(put_one(*store, *writer, manifest_of("k", payload), payload));
  EXPECT_GE(id.cell, 8U);
  expect_balanced(*store);
}

TEST(ExtentDamage, WriteErrorsFailThatPutAndGiveItsSpaceBack) {
  for (const bool in_table : {false, true}) {
    const auto inner = memory_device(kBytes);
    { fresh_store(inner); }
    const auto fault = take_value(block::FaultDevice::create(inner, {}));
    const auto store = open_store(fault);
    recover_all(*store);
    const std::uint64_t empty = store->stats().free;
    const auto writer = writer_of(*store);
    const Layout layout = take_value(layout_of(inner->geometry(), 4096));
    fault->set_bad(in_table ? layout.table_offset() : layout.data_offset, 4096);
    const auto payload = payload_of(1, 5000);
    const Manifest manifest = manifest_of("k", payload);
    const auto failed = put_one(*store, *writer, manifest, payload);
    EXPECT_EQ(code_of(failed), Code::kUnavailable);
    while (!writer->idle()) writer->poll({});
    expect_balanced(*store);
    const StoreStats now = store->stats();
    EXPECT_EQ(now.free + now.stuck, empty);
    EXPECT_EQ(now.records, 0U);
  }
}

TEST(ExtentDamage, ErrorsAtRandomLeaveTheBooksRight) {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const auto inner = memory_device(kBytes);
    { fresh_store(inner); }
    std::map<std::string, std::vector<std::byte>> good;
    {
      const auto fault = take_value(block::FaultDevice::create(
          inner, {.seed = seed, .read_error = 0.05, .write_error = 0.05, .late = 0.2}));
      auto opened = RecordStore::open(fault, {});
      if (!opened) continue;
      const auto store = std::move(*opened);
      if (!store->recover({.queues = 1}, [](const auto&) { return RecordStore::Verdict::kKeep; })) {
        continue;
      }
      const auto writer = writer_of(*store);
      for (std::uint64_t i = 0; i < 60; ++i) {
        const std::string key = "k" + std::to_string(i);
        const auto payload = payload_of(i, 1 + i * 97);
        const auto id = put_one(*store, *writer, manifest_of(key, payload), payload);
        if (id && i % 3 == 0) {
          (void)release_one(*writer, *id);
        } else if (id) {
          good[key] = payload;
        }
        expect_balanced(*store);
      }
      while (!writer->idle()) writer->poll({});
      EXPECT_EQ(store->stats().records, good.size());
      EXPECT_EQ(store->stats().reserved, 0U);
    }
    const auto store = open_store(inner);
    const auto seen = recover_all(*store);
    const auto reader = reader_of(*store);
    for (const auto& [key, payload] : good) {
      ASSERT_TRUE(seen.contains(key)) << key;
      EXPECT_EQ(take_value(read_one(*store, *reader, seen.at(key).id, checksum64(payload))),
                payload);
    }
  }
}

TEST(ExtentDamage, InspectionSaysWhatIsThere) {
  Bed bed;
  InspectReport report;
  std::vector<std::string> keys;
  InspectOptions options;
  options.verify_payloads = true;
  options.record = [&](const RecordInfo& info) {
    keys.push_back(info.manifest.key);
    EXPECT_TRUE(info.payload_good.value_or(false));
    return true;
  };
  ASSERT_TRUE(inspect(*bed.device, options, report));
  EXPECT_TRUE(report.good());
  EXPECT_EQ(keys.size(), 3U);
  EXPECT_EQ(report.superblocks[1].owner, "a test");
  bed.flip(4096 + 20, 1);
  bed.overwrite(kBytes - 4096, std::byte{1});
  const auto store = open_store(bed.device, {.read_only = true});
  recover_all(*store);
  bed.flip(take_value(store->pin(bed.ids[std::string(5, 'k')])).extents()[0].offset, 1);
  options.record = nullptr;
  ASSERT_TRUE(inspect(*bed.device, options, report));
  EXPECT_FALSE(report.good());
  EXPECT_EQ(report.damaged_headers, 1U);
  EXPECT_EQ(report.damaged_payloads, 1U);
  EXPECT_NE(report.superblocks[1].error, "");
}

}  // namespace
}  // namespace larder::extent
