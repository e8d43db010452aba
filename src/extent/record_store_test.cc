// SPDX-License-Identifier: Apache-2.0
#include "extent/record_store.h"

#include "extent/extent_testing.h"

namespace larder::extent {
namespace {

TEST(RecordStore, KeepsWhatWasPutAcrossAnOpening) {
  const auto device = memory_device(4 * kMiB);
  std::map<std::string, std::vector<std::byte>> all;
  {
    const auto store = fresh_store(device);
    const auto writer = writer_of(*store);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::string key = "key-" + std::to_string(i);
      all[key] = payload_of(i, 1 + i * 7001);
      const auto id = put_one(*store, *writer, manifest_of(key, all[key], i), all[key]);
      ASSERT_TRUE(id) << id.error().to_string();
      expect_balanced(*store);
    }
    EXPECT_EQ(store->stats().records, 20U);
    EXPECT_TRUE(writer->idle());
  }
  const auto store = open_store(device);
  EXPECT_FALSE(store->was_clean());
  EXPECT_EQ(store->previous_owner(), "a test");
  RecoveryReport report;
  const auto seen = recover_all(*store, &report);
  EXPECT_EQ(report.records, 20U);
  EXPECT_EQ(report.damaged, 0U);
  ASSERT_EQ(seen.size(), 20U);
  const auto reader = reader_of(*store);
  for (const auto& [key, payload] : all) {
    const Seen& one = seen.at(key);
    EXPECT_EQ(one.manifest.length, payload.size());
    EXPECT_EQ(one.manifest.device, store->uuid());
    const auto got = read_one(*store, *reader, one.id, one.manifest.checksum);
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_EQ(*got, payload);
  }
  expect_balanced(*store);
}

TEST(RecordStore, AReleasedRecordIsGoneAndItsSpaceIsFree) {
  const auto device = memory_device(kMiB);
  const auto store = fresh_store(device);
  const auto writer = writer_of(*store);
  const std::uint64_t empty = store->stats().free;
  const auto payload = payload_of(1, 100 * kKiB);
  const RecordId id = take_value(put_one(*store, *writer, manifest_of("k", payload), payload));
  EXPECT_LT(store->stats().free, empty);
  {
    const Pin pin = take_value(store->pin(id));
    EXPECT_EQ(pin.payload_bytes(), payload.size());
    ASSERT_TRUE(writer->release(id, 3));
    EXPECT_EQ(code_of(store->pin(id)), Code::kNotFound);
    EXPECT_FALSE(store->release(id));
    WriteDone done;
    EXPECT_EQ(writer->poll({&done, 1}), 0U);
    EXPECT_LT(store->stats().free, empty);
  }
  const auto done = wait_for(*writer, 1);
  ASSERT_TRUE(done[0].result);
  EXPECT_TRUE(done[0].is_release);
  EXPECT_EQ(done[0].tag, 3U);
  EXPECT_EQ(store->stats().free, empty);
  EXPECT_EQ(store->stats().cells_used, 0U);
  const RecordId again = take_value(put_one(*store, *writer, manifest_of("k", payload), payload));
  EXPECT_EQ(again.cell, id.cell);
  EXPECT_NE(again.generation, id.generation);
  EXPECT_EQ(code_of(store->pin(id)), Code::kNotFound);
}

TEST(RecordStore, AReservationThatIsNotPutIsGivenBack) {
  const auto store = fresh_store(memory_device(kMiB));
  const std::uint64_t empty = store->stats().free;
  {
    const Reservation one = take_value(store->reserve(5000));
    EXPECT_EQ(one.stored_bytes(), 8192U);
    EXPECT_EQ(store->stats().reserved, 8192U);
    Reservation two = take_value(store->reserve(1));
    two = take_value(store->reserve(100 * kKiB));
    EXPECT_EQ(empty - store->stats().free, 8192 + 100 * kKiB);
  }
  EXPECT_EQ(store->stats().free, empty);
  EXPECT_EQ(code_of(store->reserve(0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(store->reserve(kMiB)), Code::kTooLarge);
}

TEST(RecordStore, SaysWhatRanOut) {
  const auto device = memory_device(kMiB);
  const auto store = fresh_store(device, 64 * kKiB);  // 16 cells
  std::vector<Reservation> held;
  for (auto one = store->reserve(100); one; one = store->reserve(100)) {
    held.push_back(std::move(*one));
  }
  EXPECT_EQ(held.size(), 16U);
  const auto cells = store->reserve(100);
  EXPECT_EQ(code_of(cells), Code::kExhausted);
  EXPECT_NE(cells.error().message().find("cells"), std::string::npos);
  held.resize(1);
  const auto space = store->reserve(store->stats().free + 1);
  EXPECT_EQ(code_of(space), Code::kExhausted);
  EXPECT_NE(space.error().message().find("space"), std::string::npos);
  held.clear();
  const auto writer = writer_of(*store);
  const auto payload = payload_of(1, store->stats().capacity);
  const RecordId id = take_value(put_one(*store, *writer, manifest_of("k", payload), payload));
  EXPECT_EQ(code_of(store->reserve(1)), Code::kExhausted);
  EXPECT_TRUE(store->release(id));
  EXPECT_EQ(code_of(store->reserve(1)), Code::kBackpressure);
  while (!writer->idle()) writer->poll({});
  EXPECT_TRUE(store->reserve(1));
}

// Space in pieces is still space: a record may have up to eight extents.
TEST(RecordStore, UsesScatteredSpace) {
  const auto store = fresh_store(memory_device(kMiB));
  const auto writer = writer_of(*store);
  std::vector<RecordId> ids;
  for (std::uint64_t i = 0;; ++i) {
    const auto payload = payload_of(i, 16 * kKiB);
    const auto id = put_one(*store, *writer, manifest_of(std::to_string(i), payload), payload);
    if (!id) break;
    ids.push_back(*id);
  }
  for (std::size_t i = 0; i < 16; i += 2) ASSERT_TRUE(release_one(*writer, ids[i]));
  const std::uint64_t before = store->stats().free;
  const auto payload = payload_of(99, 8 * 16 * kKiB);
  const auto id = put_one(*store, *writer, manifest_of("split", payload), payload);
  ASSERT_TRUE(id) << id.error().to_string();
  EXPECT_EQ(store->stats().split_records, 1U);
  EXPECT_EQ(before - store->stats().free, payload.size());
  const auto reader = reader_of(*store, {.piece_bytes = 8 * kKiB});
  EXPECT_EQ(take_value(read_one(*store, *reader, *id, checksum64(payload))), payload);
}

TEST(RecordStore, FormatsOnlyWhatIsBlankUnlessForced) {
  const auto device = memory_device(kMiB);
  ASSERT_TRUE(format(*device, {}));
  EXPECT_EQ(code_of(format(*device, {})), Code::kAlreadyExists);
  const auto first = open_store(device)->uuid();
  ASSERT_TRUE(format(*device, {.force = true}));
  EXPECT_NE(open_store(device)->uuid(), first);

  const auto other = memory_device(kMiB);
  const auto queue = block::queue_of(*other);
  auto data = block::buffer_of(4096, std::byte{1});
  ASSERT_TRUE(block::write_all(*queue, 8192, data.span()));
  EXPECT_EQ(code_of(format(*other, {})), Code::kConflict);
  EXPECT_EQ(code_of(RecordStore::open(memory_device(kMiB), {})), Code::kNotFound);
  EXPECT_TRUE(format(*other, {.force = true}));
  EXPECT_EQ(code_of(format(*memory_device(8192), {})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(format(*memory_device(kMiB), {.record_bytes = 100})), Code::kInvalidArgument);
}

TEST(RecordStore, KeepsTheHighestEpochAndTheOwner) {
  const auto device = memory_device(kMiB);
  ASSERT_TRUE(format(*device, {}));
  {
    const auto store = open_store(device, {.owner = "node 1", .epoch = 5});
    EXPECT_EQ(store->last_epoch(), 0U);
    EXPECT_TRUE(store->was_clean());
    recover_all(*store);
    EXPECT_TRUE(store->close());
    EXPECT_EQ(code_of(store->close()), Code::kInvalidArgument);
    EXPECT_EQ(code_of(store->reserve(1)), Code::kUnavailable);
  }
  {
    const auto store = open_store(device, {.owner = std::string(500, 'n'), .epoch = 3});
    EXPECT_EQ(store->last_epoch(), 5U);
    EXPECT_TRUE(store->was_clean());
    EXPECT_EQ(store->previous_owner(), "node 1");
  }
  const auto store = open_store(device);
  EXPECT_EQ(store->last_epoch(), 5U);
  EXPECT_FALSE(store->was_clean());
  EXPECT_EQ(store->previous_owner(), std::string(160, 'n'));
  EXPECT_EQ(code_of(RecordStore::open(device, {.expect = Uuid::random()})), Code::kConflict);
}

// What to do about it is for who asked: the store knows no configuration.
TEST(RecordStore, WhatAnotherOwnerHasNotClosedIsForItsHeirsOnly) {
  const auto device = memory_device(kMiB);
  ASSERT_TRUE(format(*device, {}));
  open_store(device, {.owner = "node-a:7 (process 42)", .epoch = 7}).reset();  // not closed
  std::string held_by;
  const auto refused =
      RecordStore::open(device, {.owner = "node-b:1", .heir = "node-b:"}, &held_by);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kConflict);
  EXPECT_EQ(held_by, "node-a:7 (process 42)");
  const std::string& text = refused.error().message();
  EXPECT_NE(text.find("node-a:7 (process 42)"), std::string::npos) << text;
  EXPECT_NE(text.find("epoch 7"), std::string::npos) << text;
  EXPECT_EQ(text.find("cold."), std::string::npos) << text;
  EXPECT_EQ(code_of(RecordStore::open(device, {.heir = "node-b:"})), Code::kConflict);
  held_by.clear();
  const auto heir = RecordStore::open(device, {.owner = "node-a:8", .heir = "node-a:"}, &held_by);
  ASSERT_TRUE(heir) << heir.error().to_string();
  EXPECT_EQ((*heir)->previous_owner(), "node-a:7 (process 42)");  // the refused changed nothing
  recover_all(**heir);
  ASSERT_TRUE((*heir)->close());
  EXPECT_TRUE(RecordStore::open(device, {.owner = "node-b:1", .heir = "node-b:"}, &held_by));
  EXPECT_EQ(held_by, "");
}

TEST(RecordStore, IsNotClosedWhileInUse) {
  const auto store = fresh_store(memory_device(kMiB));
  auto writer = writer_of(*store);
  EXPECT_EQ(code_of(RecordWriter::create(*store, {})), Code::kConflict);
  const auto payload = payload_of(1, 10);
  const RecordId id = take_value(put_one(*store, *writer, manifest_of("k", payload), payload));
  EXPECT_EQ(code_of(store->close()), Code::kConflict);
  writer.reset();
  {
    const auto reservation = store->reserve(1);
    EXPECT_EQ(code_of(store->close()), Code::kConflict);
  }
  {
    const auto pin = store->pin(id);
    EXPECT_EQ(code_of(store->close()), Code::kConflict);
  }
  EXPECT_TRUE(store->release(id));
  EXPECT_EQ(code_of(store->close()), Code::kConflict);  // it would be there again
  writer = writer_of(*store);
  while (!writer->idle()) writer->poll({});
  writer.reset();
  EXPECT_TRUE(store->close());
}

TEST(RecordStore, ReadOnlyWritesNothing) {
  const auto device = memory_device(kMiB);
  RecordId id;
  const auto payload = payload_of(1, 10);
  {
    const auto store = fresh_store(device);
    const auto writer = writer_of(*store);
    id = take_value(put_one(*store, *writer, manifest_of("k", payload), payload));
  }
  const auto before = block::contents(*device, 0, kMiB);
  {
    const auto store = open_store(device, {.owner = "reader", .epoch = 9, .read_only = true});
    EXPECT_EQ(recover_all(*store).size(), 1U);
    EXPECT_EQ(code_of(store->reserve(1)), Code::kPermissionDenied);
    EXPECT_FALSE(store->release(id));
    EXPECT_EQ(code_of(RecordWriter::create(*store, {})), Code::kPermissionDenied);
    const auto reader = reader_of(*store);
    EXPECT_EQ(take_value(read_one(*store, *reader, id, checksum64(payload))), payload);
    EXPECT_TRUE(store->close());
  }
  const auto after = block::contents(*device, 0, kMiB);
  EXPECT_EQ(std::memcmp(before.data(), after.data(), kMiB), 0);
}

TEST(RecordStore, BoundsAndErrorsOfItsIo) {
  const auto store = fresh_store(memory_device(kMiB));
  EXPECT_EQ(code_of(RecordWriter::create(*store, {.depth = 0})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(RecordReader::create(*store, {.depth = 0})), Code::kInvalidArgument);
  const auto writer = writer_of(*store, {.records_max = 1});
  const auto payload = payload_of(1, 100);
  auto wrong = take_value(store->reserve(99));
  EXPECT_EQ(code_of(writer->put(std::move(wrong), payload, manifest_of("k", payload), 1, {})),
            Code::kInvalidArgument);
  EXPECT_TRUE(static_cast<bool>(wrong));  // still ours
  auto one = take_value(store->reserve(100));
  EXPECT_EQ(code_of(writer->put(std::move(one), payload, manifest_of("", payload), 1, {})),
            Code::kInvalidArgument);
  ASSERT_TRUE(writer->put(std::move(one), payload, manifest_of("k", payload), 1, {}));
  auto two = take_value(store->reserve(100));
  EXPECT_EQ(code_of(writer->put(std::move(two), payload, manifest_of("l", payload), 2, {})),
            Code::kBackpressure);
  const auto done = wait_for(*writer, 1);
  EXPECT_EQ(code_of(writer->release({17, 4}, 1)), Code::kNotFound);
  const auto reader = reader_of(*store, {.records_max = 1});
  std::vector<std::byte> small(99);
  EXPECT_EQ(code_of(reader->read(take_value(store->pin(done[0].id)), small, 0, 1, {})),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(read_one(*store, *reader, done[0].id, 12345)), Code::kCorrupt);
  EXPECT_EQ(store->stats().damaged_payloads, 1U);
  EXPECT_EQ(store->stats().pins, 0U);
  EXPECT_TRUE(read_one(*store, *reader, done[0].id, checksum64(payload)));
}

TEST(RecordStore, FlushesAreShared) {
  const auto store = fresh_store(memory_device(8 * kMiB));
  const auto writer = writer_of(*store);
  std::vector<std::vector<std::byte>> payloads;
  for (std::uint64_t i = 0; i < 128; ++i) payloads.push_back(payload_of(i, 20 * kKiB));
  for (std::uint64_t i = 0; i < 128; ++i) {
    const Manifest manifest = manifest_of(std::to_string(i), payloads[i]);
    ASSERT_TRUE(writer->put(take_value(store->reserve(20 * kKiB)), payloads[i], manifest, i, {}));
  }
  for (const WriteDone& done : wait_for(*writer, 128)) EXPECT_TRUE(done.result);
  EXPECT_LE(writer->flushes(), 12U);
}

}  // namespace
}  // namespace larder::extent
