// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor_disk.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/doctor_testing.h"
#include "block/file_device.h"
#include "env/temp_directory.h"
#include "extent/record_store.h"

namespace larder::apps {
namespace {

using env::kMicro;
using nlohmann::json;

constexpr std::uint64_t kGiB = 1ULL << 30;

DiskReport good_disk() {
  DiskReport disk;
  disk.path = "/mnt/nvme";
  disk.asked = 100 * kGiB;
  disk.dir = {.path = "/mnt/nvme",
              .write_errno = 0,
              .direct_errno = 0,
              .in_memory = false,
              .filesystem = "xfs",
              .free = 1000 * kGiB};
  disk.volatile_cache = true;
  disk.tried = disk.direct = true;
  disk.block_bytes = 4096;
  disk.flush = 400 * kMicro;
  disk.write_bytes_per_s = 2e9;
  disk.read_bytes_per_s = 5e9;
  return disk;
}

TEST(DiskSpec, PathAndSize) {
  const auto both = parse_disk_spec("/mnt/nvme:512GiB");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->path, "/mnt/nvme");
  EXPECT_EQ(both->bytes, 512 * kGiB);
  EXPECT_EQ(parse_disk_spec("/mnt/nvme")->bytes, 0U);
  EXPECT_EQ(parse_disk_spec("/mnt/a:b")->path, "/mnt/a:b");
  EXPECT_EQ(parse_disk_spec("/mnt/a:b:4096")->path, "/mnt/a:b");
  for (const char* bad : {"", ":1GiB", "/mnt/nvme:0"}) {
    const auto refused = parse_disk_spec(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  }
}

TEST(DoctorDisk, AGoodDiskIsFine) {
  expect_all_fine(judge_disk(good_disk()), 10);
}

class DoctorDiskLack : public testing::TestWithParam<Lack<DiskReport>> {};

TEST_P(DoctorDiskLack, IsMarkedAndSaysWhatToDo) {
  DiskReport disk = good_disk();
  GetParam().take(disk);
  expect_only(judge_disk(disk), GetParam().id, GetParam().mark);
}

constexpr Mark kWarn = Mark::kWarn;
constexpr Mark kFail = Mark::kFail;
const Lack<DiskReport> kLacks[] = {
    {"disk_folder", kFail, [](auto& d) { d.dir.write_errno = EROFS; }},
    {"disk_folder", kFail, [](auto& d) { d.dir.in_memory = true; }},
    {"disk_kind", kWarn, [](auto& d) { d.dir.filesystem = "nfs"; }},
    {"disk_kind", kWarn, [](auto& d) { d.dir.filesystem = "overlayfs"; }},
    {"disk_kind", kWarn, [](auto& d) { d.dir.filesystem = ""; }},
    {"disk_space", kFail, [](auto& d) { d.asked = 1001 * kGiB; }},
    {"disk_space", kWarn, [](auto& d) { d.asked = kGiB / 2; }},
    {"disk_space", kWarn,
     [](auto& d) {
       d.asked = 0;
       d.dir.free = kGiB / 2;
     }},
    {"disk_own", kWarn, [](auto& d) { d.same_as_root = true; }},
    {"disk_store", kWarn,
     [](auto& d) { d.store = {.there = true, .in_use = true, .error = "process 7 has it"}; }},
    {"disk_store", kFail, [](auto& d) { d.store = {.there = true, .error = "corrupt"}; }},
    {"disk_io_uring", kWarn, [](auto& d) { d.io_uring.setup_errno = EPERM; }},
    {"disk_trial", kFail,
     [](auto& d) {
       d.tried = false;
       d.error = "unavailable: EIO";
     }},
    {"disk_direct", kWarn, [](auto& d) { d.direct = false; }},
    {"disk_flush", kWarn, [](auto& d) { d.flush = 2 * kMicro; }},
    {"disk_rate", kWarn, [](auto& d) { d.read_bytes_per_s = 5e7; }},
    {"disk_rate", kWarn, [](auto& d) { d.write_bytes_per_s = 5e7; }},
};
INSTANTIATE_TEST_SUITE_P(EveryCheck, DoctorDiskLack, testing::ValuesIn(kLacks));

TEST(DoctorDisk, AQuickFlushIsFineWithoutAVolatileCache) {
  DiskReport disk = good_disk();
  disk.flush = kMicro;
  disk.volatile_cache = false;
  EXPECT_EQ(worst(judge_disk(disk)), Mark::kOk);
  disk.volatile_cache.reset();
  EXPECT_EQ(worst(judge_disk(disk)), Mark::kOk);
}

TEST(DoctorDisk, NothingIsSaidOfWhatWasNotTried) {
  DiskReport disk = good_disk();
  disk.dir.write_errno = ENOENT;
  EXPECT_EQ(judge_disk(disk).size(), 1U);
  disk = good_disk();
  disk.tried = false;
  disk.error = "exhausted: too little space to try it";
  for (const Check& check : judge_disk(disk)) {
    EXPECT_TRUE(check.id != "disk_flush" && check.id != "disk_rate") << check.id;
  }
  const json parsed = json::parse(render_disk_json(disk, judge_disk(disk)));
  EXPECT_EQ(parsed["disk"]["flush_ns"], nullptr);
  EXPECT_EQ(parsed["disk"]["o_direct"], nullptr);
}

TEST(DoctorDisk, JsonParsesAndAgreesWithTheChecks) {
  DiskReport disk = good_disk();
  disk.path = "/bad\xff\xfe";
  disk.same_as_root = true;
  const auto checks = judge_disk(disk);
  const json parsed = json::parse(render_disk_json(disk, checks));
  EXPECT_EQ(parsed["version"], 1);
  EXPECT_EQ(parsed["verdict"], "warn");
  ASSERT_EQ(parsed["checks"].size(), checks.size());
  for (std::size_t i = 0; i < checks.size(); ++i) {
    EXPECT_EQ(parsed["checks"][i]["id"], checks[i].id);
    EXPECT_EQ(parsed["checks"][i]["mark"], mark_name(checks[i].mark));
  }
  EXPECT_EQ(parsed["disk"]["asked_bytes"], 100 * kGiB);
  EXPECT_EQ(parsed["disk"]["flush_ns"], 400 * kMicro);
  EXPECT_EQ(parsed["disk"]["same_as_root"], true);
}

TEST(DoctorDisk, TriesAFolderAndLeavesNothing) {
  auto folder = env::TempDirectory::create("larder-doctor");
  ASSERT_TRUE(folder);
  const DiskReport disk =
      probe_disk({folder->path(), 0}, {.file_bytes = 8U << 20U, .span = env::kMilli, .flushes = 3});
  EXPECT_EQ(disk.dir.write_errno, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder->path()));
  if (disk.dir.in_memory) return;  // nothing is tried there
  ASSERT_TRUE(disk.tried) << disk.error;
  EXPECT_GT(disk.flush, 0);
  EXPECT_GT(disk.read_bytes_per_s, 0);
  EXPECT_GT(disk.write_bytes_per_s, 0);
  EXPECT_GE(disk.block_bytes, 512U);
}

TEST(DoctorDisk, TheStoreThatIsThereCountsAsRoom) {
  DiskReport disk = good_disk();
  disk.asked = 1500 * kGiB;
  EXPECT_EQ(worst(judge_disk(disk)), Mark::kFail);
  disk.store = {.there = true, .bytes = 1000 * kGiB, .uuid = "u", .owner = "node 1"};
  EXPECT_EQ(worst(judge_disk(disk)), Mark::kOk);
  const json parsed = json::parse(render_disk_json(disk, judge_disk(disk)));
  EXPECT_EQ(parsed["disk"]["store"]["owner"], "node 1");
  EXPECT_EQ(json::parse(render_disk_json(good_disk(), {}))["disk"]["store"], nullptr);
}

TEST(DoctorDisk, LooksAtTheStoreAndChangesNothing) {
  auto folder = env::TempDirectory::create("larder-doctor");
  ASSERT_TRUE(folder);
  const DiskProbeOptions quick{.file_bytes = 8U << 20U, .span = env::kMilli, .flushes = 3};
  block::FileDeviceOptions how;
  how.path = folder->file(kStoreName);
  how.create = true;
  how.bytes = 32U << 20U;
  {
    const auto device = block::FileDevice::open(how);
    ASSERT_TRUE(device) << device.error().to_string();
    ASSERT_TRUE(extent::format(**device, {}));
    const auto store = extent::RecordStore::open(*device, {.owner = "node 7"});
    ASSERT_TRUE(store) << store.error().to_string();
    const DiskReport used = probe_disk({folder->path(), 0}, quick);
    if (used.dir.in_memory) GTEST_SKIP() << "no disk for temporary files";
    EXPECT_TRUE(used.store.in_use) << used.store.error;
  }
  for (int i = 0; i < 2; ++i) {  // the second time finds what the first left
    const DiskReport found = probe_disk({folder->path(), 0}, quick);
    EXPECT_TRUE(found.store.there);
    EXPECT_FALSE(found.store.in_use);
    EXPECT_EQ(found.store.error, "");
    EXPECT_EQ(found.store.owner, "node 7");
    EXPECT_FALSE(found.store.clean);
    EXPECT_GE(found.store.bytes, 32U << 20U);
  }
  std::filesystem::resize_file(how.path, 1U << 20U);
  const DiskReport cut = probe_disk({folder->path(), 0}, quick);
  EXPECT_NE(cut.store.error, "");
  EXPECT_EQ(worst(judge_disk(cut)), Mark::kFail);
}

TEST(DoctorDisk, MemoryIsNoDisk) {
  const DiskReport disk = probe_disk({"/dev/shm", 0});
  if (!disk.dir.in_memory) GTEST_SKIP() << "/dev/shm is no tmpfs here";
  EXPECT_FALSE(disk.tried);
  EXPECT_EQ(worst(judge_disk(disk)), Mark::kFail);
}

TEST(DoctorDisk, AMissingFolderIsOneClearFailure) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_disk_doctor({"/proc/larder-not-there", 0}, true), 1);
  const json parsed = json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(parsed["verdict"], "fail");
  EXPECT_EQ(parsed["checks"].size(), 1U);
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_disk_doctor({"/proc/larder-not-there", 0}, false), 1);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("disk_folder"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
