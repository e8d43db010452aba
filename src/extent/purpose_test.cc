// SPDX-License-Identifier: Apache-2.0
// Why the store's bytes move: every operation says so.
#include "extent/extent_testing.h"
#include "extent/scrubber.h"

namespace larder::extent {
namespace {

constexpr qos::Purpose kOwn{Intent::kRemoteStoreWrite, TrafficClass::kLow};
constexpr qos::Purpose kPut{Intent::kCheckpoint, TrafficClass::kHigh};
constexpr qos::Purpose kGet{Intent::kForegroundPrefixFetch, TrafficClass::kHigh};

struct Note {
  block::OpKind kind;
  Intent intent;
  TrafficClass traffic_class;
};

class Notes {
 public:
  void add(const block::BlockOp& op) {
    const std::lock_guard lock(mutex_);
    notes_.push_back({op.kind, op.purpose.intent, op.purpose.traffic_class});
  }
  // What was submitted since it was asked last.
  std::vector<Note> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(notes_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Note> notes_;
};

// Hands on all that it is given, and notes why.
class NotingQueue final : public block::BlockQueue {
 public:
  NotingQueue(std::shared_ptr<block::DeviceBooks> books, std::unique_ptr<block::BlockQueue> inner,
              Notes& notes, std::size_t depth)
      : BlockQueue(std::move(books), depth), inner_(std::move(inner)), notes_(notes) {}
  void start() override { inner_->start(); }
  void wake() noexcept override { inner_->wake(); }
  bool quiesce(env::Nanos deadline) override { return inner_->quiesce(deadline); }

 protected:
  Result<void> take(const block::BlockOp& op) override {
    notes_.add(op);
    return inner_->submit(op);
  }
  std::size_t collect(std::span<block::BlockDone> into) override { return inner_->poll(into); }
  std::size_t collect_by(std::span<block::BlockDone> into, env::Nanos deadline) override {
    return inner_->wait(into, deadline);
  }

 private:
  std::unique_ptr<block::BlockQueue> inner_;
  Notes& notes_;
};

class NotingDevice final : public block::BlockDevice {
 public:
  NotingDevice(std::shared_ptr<block::BlockDevice> inner, Notes& notes)
      : BlockDevice(std::make_shared<block::DeviceBooks>(inner->geometry(), inner->identity(),
                                                         block::HealthLimits{})),
        inner_(std::move(inner)),
        notes_(notes) {}
  bool add_buffer(std::span<std::byte>) override { return false; }
  void remove_buffer(std::span<std::byte>) override {}

 protected:
  Result<std::unique_ptr<block::BlockQueue>> make_queue(std::size_t depth) override {
    LARDER_ASSIGN(auto inner, inner_->open_queue(depth));
    return std::unique_ptr<block::BlockQueue>(
        std::make_unique<NotingQueue>(books(), std::move(inner), notes_, depth));
  }

 private:
  std::shared_ptr<block::BlockDevice> inner_;
  Notes& notes_;
};

class PurposeTest : public testing::Test {
 protected:
  PurposeTest() {
    EXPECT_TRUE(format(*device_, {.record_bytes = 4 * kKiB, .writes = kOwn}));
    formatted_ = notes_.take();
    store_ = open_store(device_, {.owner = "a test", .writes = kOwn});
  }
  // All of `notes`: what is changed says `writes`, what is read `reads`.
  static void expect(const std::vector<Note>& notes, qos::Purpose writes, qos::Purpose reads) {
    EXPECT_FALSE(notes.empty());
    for (const Note& note : notes) {
      const qos::Purpose& want = note.kind == block::OpKind::kRead ? reads : writes;
      EXPECT_EQ(intent_name(note.intent), intent_name(want.intent)) << block::op_name(note.kind);
      EXPECT_EQ(note.traffic_class, want.traffic_class) << block::op_name(note.kind);
    }
  }
  static bool has(const std::vector<Note>& notes, block::OpKind kind, Intent intent) {
    return std::any_of(notes.begin(), notes.end(), [&](const Note& note) {
      return note.kind == kind && note.intent == intent;
    });
  }
  Result<RecordId> put(RecordWriter& writer, const std::vector<std::byte>& payload) {
    LARDER_ASSIGN(auto space, store_->reserve(payload.size()));
    LARDER_TRY(writer.put(std::move(space), payload, manifest_of("a", payload), 7, kPut));
    const auto done = wait_for(writer, 1);
    if (done.empty()) return fail(Code::kInternal, "it did not end");
    if (!done[0].result) return fail(done[0].result.error());
    return done[0].id;
  }

  Notes notes_;
  std::shared_ptr<NotingDevice> device_ =
      std::make_shared<NotingDevice>(memory_device(8 * kMiB), notes_);
  std::vector<Note> formatted_;
  std::unique_ptr<RecordStore> store_;
};

TEST_F(PurposeTest, WhatTheStoreKeepsForItselfIsItsOwn) {
  expect(formatted_, kOwn, {});
  expect(notes_.take(), kOwn, {});  // opened
  recover_all(*store_);
  const std::vector<Note> recovered = notes_.take();
  expect(recovered, kOwn, {});
  EXPECT_TRUE(has(recovered, block::OpKind::kRead, Intent::kUnknown));
  ASSERT_TRUE(store_->close());
  const std::vector<Note> closed = notes_.take();
  expect(closed, kOwn, {});
  EXPECT_TRUE(has(closed, block::OpKind::kWrite, kOwn.intent));
}

TEST_F(PurposeTest, PutsAndGetsSayWhy) {
  recover_all(*store_);
  const auto payload = payload_of(1, 20 * kKiB);
  const auto writer = writer_of(*store_);
  notes_.take();
  const RecordId id = take_value(put(*writer, payload));
  std::vector<Note> notes = notes_.take();
  std::erase_if(notes, [](const Note& note) { return note.kind == block::OpKind::kFlush; });
  expect(notes, kPut, kPut);  // payload and header
  const auto reader = reader_of(*store_);
  std::vector<std::byte> out(payload.size());
  ASSERT_TRUE(reader->read(take_value(store_->pin(id)), out, checksum64(payload), 9, kGet));
  ReadDone done;
  ASSERT_EQ(reader->wait({&done, 1}, block::within(block::kSoon)), 1U);
  ASSERT_TRUE(done.result);
  expect(notes_.take(), kOwn, kGet);
}

TEST_F(PurposeTest, TombstonesAndFlushesAreTheStores) {
  recover_all(*store_);
  const auto writer = writer_of(*store_);
  const RecordId id = take_value(put(*writer, payload_of(1, 4 * kKiB)));
  const std::vector<Note> put_notes = notes_.take();
  EXPECT_TRUE(has(put_notes, block::OpKind::kFlush, kOwn.intent));
  ASSERT_TRUE(release_one(*writer, id));
  const std::vector<Note> notes = notes_.take();
  EXPECT_TRUE(has(notes, block::OpKind::kWrite, kOwn.intent));
  expect(notes, kOwn, kOwn);  // its block of the table is read before it is written
}

TEST_F(PurposeTest, TheScrubberIsOfNoIntentAndNeverFirst) {
  recover_all(*store_);
  const auto writer = writer_of(*store_);
  take_value(put(*writer, payload_of(1, 20 * kKiB)));
  const auto scrubber = take_value(Scrubber::create(*store_, {}));
  notes_.take();
  while (!take_value(scrubber->step(kMiB))) {
  }
  EXPECT_EQ(scrubber->stats().records, 1U);
  expect(notes_.take(), kOwn, {});
}

}  // namespace
}  // namespace larder::extent
