// SPDX-License-Identifier: Apache-2.0
// Writer, readers, releases and recovery at once.
#include <atomic>
#include <thread>

#include "extent/extent_testing.h"
#include "extent/scrubber.h"

namespace larder::extent {
namespace {

TEST(ExtentConcurrent, RecordsArePinnedReadAndReleasedWhileTheScanRuns) {
  const auto device = memory_device(16 * kMiB);
  const auto payload = payload_of(1, 4000);
  {
    const auto store = fresh_store(device);
    const auto writer = writer_of(*store);
    std::uint64_t done = 0;
    for (std::uint64_t i = 0; i < 1500;) {
      auto reservation = take_value(store->reserve(payload.size()));
      const auto put = writer->put(std::move(reservation), payload,
                                   manifest_of("k" + std::to_string(i), payload), i, {});
      i += put ? 1 : 0;
      std::array<WriteDone, 64> ended;
      done += writer->poll(ended);
    }
    wait_for(*writer, 1500 - done);
  }
  const auto store = open_store(device);
  const auto writer = writer_of(*store);
  std::atomic<bool> over{false};
  std::thread writes([&] {
    while (!over || !writer->idle()) {
      std::array<WriteDone, 8> done;
      writer->wait(done, block::within(env::kMilli));
    }
  });
  std::atomic<std::uint64_t> dropped{0};
  const auto report =
      store->recover({.queues = 4, .depth = 4}, [&](const RecordStore::Found& found) {
        const auto pin = store->pin(found.id);
        EXPECT_TRUE(pin);
        EXPECT_EQ(code_of(store->reserve(1)), Code::kBackpressure);
        if (found.id.cell % 3 == 0) {
          ++dropped;
          return RecordStore::Verdict::kDrop;
        }
        if (found.id.cell % 5 == 0) {
          ++dropped;
          EXPECT_TRUE(store->release(found.id));
        }
        return RecordStore::Verdict::kKeep;
      });
  ASSERT_TRUE(report) << report.error().to_string();
  over = true;
  writer->wake();
  writes.join();
  EXPECT_EQ(store->stats().records, 1500 - dropped.load());
  EXPECT_EQ(store->stats().used, store->stats().records * 4096);
  EXPECT_EQ(store->stats().releasing, 0U);
  expect_balanced(*store);
}

TEST(ExtentConcurrent, AStoppedRecoveryGoesOn) {
  const auto device = memory_device(4 * kMiB);
  const auto payload = payload_of(1, 100);
  {
    const auto store = fresh_store(device);
    const auto writer = writer_of(*store);
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(put_one(*store, *writer, manifest_of("k" + std::to_string(i), payload), payload));
    }
  }
  const auto store = open_store(device);
  std::atomic<bool> stop{false};
  std::atomic<int> seen{0};
  const auto visit = [&](const RecordStore::Found&) {
    if (++seen == 50) stop = true;
    return RecordStore::Verdict::kKeep;
  };
  EXPECT_EQ(code_of(store->recover({.queues = 2, .depth = 1, .stop = &stop}, visit)),
            Code::kCancelled);
  stop = false;
  seen = 100;  // beyond the 50
  ASSERT_TRUE(store->recover({.queues = 2, .depth = 1, .stop = &stop}, visit));
  EXPECT_EQ(store->stats().records, 300U);
  EXPECT_EQ(code_of(store->recover({}, visit)), Code::kInvalidArgument);
}

TEST(ExtentConcurrent, ReadersWriterReleasesAndScrubber) {
  const auto store = fresh_store(memory_device(4 * kMiB));
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> last{0};  // packed id of a recent record
  const auto payload = payload_of(3, 30000);
  const std::uint64_t sum = checksum64(payload);
  std::thread reads([&] {
    const auto reader = reader_of(*store, {.depth = 4, .piece_bytes = 8192});
    while (!over) {
      const auto got = read_one(*store, *reader, RecordId::unpack(last.load()), sum);
      EXPECT_TRUE(got || got.error().code() == Code::kNotFound);
    }
  });
  std::thread scrubs([&] {
    auto scrubber = take_value(Scrubber::create(*store, [](RecordId, Scrubber::Fault fault) {
      // A header that was released between the look at the books and the read is no fault of
      // the device; it is pinned, so it is there.
      ADD_FAILURE() << static_cast<int>(fault);
    }));
    while (!over) EXPECT_TRUE(scrubber->step(64 * kKiB));
  });
  const auto writer = writer_of(*store);
  for (int i = 0; i < 2000; ++i) {
    const auto id = put_one(*store, *writer, manifest_of("k", payload), payload);
    ASSERT_TRUE(id) << id.error().to_string();
    const RecordId before = RecordId::unpack(last.exchange(id->pack()));
    EXPECT_EQ(store->release(before), i > 0);
    while (store->stats().releasing > kMiB) {
      std::array<WriteDone, 1> none;
      writer->poll(none);
    }
  }
  over = true;
  reads.join();
  scrubs.join();
  while (!writer->idle()) writer->poll({});
  EXPECT_EQ(store->stats().records, 1U);
  expect_balanced(*store);
}

// A release wakes a writer that sleeps.
TEST(ExtentConcurrent, AReleaseIsCarriedOutByAWriterThatSleeps) {
  const auto store = fresh_store(memory_device(kMiB));
  const auto writer = writer_of(*store);
  const auto payload = payload_of(3, 100);
  const RecordId id = take_value(put_one(*store, *writer, manifest_of("k", payload), payload));
  std::thread sleeps([&] {
    std::array<WriteDone, 1> none;
    EXPECT_EQ(writer->wait(none, block::within(block::kSoon)), 0U);  // ended by wake()
  });
  EXPECT_TRUE(store->release(id));
  const env::Nanos deadline = block::within(block::kSoon);
  while (store->stats().used > 0 && env::monotonic_now() < deadline) std::this_thread::yield();
  EXPECT_EQ(store->stats().used, 0U);
  writer->wake();
  sleeps.join();
}

}  // namespace
}  // namespace larder::extent
