// SPDX-License-Identifier: Apache-2.0
// What is of files and disks alone; the rest is in tests/conformance/block_device_suite.h.
#include "block/file_device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "block/block_testing.h"
#include "block/host_disk.h"
#include "env/fd.h"
#include "env/temp_directory.h"
#include "fileio/fault_backend.h"
#include "fileio/pool_backend.h"

namespace larder::block {
namespace {

constexpr std::uint64_t kBytes = 1U << 20U;

class FileDeviceTest : public testing::Test {
 protected:
  FileDeviceOptions options(const std::string& name = "device") const {
    return {.path = directory_.file(name), .create = true, .bytes = kBytes};
  }
  void make_file(const std::string& name, std::uint64_t bytes) const {
    std::ofstream(directory_.file(name)).put('x');
    std::filesystem::resize_file(directory_.file(name), bytes);
  }
  bool exists(const std::string& name) const {
    return std::filesystem::exists(directory_.file(name));
  }
  std::uint64_t size_of(const std::string& name) const {
    return std::filesystem::file_size(directory_.file(name));
  }
  std::uint64_t taken_by(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(::stat(directory_.file(name).c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  bool can_zero_ranges() const {
    const env::Fd fd(::open(directory_.file("probe").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    return ::fallocate(fd.get(), FALLOC_FL_ZERO_RANGE, 0, 4096) == 0;
  }
  static std::string refused(const FileDeviceOptions& options, Code code) {
    const auto opened = FileDevice::open(options);
    EXPECT_EQ(code_of(opened), code) << (opened ? "opened" : opened.error().to_string());
    return opened ? "" : opened.error().message();
  }

  env::TempDirectory directory_ = take_value(env::TempDirectory::create("larder-block"));
};

TEST_F(FileDeviceTest, IsCreatedWithItsSpaceForItsUserAlone) {
  const auto device = take_value(FileDevice::open(options()));
  EXPECT_EQ(device->geometry().bytes(), kBytes);
  EXPECT_EQ(size_of("device"), kBytes);
  EXPECT_GE(taken_by("device"), kBytes);
  struct stat info {};
  ASSERT_EQ(::stat(directory_.file("device").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_EQ(device->identity().kind, "file");
  EXPECT_EQ(device->identity().name, directory_.file("device"));
}

TEST_F(FileDeviceTest, OneOwnerWhoIsNamed) {
  auto device = take_value(FileDevice::open(options()));
  auto queue = queue_of(*device);
  FileDeviceOptions larger = options();
  larger.bytes = 2 * kBytes;
  const std::string why = refused(larger, Code::kConflict);
  EXPECT_NE(why.find("process " + std::to_string(::getpid())), std::string::npos) << why;
  EXPECT_EQ(size_of("device"), kBytes);  // he who may not have it changes nothing
  device.reset();
  refused(options(), Code::kConflict);  // its queue still writes
  queue.reset();
  EXPECT_TRUE(FileDevice::open(options()));
}

TEST_F(FileDeviceTest, SaysWhatIsWrongWithAPath) {
  FileDeviceOptions one;
  one.path = directory_.file("nowhere");
  refused(one, Code::kNotFound);
  one.path = directory_.path();
  refused(one, Code::kInvalidArgument);
  one.path = "/dev/null";
  refused(one, Code::kInvalidArgument);
  one.path = "";
  refused(one, Code::kInvalidArgument);
  one.path = "/proc/self/exe";  // a program that runs cannot be written
  refused(one, Code::kConflict);
}

TEST_F(FileDeviceTest, SaysWhatIsWrongWithASize) {
  make_file("small", 4095);
  refused({.path = directory_.file("small")}, Code::kInvalidArgument);
  make_file("file", 3 * 4096 + 7);
  refused({.path = directory_.file("file"), .bytes_min = 4 * 4096}, Code::kInvalidArgument);
  EXPECT_EQ(
      take_value(FileDevice::open({.path = directory_.file("file")}))->geometry().bytes() % 4096,
      0U);
  const std::string why =
      refused({.path = directory_.file("file"), .bytes = 4096}, Code::kInvalidArgument);
  EXPECT_NE(why.find("never shortened"), std::string::npos);
  EXPECT_EQ(size_of("file"), 3 * 4096 + 7U);
  FileDeviceOptions odd = options("new");
  odd.bytes = kBytes + 1;
  refused(odd, Code::kInvalidArgument);
  odd.bytes = std::nullopt;
  refused(odd, Code::kInvalidArgument);
  odd = options("new");
  odd.block_bytes = 3000;
  refused(odd, Code::kInvalidArgument);
  odd.block_bytes = 0;
  odd.bytes_min = 2 * kBytes;
  refused(odd, Code::kInvalidArgument);
  EXPECT_FALSE(exists("new"));
}

TEST_F(FileDeviceTest, WhatComesToNothingIsLeftAsItWas) {
  FileDeviceOptions grown = options("new");
  grown.bytes_min = 2 * kBytes;
  refused(grown, Code::kInvalidArgument);
  EXPECT_FALSE(exists("new"));
  make_file("old", kBytes / 2);
  grown.path = directory_.file("old");
  refused(grown, Code::kInvalidArgument);
  EXPECT_EQ(size_of("old"), kBytes / 2);
}

TEST_F(FileDeviceTest, TheDiskIsNotFilledToTheBrimBeforeItSaysNo) {
  const std::uint64_t free = std::filesystem::space(directory_.path()).available;
  FileDeviceOptions huge = options("new");
  huge.bytes = (free + (1ULL << 40U)) / kBytes * kBytes;
  const std::string why = refused(huge, Code::kExhausted);
  EXPECT_NE(why.find("are free on its disk"), std::string::npos) << why;
  EXPECT_FALSE(exists("new"));
  huge.reserve = false;
  const auto sparse = FileDevice::open(huge);
  EXPECT_TRUE(sparse || sparse.error().code() == Code::kTooLarge);
}

TEST_F(FileDeviceTest, GrowsAndKeepsWhatItHad) {
  AlignedBuffer out = buffer_of(65536, std::byte{7});
  {
    const auto device = take_value(FileDevice::open(options()));
    const auto queue = queue_of(*device);
    ASSERT_TRUE(write_all(*queue, 0, out.span()));
    ASSERT_TRUE(flush(*queue));
  }
  FileDeviceOptions larger = options();
  larger.bytes = 2 * kBytes;
  const auto device = take_value(FileDevice::open(larger));
  EXPECT_EQ(device->geometry().bytes(), 2 * kBytes);
  EXPECT_TRUE(all_are(contents(*device, 0, 65536).span(), std::byte{7}));
  EXPECT_TRUE(all_are(contents(*device, kBytes, 65536).span(), std::byte{0}));
}

TEST_F(FileDeviceTest, ADiscardKeepsTheSpaceOfAReservedFileAndFreesThatOfAnother) {
  AlignedBuffer out = buffer_of(kBytes, std::byte{7});
  for (const bool reserve : {true, false}) {
    FileDeviceOptions how = options(reserve ? "reserved" : "other");
    how.reserve = reserve;
    const auto device = take_value(FileDevice::open(how));
    const auto queue = queue_of(*device);
    ASSERT_TRUE(write_all(*queue, 0, out.span()));
    ASSERT_TRUE(discard(*queue, 0, kBytes));
    ASSERT_TRUE(flush(*queue));
    EXPECT_TRUE(all_are(contents(*device, 0, kBytes).span(), std::byte{0}));
    EXPECT_EQ(size_of(reserve ? "reserved" : "other"), kBytes);
  }
  EXPECT_LT(taken_by("other"), kBytes / 2);
  if (!can_zero_ranges()) GTEST_SKIP() << "this file system cannot zero a range";
  EXPECT_GE(taken_by("reserved"), kBytes);
}

TEST_F(FileDeviceTest, AFileThatWasCutShortFailsReadsAndDegrades) {
  const auto device = take_value(FileDevice::open(options()));
  const auto queue = queue_of(*device);
  std::filesystem::resize_file(directory_.file("device"), kBytes / 2);
  AlignedBuffer in = buffer_of(8192);
  EXPECT_EQ(code_of(read_all(*queue, kBytes / 2, in.span())), Code::kConflict);
  EXPECT_TRUE(read_all(*queue, 0, in.span()));
  EXPECT_EQ(device->health().state, HealthState::kDegraded);
  EXPECT_EQ(device->health().errors, 1U);
}

TEST_F(FileDeviceTest, OneThatHasGrownIsAnotherDeviceOfTheSameFile) {
  const auto device = take_value(FileDevice::open(options()));
  const auto queue = queue_of(*device);
  EXPECT_EQ(device->bytes_now().value(), kBytes);
  EXPECT_EQ(code_of(device->grown()), Code::kInvalidArgument);
  std::filesystem::resize_file(directory_.file("device"), kBytes + 8192 + 100);
  EXPECT_EQ(device->bytes_now().value(), kBytes + 8192);
  const auto larger = take_value(device->grown());
  EXPECT_EQ(larger->geometry().bytes(), kBytes + 8192);
  EXPECT_EQ(larger->identity().id, device->identity().id);
  EXPECT_EQ(device->geometry().bytes(), kBytes);
  const auto other = queue_of(*larger);
  AlignedBuffer out = buffer_of(8192, std::byte{7});
  ASSERT_TRUE(write_all(*other, kBytes, out.span()));
  ASSERT_TRUE(write_all(*other, 0, out.span()));
  EXPECT_TRUE(all_are(contents(*device, 0, 8192).span(), std::byte{7}));
  EXPECT_EQ(code_of(write_all(*queue, kBytes, out.span())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(FileDevice::open(options())), Code::kConflict);
  std::filesystem::resize_file(directory_.file("device"), kBytes / 2);
  EXPECT_EQ(device->bytes_now().value(), kBytes / 2);
  EXPECT_EQ(code_of(device->grown()), Code::kInvalidArgument);
}

MakeBackend failing(double eio) {
  return [eio](std::size_t depth) -> Result<std::unique_ptr<fileio::IoBackend>> {
    LARDER_ASSIGN(auto pool, fileio::PoolBackend::create({.depth = depth, .threads = 0}));
    fileio::FaultOptions faults;
    faults.eio = eio;
    return std::make_unique<fileio::FaultBackend>(std::move(pool), faults);
  };
}

TEST_F(FileDeviceTest, AFailedFlushFailsTheDeviceUntilItIsOpenedAgain) {
  FileDeviceOptions how = options();
  how.make_backend = failing(1);
  AlignedBuffer in = buffer_of(4096);
  {
    const auto device = take_value(FileDevice::open(how));
    const auto queue = queue_of(*device);
    const auto other = queue_of(*device);
    EXPECT_EQ(code_of(flush(*queue)), Code::kUnavailable);
    EXPECT_EQ(device->health().state, HealthState::kFailed);
    EXPECT_EQ(code_of(read_all(*other, 0, in.span())), Code::kUnavailable);
    EXPECT_EQ(code_of(flush(*queue)), Code::kUnavailable);
    EXPECT_EQ(code_of(device->open_queue(1)), Code::kUnavailable);
  }
  how.make_backend = nullptr;
  const auto device = take_value(FileDevice::open(how));
  EXPECT_TRUE(flush(*queue_of(*device)));
}

TEST_F(FileDeviceTest, ManyErrorsInARowFailTheDevice) {
  FileDeviceOptions how = options();
  how.make_backend = failing(1);
  how.health.fail_after = 3;
  const auto device = take_value(FileDevice::open(how));
  const auto queue = queue_of(*device);
  AlignedBuffer out = buffer_of(4096);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(device->health().state, HealthState::kFailed);
    const auto written = write_all(*queue, 0, out.span());
    EXPECT_EQ(code_of(written), Code::kUnavailable);
    EXPECT_NE(written.error().message().find(directory_.file("device")), std::string::npos);
  }
  EXPECT_EQ(device->health().state, HealthState::kFailed);
}

TEST_F(FileDeviceTest, AnErrorOfOnePieceIsTheErrorOfTheOperation) {
  FileDeviceOptions how = options();
  how.make_backend = failing(0.3);
  how.health.fail_after = 1000;
  const auto device = take_value(FileDevice::open(how));
  const auto queue = queue_of(*device);
  AlignedBuffer out = buffer_of(16 * 4096);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < 16; ++i) pieces.push_back({out.data() + i * 4096, 4096});
  int failures = 0;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(queue->submit(BlockOp::write(0, pieces)));
    const auto done = wait_for(*queue, 1);
    ASSERT_EQ(done.size(), 1U);
    if (!done[0].ok()) ++failures;
  }
  EXPECT_GT(failures, 40);  // 1 - 0.7^16 of 50
}

TEST_F(FileDeviceTest, BuffersThatAreKnownAreBounded) {
  const auto device = take_value(FileDevice::open(options()));
  AlignedBuffer memory = buffer_of((FileDevice::kBuffersMax + 1) * 4096);
  for (std::size_t i = 0; i < FileDevice::kBuffersMax; ++i) {
    device->add_buffer(memory.span().subspan(i * 4096, 4096));
  }
  EXPECT_FALSE(device->add_buffer(memory.span().last(4096)));
  const auto queue = queue_of(*device);
  ASSERT_TRUE(read_all(*queue, 0, memory.span().first(65536)));
  for (std::size_t i = 0; i <= FileDevice::kBuffersMax; ++i) {
    device->remove_buffer(memory.span().subspan(i * 4096, 4096));
  }
}

class HostDisk : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_.file("dev/block/259:1/" + name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  DiskFacts facts() const { return disk_facts(259, 1, directory_.path()); }
  env::TempDirectory directory_ = take_value(env::TempDirectory::create("larder-sysfs"));
};

TEST_F(HostDisk, WhatIsNotToldIsTheSafeGuess) {
  EXPECT_TRUE(facts().volatile_cache);
  EXPECT_EQ(facts().discard_bytes, 0U);
  EXPECT_EQ(facts().serial, "");
}

TEST_F(HostDisk, ReadsWhatTheKernelTells) {
  write("queue/write_cache", "write through");
  write("queue/discard_granularity", "4096");
  write("queue/discard_max_bytes", "2147483648");
  write("queue/optimal_io_size", "131072");
  write("serial", "  AB 12 \x01");
  EXPECT_FALSE(facts().volatile_cache);
  EXPECT_EQ(facts().discard_bytes, 4096U);
  EXPECT_EQ(facts().optimal_bytes, 131072U);
  EXPECT_EQ(facts().serial, "AB_12");
  write("queue/write_cache", "write back");
  write("queue/discard_max_bytes", "0");
  write("queue/optimal_io_size", "12x");
  write("wwid", "eui.0025");
  EXPECT_TRUE(facts().volatile_cache);
  EXPECT_EQ(facts().discard_bytes, 0U);
  EXPECT_EQ(facts().optimal_bytes, 0U);
  EXPECT_EQ(facts().serial, "eui.0025");
}

TEST_F(HostDisk, APartitionHasItsDisksQueueAndAnIdOfItsOwn) {
  write("partition", "2");
  write("../queue/write_cache", "write through");
  write("../wwid", "eui.0025");
  EXPECT_FALSE(facts().volatile_cache);
  EXPECT_EQ(facts().serial, "eui.0025-part2");
}

}  // namespace
}  // namespace larder::block
