// SPDX-License-Identifier: Apache-2.0
// Disks that fail, rot, and are not what they should be.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tier/cold/cold_testing.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::size_t kValue = 64U << 10U;

class ColdFaultsTest : public testing::Test {
 protected:
  std::string path() const { return directory_.path(); }
  std::string store_file(const std::string& disk) const {
    return path() + "/" + disk + "/larder.store";
  }
  env::TempDirectory directory_ = env::TempDirectory::create("cold").value();
};

TEST_F(ColdFaultsTest, ARottenValueIsAMissAndIsForgotten) {
  ColdBed bed(path());
  std::shared_ptr<block::FaultDevice> fault;
  const auto disk = bed.add_faulty("a", 64 * kMiB, fault);
  bed.put_cold("a", make_value(1, kValue));
  bed.put_cold("b", make_value(2, kValue));
  {
    const auto pin = disk->store().pin(Place::unpack(bed.find("a")->cold()).record);
    ASSERT_TRUE(pin);
    ASSERT_TRUE(fault->flip_bit(pin->extents()[0].offset + 777, 3));
  }
  const auto got = bed.restore("a");
  EXPECT_EQ(got.error().code(), Code::kNotFound);
  EXPECT_FALSE(bed.find("a"));
  EXPECT_EQ(disk->counters().corrupt, 1U);
  EXPECT_FALSE(disk->last_error().empty());
  EXPECT_TRUE(bed.read("b") == make_value(2, kValue));
  // It can be put again.
  bed.put_cold("a", make_value(1, kValue));
  EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
}

TEST_F(ColdFaultsTest, WithAHotCopyRotCostsNothing) {
  ColdBedOptions options;
  options.cold.scrub_every = 1;
  ColdBed bed(path(), 1, options);
  std::shared_ptr<block::FaultDevice> fault;
  const auto disk = bed.add_faulty("a", 64 * kMiB, fault);
  ASSERT_EQ(bed.put("a", make_value(1, kValue)), Code::kOk);
  ASSERT_TRUE(bed.settle());
  {
    const auto pin = disk->store().pin(Place::unpack(bed.find("a")->cold()).record);
    ASSERT_TRUE(fault->flip_bit(pin->extents()[0].offset, 0));
  }
  while (disk->counters().corrupt == 0) std::this_thread::yield();  // the scrubber comes by
  while (bed.find("a")->cold() != 0) std::this_thread::yield();
  ASSERT_TRUE(bed.find("a"));
  EXPECT_EQ(bed.find("a")->cold(), 0U);
  EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
}

// One of three disks answers nothing but errors: the others take over, and nothing else changes.
TEST_F(ColdFaultsTest, ADeadDiskLeavesTheOthersToIt) {
  ColdBedOptions options;
  options.hot_bytes = 16 * kMiB;
  ColdBed bed(path(), 1, options);
  block::FaultOptions faults;
  faults.health.fail_after = 2;
  std::shared_ptr<block::FaultDevice> fault;
  const auto dead = bed.add_faulty("a", 64 * kMiB, fault, faults);
  bed.put_cold("on the dead one", make_value(7, kValue));
  bed.add_disk("b", 64 * kMiB);
  bed.add_disk("c", 64 * kMiB);
  fault->set_bad(0, 64 * kMiB);
  for (int i = 0; i < 150; ++i) {
    ASSERT_EQ(bed.put(std::to_string(i), make_value(i, kValue)), Code::kOk);
    bed.tick();
  }
  ASSERT_TRUE(bed.settle());
  bed.tick();
  EXPECT_EQ(dead->state(), DeviceState::kFailed);
  EXPECT_FALSE(dead->last_error().empty());
  EXPECT_GT(dead->counters().write_errors, 0U);
  EXPECT_FALSE(bed.find("on the dead one"));
  EXPECT_TRUE(bed.read("on the dead one").empty());
  for (int i = 0; i < 150; ++i) {
    const route::EntryRef entry = bed.find(std::to_string(i));
    ASSERT_TRUE(entry) << i;
    EXPECT_NE(entry->cold(), 0U) << i;
    EXPECT_NE(Place::unpack(entry->cold()).device, dead->number());
    EXPECT_TRUE(bed.read(std::to_string(i)) == make_value(i, kValue)) << i;
  }
}

// With its last disk gone a node is a cache in DRAM again: nothing is held back for it.
TEST_F(ColdFaultsTest, TheLastDiskMayDieToo) {
  ColdBed bed(path());
  block::FaultOptions faults;
  faults.health.fail_after = 1;
  std::shared_ptr<block::FaultDevice> fault;
  const auto disk = bed.add_faulty("a", 64 * kMiB, fault, faults);
  fault->set_bad(0, 64 * kMiB);
  ASSERT_EQ(bed.put("a", make_value(1, kValue)), Code::kOk);
  while (disk->state() != DeviceState::kFailed) bed.tick();
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(bed.put(std::to_string(i), make_value(i, kValue)), Code::kOk) << i;
  }
  EXPECT_TRUE(bed.read("199") == make_value(199, kValue));
}

// Errors now and then: written elsewhere or again, and what cannot be read is a miss, never wrong.
TEST_F(ColdFaultsTest, ErrorsNowAndThen) {
  ColdBedOptions options;
  options.cold.queue.retry_first = env::kMilli;
  options.cold.queue.refused_pause = env::kMilli;
  options.cold.admission.pause = env::kMilli;
  ColdBed bed(path(), 1, options);
  block::FaultOptions faults;
  faults.read_error = 0.05;
  faults.write_error = 0.05;
  faults.misread = 0.05;
  faults.reorder = 0.5;
  faults.late = 0.3;
  // Opening has tests of its own: here it is tried until no fault meets it.
  ASSERT_TRUE(bed.open_disk("a", 64 * kMiB));
  std::shared_ptr<ColdDevice> disk;
  for (faults.seed = 1; disk == nullptr && faults.seed < 50; ++faults.seed) {
    auto opened = bed.open_disk("a", 64 * kMiB, [&](std::shared_ptr<block::BlockDevice> inner) {
      return block::FaultDevice::create(std::move(inner), faults).value();
    });
    if (!opened) continue;
    disk = *opened;
    opened = fail(Code::kInternal, "");
    ASSERT_TRUE(bed.cold->add(disk));
    bed.cold->finish_recovery();
    if (disk->accepts()) continue;
    static_cast<void>(bed.cold->take_out(disk));
    disk.reset();
  }
  ASSERT_NE(disk, nullptr);
  int missed = 0;
  for (int i = 0; i < 200; ++i) {
    while (bed.put(std::to_string(i), make_value(i, kValue)) != Code::kOk) bed.settle();
  }
  ASSERT_TRUE(bed.settle());
  for (int i = 0; i < 200; ++i) {
    const Bytes value = bed.read(std::to_string(i));
    missed += value.empty() ? 1 : 0;
    if (!value.empty()) {
      EXPECT_TRUE(value == make_value(i, kValue)) << i;
    }
  }
  EXPECT_LT(missed, 60);
  EXPECT_GT(disk->counters().read_errors + disk->counters().corrupt, 0U);
  EXPECT_TRUE(ColdBed::adds_up(*disk));
}

TEST_F(ColdFaultsTest, ARemoveThatCannotBeMadeDurableSaysSo) {
  ColdBed bed(path());
  std::shared_ptr<block::FaultDevice> fault;
  bed.add_faulty("a", 64 * kMiB, fault);
  bed.put_cold("a", make_value(1, kValue));
  fault->set_bad(0, kMiB);  // the headers
  EXPECT_FALSE(bed.remove("a"));
  EXPECT_FALSE(bed.find("a"));
  // Nothing replaces it meanwhile, and the next try says the same.
  EXPECT_EQ(bed.put("a", make_value(2, kValue)), Code::kConflict);
  EXPECT_FALSE(bed.remove("a"));
}

// Somebody empties the file under a running node: misses, and a disk that has failed.
TEST_F(ColdFaultsTest, AStoreThatIsTakenAway) {
  ColdBed bed(path());
  const auto disk = bed.add_disk("a", 64 * kMiB);
  for (int i = 0; i < 20; ++i) bed.put_cold(std::to_string(i), make_value(i, kValue));
  std::filesystem::resize_file(store_file("a"), 0);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(bed.read(std::to_string(i)).empty()) << i;
  EXPECT_EQ(disk->counters().read_errors, 20U);
  bed.tick();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(bed.put("new " + std::to_string(i), make_value(i, kValue)), Code::kOk);
    EXPECT_TRUE(bed.read("new " + std::to_string(i)) == make_value(i, kValue));
  }
}

// A disk that is slow by far: nothing is lost or wrong, and nothing waits that need not.
// A sparse file on a full file system, a thin namespace: full for a while, and DRAM goes on alone.
TEST_F(ColdFaultsTest, NoSpaceBehindADiskIsAFullDisk) {
  ColdBed bed(path());
  std::shared_ptr<block::FaultDevice> fault;
  const auto disk = bed.add_faulty("a", 64 * kMiB, fault);
  bed.put_cold("before", make_value(1, kValue));
  fault->set_full(true);
  ASSERT_EQ(bed.put("vain", make_value(2, kValue)), Code::kOk);
  while (disk->state() != DeviceState::kFull) bed.tick();
  bed.tick();
  EXPECT_EQ(bed.find("vain")->cold(), 0U);
  EXPECT_FALSE(disk->last_error().empty());
  // Nobody waits for it: more than DRAM holds is taken, at once, and the oldest go.
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(bed.put("hot " + std::to_string(i), make_value(i, kValue)), Code::kOk) << i;
  }
  EXPECT_TRUE(bed.read("before") == make_value(1, kValue));
  // It is tried again in the end, and gets what DRAM wants to drop from then on.
  fault->set_full(false);
  bed.cold->tick(env::monotonic_now() + ColdDevice::kNoSpace);
  EXPECT_EQ(disk->state(), DeviceState::kHealthy);
  while (bed.put("push", make_value(4, kValue)) != Code::kOk) std::this_thread::yield();
  ASSERT_TRUE(bed.settle());
  EXPECT_GT(disk->counters().offloaded, 1U);
  bed.put_cold("after", make_value(3, kValue));
  EXPECT_TRUE(bed.read("after") == make_value(3, kValue));
}

TEST_F(ColdFaultsTest, ASlowDisk) {
  ColdBed bed(path());
  block::FaultOptions faults;
  faults.late = 1;
  faults.late_polls_max = 1000;
  std::shared_ptr<block::FaultDevice> fault;
  bed.add_faulty("a", 64 * kMiB, fault, faults);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(bed.put(std::to_string(i), make_value(i, kValue)), Code::kOk);
    EXPECT_TRUE(bed.read(std::to_string(i)) == make_value(i, kValue));  // from DRAM, at once
  }
  ASSERT_TRUE(bed.settle());
  for (int i = 0; i < 30; ++i) {
    bed.evict(std::to_string(i));
    EXPECT_TRUE(bed.read(std::to_string(i)) == make_value(i, kValue));
  }
}

TEST_F(ColdFaultsTest, OneOwner) {
  ColdBed bed(path());
  bed.add_disk("a", 64 * kMiB);
  const auto second = bed.open_disk("a", 64 * kMiB);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kConflict);
  EXPECT_NE(second.error().message().find("process " + std::to_string(::getpid())),
            std::string::npos)
      << second.error().message();
}

TEST_F(ColdFaultsTest, StrangeFilesAreRefusedAndStayAsTheyAre) {
  ColdBed bed(path());
  std::filesystem::create_directory(path() + "/a");
  const std::string text(2 * kMiB, 'x');
  std::ofstream(store_file("a")) << text;
  const auto opened = bed.open_disk("a", 0);
  ASSERT_FALSE(opened);
  std::ifstream file(store_file("a"));
  const std::string after((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(after == text);
}

TEST_F(ColdFaultsTest, AnotherSizeIsRefused) {
  {
    ColdBed bed(path());
    bed.add_disk("a", 64 * kMiB);
  }
  ColdBed bed(path());
  const auto larger = bed.open_disk("a", 128 * kMiB);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(bed.open_disk("a", 0));
}

TEST_F(ColdFaultsTest, BothSuperblocksBadSaysWhatToDo) {
  {
    ColdBed bed(path());
    bed.add_disk("a", 64 * kMiB);
  }
  {
    std::fstream file(store_file("a"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20);
    file << "rot";
    file.seekp(64 * static_cast<std::streamoff>(kMiB) - 4096 + 20);
    file << "rot";
  }
  ColdBed bed(path());
  const auto opened = bed.open_disk("a", 0);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::kCorrupt);
  EXPECT_GT(opened.error().message().size(), 60U) << opened.error().message();
}

TEST_F(ColdFaultsTest, AMissingParentIsNamed) {
  ColdBed bed(path());
  const auto opened = bed.open_disk("no/such/place", 64 * kMiB);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::kNotFound);
  EXPECT_NE(opened.error().message().find("no/such/place"), std::string::npos);
}

TEST(ParseDisk, PathsAndSizes) {
  EXPECT_EQ(parse_disk("/a/b")->path, "/a/b");
  EXPECT_EQ(parse_disk("/a/b")->bytes, 0U);
  EXPECT_EQ(parse_disk("/a/b:10GiB")->bytes, 10ULL << 30U);
  EXPECT_EQ(parse_disk("/a/b/:10GiB")->path, "/a/b");
  EXPECT_EQ(parse_disk("/a:b/c")->path, "/a:b/c");
  EXPECT_FALSE(parse_disk("/a:many"));
  EXPECT_FALSE(parse_disk(""));
  EXPECT_FALSE(parse_disk(":1GiB"));
  EXPECT_EQ(parse_disk("/")->path, "/");
}

}  // namespace
}  // namespace larder::tier
