// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/cold_tier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tier/cold/cold_testing.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::size_t kValue = 64U << 10U;

class ColdTierTest : public testing::Test {
 protected:
  std::string path() const { return directory_.path(); }
  env::TempDirectory directory_ = env::TempDirectory::create("cold").value();
};

TEST_F(ColdTierTest, AValueGoesToDiskAndComesBack) {
  ColdBedOptions options;
  options.cold.promotion = Promotion::kOnHit;
  ColdBed bed(path(), 1, options);
  const auto disk = bed.add_disk("a", 64 * kMiB);
  // Whole blocks, a part of one, less than one.
  for (const std::size_t bytes : {kValue, kValue + 1, std::size_t{100}, std::size_t{1}}) {
    const std::string name = "k" + std::to_string(bytes);
    const Bytes value = make_value(bytes, bytes);
    bed.put_cold(name, value);
    const auto restored = bed.restore(name);
    ASSERT_TRUE(restored) << restored.error().to_string();
    EXPECT_TRUE(Bytes((*restored)->data(), (*restored)->data() + bytes) == value);
    EXPECT_EQ((*restored)->length(), bytes);
    // On a hit it is in DRAM again, and on disk still.
    const route::EntryRef entry = bed.find(name);
    ASSERT_TRUE(entry->has_hot());
    EXPECT_NE(entry->cold(), 0U);
  }
  EXPECT_EQ(disk->counters().offloaded, 4U);
  EXPECT_EQ(disk->counters().restored, 4U);
  EXPECT_TRUE(ColdBed::adds_up(*disk));
}

// Readers of shared memory tell hot copies apart by the version word alone: one that knows the
// value by an earlier copy must not take what lies there now for it.
TEST_F(ColdTierTest, EachHotCopyHasAVersionOfItsOwn) {
  ColdBed bed(path());
  bed.add_disk("a", 64 * kMiB);
  ASSERT_EQ(bed.put("a", make_value(1, kValue)), Code::kOk);
  ASSERT_TRUE(bed.settle());
  const std::uint64_t first = bed.find("a")->version();
  ASSERT_TRUE(bed.evict("a"));
  EXPECT_EQ(bed.find("a")->version(), first);  // the record's
  ASSERT_TRUE(bed.restore("a", true));
  ASSERT_TRUE(bed.find("a")->has_hot());
  EXPECT_NE(bed.find("a")->version(), first);
}

// What lost its record while it was in DRAM is written again before DRAM drops it.
TEST_F(ColdTierTest, ALostRecordIsWrittenAgain) {
  ColdBed bed(path());
  const auto disk = bed.add_disk("a", 64 * kMiB);
  ASSERT_EQ(bed.put("a", make_value(1, kValue)), Code::kOk);
  ASSERT_TRUE(bed.settle());
  {
    const route::EntryRef entry = bed.find("a");
    ASSERT_TRUE(bed.routes->drop_record(entry, entry->cold()));
  }
  // DRAM is filled twice over.
  for (int i = 0; i < 128; ++i) {
    while (bed.put(std::to_string(i), make_value(i, kValue)) != Code::kOk) bed.settle();
  }
  ASSERT_TRUE(bed.settle());
  EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
  EXPECT_EQ(disk->counters().offloaded, 130U);  // "a" twice
}

// A disk that comes back has a new number each time. Without one it is refused, and the others go
// on.
TEST_F(ColdTierTest, NumbersEndAndTheOtherDisksGoOn) {
  ColdBedOptions options;
  options.cold.devices_max = 4;
  ColdBed bed(path(), 1, options);
  const auto kept = bed.add_disk("kept", 64 * kMiB);
  for (std::size_t i = 1; i < 4; ++i) {
    ASSERT_TRUE(bed.cold->can_add()) << i;
    const auto disk = bed.add_disk("back", 4 * kMiB);
    ASSERT_EQ(disk->number(), i);
    ASSERT_TRUE(bed.cold->take_out(disk));
  }
  EXPECT_EQ(bed.cold->can_add().error().code(), Code::kExhausted);
  const auto more = bed.open_disk("back", 4 * kMiB);
  ASSERT_TRUE(more) << more.error().to_string();
  const auto refused = bed.cold->add(*more);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExhausted);
  EXPECT_NE(refused.error().message().find("4 disks"), std::string::npos)
      << refused.error().message();
  EXPECT_EQ(bed.cold->devices(), std::vector{kept});
  bed.put_cold("a", make_value(1, kValue));
  EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
  EXPECT_EQ(kept->counters().restored, 1U);
}

TEST_F(ColdTierTest, WithoutADiskNothingIsOwed) {
  ColdBed bed(path());
  ASSERT_EQ(bed.put("a", make_value(1, kValue)), Code::kOk);
  EXPECT_EQ(bed.cold->offloader().stats().owed, 0U);
  EXPECT_TRUE(bed.evict("a"));
  EXPECT_FALSE(bed.find("a"));
}

// While the disk stands still DRAM fills up, and what was accepted stays.
TEST_F(ColdTierTest, NothingLeavesDramBeforeItIsOnDisk) {
  ColdBed bed(path());
  std::shared_ptr<block::FaultDevice> fault;
  bed.add_faulty("a", 64 * kMiB, fault);
  fault->stall();
  std::vector<std::string> stored;
  Code code = Code::kOk;
  for (int i = 0; code == Code::kOk && i < 1000; ++i) {
    const std::string name = std::to_string(i);
    code = bed.put(name, make_value(i, kValue));
    if (code == Code::kOk) stored.push_back(name);
  }
  EXPECT_EQ(code, Code::kBackpressure);
  EXPECT_GT(stored.size(), 50U);
  EXPECT_EQ(bed.hot->counters().evicted_objects, 0U);
  EXPECT_EQ(bed.cold->offloader().stats().owed, stored.size());
  std::promise<void> room;
  ASSERT_TRUE(bed.cold->offloader().wait_for_room(kValue, block::kNoDeadline,
                                                  [&room] { room.set_value(); }));
  fault->resume();
  room.get_future().get();
  ASSERT_TRUE(bed.settle());
  EXPECT_EQ(bed.cold->offloader().stats().owed, 0U);
  EXPECT_EQ(bed.cold->offloader().stats().owed_bytes, 0U);
  EXPECT_EQ(bed.put("more", make_value(7, kValue)), Code::kOk);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    EXPECT_TRUE(bed.read(stored[i]) == make_value(i, kValue)) << i;
  }
}

TEST_F(ColdTierTest, WaitersHearAtTheirDeadline) {
  ColdBed bed(path());
  std::shared_ptr<block::FaultDevice> fault;
  bed.add_faulty("a", 64 * kMiB, fault);
  Offloader& offloader = bed.cold->offloader();
  EXPECT_FALSE(offloader.wait_for_room(1, 100, [] { FAIL(); }));  // nothing is owed
  fault->stall();
  ASSERT_EQ(bed.put("a", make_value(1, kValue)), Code::kOk);
  bool heard = false;
  ASSERT_TRUE(offloader.wait_for_room(1, 100, [&heard] { heard = true; }));
  offloader.tick(99);
  EXPECT_FALSE(heard);
  offloader.tick(100);
  EXPECT_TRUE(heard);
  fault->resume();
}

TEST_F(ColdTierTest, InEvictModeOnlyWhatDramDropsIsWritten) {
  ColdBedOptions options;
  options.cold.mode = OffloadMode::kEvictTriggered;
  ColdBed bed(path(), 1, options);
  const auto disk = bed.add_disk("a", 64 * kMiB);
  ASSERT_EQ(bed.put("0", make_value(0, kValue)), Code::kOk);
  ASSERT_TRUE(bed.settle());
  EXPECT_EQ(disk->counters().offloaded, 0U);
  // Twice what DRAM holds.
  for (int i = 0; i < 128; ++i) {
    const Bytes value = make_value(i, kValue);
    while (bed.put(std::to_string(i), value) == Code::kBackpressure) ASSERT_TRUE(bed.settle());
  }
  ASSERT_TRUE(bed.settle());
  EXPECT_GT(disk->counters().offloaded, 50U);
  EXPECT_LE(disk->counters().offloaded, 128U);
  for (int i = 0; i < 128; ++i) {
    EXPECT_TRUE(bed.read(std::to_string(i)) == make_value(i, kValue)) << i;
  }
}

TEST_F(ColdTierTest, ReplacedAndRemovedValuesLeaveTheDisk) {
  ColdBed bed(path());
  const auto disk = bed.add_disk("a", 64 * kMiB);
  bed.put_cold("a", make_value(1, kValue));
  bed.put_cold("b", make_value(2, kValue));
  bed.put_cold("a", make_value(3, kValue));
  ASSERT_TRUE(bed.remove("b"));
  EXPECT_FALSE(bed.find("b"));
  bed.tick();
  EXPECT_TRUE(bed.read("a") == make_value(3, kValue));
  // By a release of our own, which is durable after those that were asked for before.
  ASSERT_TRUE(bed.remove("a"));
  EXPECT_EQ(disk->store().stats().records, 0U);
  EXPECT_TRUE(ColdBed::adds_up(*disk));
}

// A value may be on its way to disk when it is removed, and durable there a moment later. Whoever
// removes it waits until that record is given up, too: else a crash would bring it back.
TEST_F(ColdTierTest, ARemoveWaitsForAWriteInFlight) {
  {
    ColdBed bed(path());
    std::shared_ptr<block::FaultDevice> fault;
    const auto disk = bed.add_faulty("a", 64 * kMiB, fault);
    fault->stall();
    ASSERT_EQ(bed.put("a", make_value(1, kValue)), Code::kOk);
    const std::uint64_t version = bed.find("a")->version();
    while (!bed.cold->lingers(version, 0)) std::this_thread::yield();
    const route::EntryRef entry = bed.routes->begin_remove(bed.key("a"));
    EXPECT_EQ(entry->cold(), 0U);
    std::promise<Code> gone;
    std::atomic<bool> told{false};
    bed.cold->forget(version, 0, [&](const Result<void>& result) {
      told = true;
      gone.set_value(result ? Code::kOk : result.error().code());
    });
    EXPECT_FALSE(told);
    fault->resume();
    EXPECT_EQ(gone.get_future().get(), Code::kOk);
    EXPECT_EQ(disk->store().stats().records, 0U);
    EXPECT_EQ(bed.cold->offloader().stats().too_late, 1U);
    bed.routes->end_remove(entry);
    EXPECT_FALSE(bed.cold->lingers(version, 0));
  }
  ColdBed bed(path(), 2);
  const auto disk = bed.add_disk("a", 64 * kMiB);
  EXPECT_EQ(disk->counters().recovered, 0U);
}

// Reads go before writes on a disk, and writes go on.
TEST_F(ColdTierTest, ReadsAndWritesBothEnd) {
  ColdBedOptions options;
  options.hot_bytes = 16 * kMiB;
  ColdBed bed(path(), 1, options);
  const auto disk = bed.add_disk("a", 128 * kMiB);
  for (int i = 0; i < 40; ++i) bed.put_cold(std::to_string(i), make_value(i, kValue));
  std::atomic<int> right{0};
  std::vector<std::promise<void>> answers(40);
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(bed.put("w" + std::to_string(i), make_value(100 + i, kValue)), Code::kOk);
    bed.cold->restorer().restore(
        bed.find(std::to_string(i)), {}, false, [&, i](const Result<RestoredRef>& got) {
          const Bytes value = make_value(i, kValue);
          if (got && std::memcmp((*got)->data(), value.data(), kValue) == 0) ++right;
          answers[i].set_value();
        });
  }
  for (auto& answer : answers) answer.get_future().get();
  EXPECT_EQ(right, 40);
  ASSERT_TRUE(bed.settle());
  EXPECT_EQ(disk->counters().offloaded, 80U);
}

TEST_F(ColdTierTest, ManyReadersOfOneValueMakeOneRead) {
  ColdBed bed(path());
  std::shared_ptr<block::FaultDevice> fault;
  const auto disk = bed.add_faulty("a", 64 * kMiB, fault);
  const Bytes value = make_value(1, kValue);
  bed.put_cold("a", value);
  fault->stall();
  std::vector<std::promise<bool>> answers(8);
  for (auto& answer : answers) {
    bed.cold->restorer().restore(bed.find("a"), {}, false, [&](const Result<RestoredRef>& got) {
      answer.set_value(got && std::memcmp((*got)->data(), value.data(), value.size()) == 0);
    });
  }
  fault->resume();
  for (auto& answer : answers) EXPECT_TRUE(answer.get_future().get());
  EXPECT_EQ(bed.cold->restorer().stats().flights, 1U);
  EXPECT_EQ(bed.cold->restorer().stats().joined, 7U);
  EXPECT_EQ(disk->counters().restored, 1U);
}

TEST_F(ColdTierTest, ReadsBeyondTheBoundWaitTheirTurn) {
  ColdBedOptions options;
  options.cold.restore_bytes_max = 3 * kValue;
  ColdBed bed(path(), 1, options);
  std::shared_ptr<block::FaultDevice> fault;
  bed.add_faulty("a", 64 * kMiB, fault);
  for (int i = 0; i < 20; ++i) bed.put_cold(std::to_string(i), make_value(i, kValue));
  fault->stall();
  std::vector<std::promise<bool>> answers(20);
  for (int i = 0; i < 20; ++i) {
    bed.cold->restorer().restore(
        bed.find(std::to_string(i)), {}, false, [&, i](const Result<RestoredRef>& got) {
          const Bytes value = make_value(i, kValue);
          answers[i].set_value(got && std::memcmp((*got)->data(), value.data(), kValue) == 0);
        });
  }
  EXPECT_EQ(bed.cold->restorer().stats().bytes_in_flight, 3 * kValue);
  EXPECT_EQ(bed.cold->restorer().stats().waited, 17U);
  fault->resume();
  for (auto& answer : answers) EXPECT_TRUE(answer.get_future().get());
  EXPECT_EQ(bed.cold->restorer().stats().bytes_in_flight, 0U);
}

TEST_F(ColdTierTest, PromotionByPolicy) {
  for (const Promotion policy : {Promotion::kNever, Promotion::kOnHit, Promotion::kOnSecondHit}) {
    ColdBedOptions options;
    options.cold.promotion = policy;
    ColdBed bed(path(), 1, options);
    bed.add_disk("p" + std::to_string(static_cast<int>(policy)), 64 * kMiB);
    bed.put_cold("a", make_value(1, kValue));
    EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
    EXPECT_EQ(bed.find("a")->has_hot(), policy == Promotion::kOnHit);
    EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
    EXPECT_EQ(bed.find("a")->has_hot(), policy != Promotion::kNever);
    // Where memory is asked for, policy does not count.
    ASSERT_TRUE(bed.find("a")->has_hot() || bed.restore("a", true));
    EXPECT_TRUE(bed.find("a")->has_hot());
  }
}

// Without room in DRAM a read comes back all the same, from memory of its own.
TEST_F(ColdTierTest, AReadNeedsNoRoomInDram) {
  ColdBedOptions options;
  options.hot_bytes = kMiB;
  ColdBed bed(path(), 1, options);
  bed.add_disk("a", 64 * kMiB);
  bed.put_cold("a", make_value(1, kValue));
  std::vector<Reservation> all;
  while (auto space = bed.hot->reserve(kValue)) all.push_back(std::move(*space));
  EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
  EXPECT_FALSE(bed.find("a")->has_hot());
}

TEST_F(ColdTierTest, AFullDiskDropsWhatIsLeastWanted) {
  ColdBed bed(path());
  const auto disk = bed.add_disk("a", 8 * kMiB);
  const std::uint64_t capacity = disk->store().stats().capacity;
  for (int i = 0; i < 400; ++i) {
    const Bytes value = make_value(i, kValue);
    while (bed.put(std::to_string(i), value) == Code::kBackpressure) {
      bed.tick();
      bed.cold->offloader().wait_idle(env::monotonic_now() + env::kMilli);
    }
    bed.tick();
    const extent::StoreStats stats = disk->store().stats();
    ASSERT_EQ(stats.used + stats.free, capacity);
  }
  EXPECT_GT(disk->counters().evicted, 100U);
  int kept = 0;
  for (int i = 0; i < 400; ++i) {
    const Bytes value = bed.read(std::to_string(i));
    if (value.empty()) continue;
    EXPECT_TRUE(value == make_value(i, kValue)) << i;
    ++kept;
  }
  EXPECT_GT(kept, 60);  // of the 120 that it holds
}

TEST_F(ColdTierTest, DrainingMovesRecordsToTheOthers) {
  ColdBed bed(path());
  const auto first = bed.add_disk("a", 64 * kMiB);
  for (int i = 0; i < 100; ++i) {
    while (bed.put(std::to_string(i), make_value(i, kValue)) != Code::kOk) bed.settle();
  }
  ASSERT_TRUE(bed.settle());
  const auto second = bed.add_disk("b", 64 * kMiB);
  bed.cold->set_state(*first, DeviceState::kDraining);
  while (first->index().records() > 0) {
    bed.tick();
    ASSERT_TRUE(bed.settle());
  }
  ASSERT_TRUE(bed.cold->take_out(first));
  EXPECT_EQ(second->index().records(), 100U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(bed.read(std::to_string(i)) == make_value(i, kValue)) << i;
  }
}

TEST_F(ColdTierTest, ADiskThatIsTakenOutTakesItsRoutesAlong) {
  ColdBed bed(path());
  auto disk = bed.add_disk("a", 64 * kMiB);
  bed.put_cold("a", make_value(1, kValue));
  ASSERT_EQ(bed.put("b", make_value(2, kValue)), Code::kOk);
  ASSERT_TRUE(bed.settle());
  ASSERT_TRUE(bed.cold->take_out(disk));
  disk.reset();  // the last that holds its lock
  EXPECT_FALSE(bed.find("a"));
  ASSERT_TRUE(bed.find("b"));
  EXPECT_EQ(bed.find("b")->cold(), 0U);
  EXPECT_TRUE(bed.evict("b"));
  // It can come back, with what was on it.
  bed.add_disk("a", 64 * kMiB);
  EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
  EXPECT_TRUE(bed.read("b") == make_value(2, kValue));
}

}  // namespace
}  // namespace larder::tier
