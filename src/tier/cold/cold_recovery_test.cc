// SPDX-License-Identifier: Apache-2.0
// What is on the disks after a stop, and after an end without one.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "tier/cold/cold_testing.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::size_t kValue = 64U << 10U;

class ColdRecoveryTest : public testing::Test {
 protected:
  std::string path() const { return directory_.path(); }
  // The disk is in service; its scan has begun, and finds nothing until resume().
  static std::shared_ptr<block::FaultDevice> add_stalled(ColdBed& bed) {
    std::shared_ptr<block::FaultDevice> fault;
    auto device = bed.open_disk("a", 64 * kMiB, [&](std::shared_ptr<block::BlockDevice> inner) {
      fault = block::FaultDevice::create(std::move(inner), {}).value();
      return fault;
    });
    EXPECT_TRUE(device);
    fault->stall();
    EXPECT_TRUE(bed.cold->add(*device));
    return fault;
  }
  env::TempDirectory directory_ = env::TempDirectory::create("cold").value();
};

TEST_F(ColdRecoveryTest, AStopLosesNothing) {
  std::uint64_t version = 0;
  {
    ColdBed bed(path(), 1);
    bed.add_disk("a", 64 * kMiB);
    for (int i = 0; i < 200; ++i) {
      while (bed.put(std::to_string(i), make_value(i, kValue)) != Code::kOk) bed.settle();
    }
    version = bed.find("199")->version();
    // What is owed still is written by the stop.
    bed.cold->stop(env::monotonic_now() + 60 * env::kSecond);
  }
  ColdBed bed(path(), 2);
  const auto disk = bed.add_disk("a", 64 * kMiB);
  EXPECT_TRUE(disk->store().was_clean());
  EXPECT_EQ(disk->counters().recovered, 200U);
  EXPECT_EQ(disk->counters().orphans, 0U);
  EXPECT_TRUE(ColdBed::adds_up(*disk));
  EXPECT_EQ(bed.find("199")->version(), version);
  EXPECT_GT(bed.routes->next_version(), version);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(bed.read(std::to_string(i)) == make_value(i, kValue)) << i;
  }
}

TEST_F(ColdRecoveryTest, WhatWasRemovedOrReplacedStaysAway) {
  {
    ColdBed bed(path(), 1);
    bed.add_disk("a", 64 * kMiB);
    bed.put_cold("removed", make_value(1, kValue));
    bed.put_cold("replaced", make_value(2, kValue));
    bed.put_cold("replaced", make_value(3, kValue));
    bed.put_cold("dropped", make_value(4, kValue));
    ASSERT_TRUE(bed.remove("removed"));
    const route::EntryRef dropped = bed.find("dropped");
    ASSERT_TRUE(bed.routes->drop_record(dropped, dropped->cold()));
    bed.tick();
    bed.cold->stop(env::monotonic_now() + 60 * env::kSecond);
  }
  ColdBed bed(path(), 2);
  bed.add_disk("a", 64 * kMiB);
  EXPECT_FALSE(bed.find("removed"));
  EXPECT_FALSE(bed.find("dropped"));
  EXPECT_TRUE(bed.read("replaced") == make_value(3, kValue));
  EXPECT_EQ(bed.routes->size(), 1U);
}

// As a crash between the new record and the end of the old one leaves it: both are there.
TEST_F(ColdRecoveryTest, OfTwoRecordsOfAKeyTheNewerStays) {
  {
    ColdBed bed(path(), 1);
    bed.add_disk("a", 64 * kMiB);
    bed.put_cold("k", make_value(1, kValue));
    bed.cold->stop(env::monotonic_now() + 60 * env::kSecond);
  }
  {
    ColdBed bed(path(), 2);  // does not know of the first disk
    bed.add_disk("b", 64 * kMiB);
    bed.put_cold("k", make_value(2, kValue));
    bed.cold->stop(env::monotonic_now() + 60 * env::kSecond);
  }
  for (const bool newer_first : {true, false}) {
    ColdBed bed(path(), 3);
    bed.add_disk(newer_first ? "b" : "a", 64 * kMiB);
    bed.add_disk(newer_first ? "a" : "b", 64 * kMiB);
    EXPECT_TRUE(bed.read("k") == make_value(2, kValue)) << newer_first;
    EXPECT_EQ(bed.routes->size(), 1U);
    if (newer_first) {
      // The orphan is gone from its disk, so put it there again for the second round.
      bed.cold->stop(env::monotonic_now() + 60 * env::kSecond);
      std::filesystem::remove_all(path() + "/a");
      ColdBed again(path() + "/x", 1);
      std::filesystem::create_directory(path() + "/x");
      again.add_disk("a", 64 * kMiB);
      again.put_cold("k", make_value(1, kValue));
      again.cold->stop(env::monotonic_now() + 60 * env::kSecond);
      std::filesystem::rename(path() + "/x/a", path() + "/a");
    }
  }
}

TEST_F(ColdRecoveryTest, WhatWasPutSinceTheStartWins) {
  {
    ColdBed bed(path(), 1);
    bed.add_disk("a", 64 * kMiB);
    bed.put_cold("k", make_value(1, kValue));
    bed.put_cold("other", make_value(9, kValue));
    bed.cold->stop(env::monotonic_now() + 60 * env::kSecond);
  }
  ColdBed bed(path(), 2);
  ASSERT_EQ(bed.put("k", make_value(2, kValue)), Code::kOk);
  const auto disk = bed.add_disk("a", 64 * kMiB);
  EXPECT_TRUE(bed.read("k") == make_value(2, kValue));
  EXPECT_TRUE(bed.read("other") == make_value(9, kValue));
  EXPECT_EQ(disk->counters().orphans, 1U);
}

TEST_F(ColdRecoveryTest, AKeyRemovedDuringTheScanDoesNotComeBack) {
  {
    ColdBed bed(path(), 1);
    bed.add_disk("a", 64 * kMiB);
    bed.put_cold("k", make_value(1, kValue));
    bed.put_cold("other", make_value(2, kValue));
    bed.cold->stop(env::monotonic_now() + 60 * env::kSecond);
  }
  ColdBed bed(path(), 2);
  const auto fault = add_stalled(bed);
  EXPECT_TRUE(bed.cold->recovering());
  EXPECT_EQ(bed.remove("k").error().code(), Code::kNotFound);
  fault->resume();
  bed.cold->finish_recovery();
  EXPECT_FALSE(bed.find("k"));
  EXPECT_TRUE(bed.read("other") == make_value(2, kValue));
}

// Puts and gets go on while the disk is being scanned; what is put waits in DRAM for its turn.
TEST_F(ColdRecoveryTest, ServesDuringTheScan) {
  {
    ColdBed bed(path(), 1);
    bed.add_disk("a", 64 * kMiB);
    bed.put_cold("old", make_value(1, kValue));
    bed.cold->stop(env::monotonic_now() + 60 * env::kSecond);
  }
  ColdBed bed(path(), 2);
  const auto fault = add_stalled(bed);
  ASSERT_EQ(bed.put("new", make_value(2, kValue)), Code::kOk);
  EXPECT_TRUE(bed.read("new") == make_value(2, kValue));
  fault->resume();
  bed.cold->finish_recovery();
  ASSERT_TRUE(bed.settle());
  EXPECT_TRUE(bed.read("old") == make_value(1, kValue));
  EXPECT_NE(bed.find("new")->cold(), 0U);
}

// Power is cut at every change of a load; what comes back is what was put, whole, and nothing that
// was removed.
TEST_F(ColdRecoveryTest, PowerCutAnywhere) {
  const auto load = [&](ColdBed& bed, std::set<std::string>& durable, std::set<std::string>& gone) {
    for (int i = 0; i < 12; ++i) {
      const std::string name = std::to_string(i);
      if (bed.put(name, make_value(i, kValue)) != Code::kOk) return;
      static_cast<void>(bed.cold->offloader().wait_idle(env::monotonic_now() + 5 * env::kMilli));
      const route::EntryRef entry = bed.find(name);
      if (entry && entry->cold() != 0) durable.insert(name);
      if (i % 3 != 2 || !durable.contains(name)) continue;
      durable.erase(name);
      if (bed.remove(name)) gone.insert(name);
    }
  };
  bool cut = true;
  int cuts = 0;
  for (std::uint64_t at = 1; cut && at < 200; ++at) {
    SCOPED_TRACE("cut at change " + std::to_string(at));
    std::filesystem::remove_all(path() + "/a");
    std::set<std::string> durable;
    std::set<std::string> gone;
    {
      ColdBed bed(path(), 1);
      std::shared_ptr<block::FaultDevice> fault;
      block::FaultOptions faults;
      faults.seed = at;
      // Opening and formatting have their own tests; this is about a store in use.
      auto device = bed.open_disk("a", 8 * kMiB);
      ASSERT_TRUE(device);
      ASSERT_TRUE((*device)->stop());
      device->reset();
      faults.cut_at = at;
      auto opened = bed.open_disk("a", 8 * kMiB, [&](std::shared_ptr<block::BlockDevice> inner) {
        fault = block::FaultDevice::create(std::move(inner), faults).value();
        return fault;
      });
      if (opened) {
        ASSERT_TRUE(bed.cold->add(*opened));
        bed.cold->finish_recovery();
        load(bed, durable, gone);
      }
      cut = fault->counts().changes >= at;
      bed.cold->stop(0);
    }
    if (!cut) break;
    ++cuts;
    ColdBed bed(path(), 2);
    const auto disk = bed.add_disk("a", 8 * kMiB);
    EXPECT_TRUE(ColdBed::adds_up(*disk));
    for (int i = 0; i < 12; ++i) {
      const std::string name = std::to_string(i);
      const Bytes value = bed.read(name);
      if (!value.empty()) {
        EXPECT_TRUE(value == make_value(i, kValue)) << name;
        EXPECT_FALSE(gone.contains(name)) << name;
      }
      if (durable.contains(name)) {
        EXPECT_FALSE(value.empty()) << name;
      }
    }
  }
  EXPECT_GT(cuts, 30);
}

}  // namespace
}  // namespace larder::tier
