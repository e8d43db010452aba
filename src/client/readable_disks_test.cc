// SPDX-License-Identifier: Apache-2.0
#include "client/readable_disks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "client/client_testing.h"
#include "nvmf/target/target.h"

namespace larder::client {
namespace {

constexpr std::size_t kBytes = 1U << 20U;

class ReadableDisksTest : public testing::Test {
 protected:
  DiskName file(std::uint32_t number, const std::string& content) {
    const std::string path = dir_.path() + "/" + std::to_string(number);
    std::ofstream(path, std::ios::binary) << content;
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return {number,
            path,
            {static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino)},
            {}};
  }
  // A target with a namespace in memory that holds make_value(number).
  DiskName remote(std::uint32_t number) {
    nvmf::TargetOptions options;
    options.listen.port = 0;
    nvmf::NamespaceOptions space;
    space.ram_bytes = kBytes;
    auto target = nvmf::Target::create(options, {std::move(space)});
    EXPECT_TRUE(target) << target.error().to_string();
    targets_.push_back(std::move(*target));
    nvmf::NvmeDeviceOptions from;
    from.url = nvmf::parse_nvme_url(targets_.back()->url()).value();
    auto device = nvmf::NvmeDevice::open(from).value();
    const Bytes value = make_value(number, kBytes);
    const block::Piece piece = block::Piece::from(value);
    auto queue = device->open_queue(1).value();
    EXPECT_TRUE(queue->submit(block::BlockOp::write(0, {&piece, 1})));
    std::array<block::BlockDone, 1> done;
    EXPECT_EQ(queue->wait(done, block::kNoDeadline), 1U);
    EXPECT_TRUE(done[0].ok());
    return {number, targets_.back()->url(), {}, device->identity().id};
  }
  std::shared_ptr<const ReadableDisk> found(ReadableDisks& disks, const DiskName& name) {
    std::shared_ptr<const ReadableDisk> disk;
    EXPECT_TRUE(soon([&] {
      disk = disks.find(name);
      return disk != nullptr;
    }));
    return disk;
  }
  static bool has(const std::vector<std::uint32_t>& numbers, std::uint32_t number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  }

  const env::TempDirectory dir_ = env::TempDirectory::create("larder-readable").value();
  std::vector<std::unique_ptr<nvmf::Target>> targets_;
};

TEST_F(ReadableDisksTest, AFileIsFoundAtOnceAndOnlyAsItself) {
  ReadableDisks disks;
  const DiskName one = file(1, "one");
  EXPECT_TRUE(disks.find(one));
  EXPECT_TRUE(disks.not_wanted().empty());
  DiskName other = file(2, "two");
  other.identity.inode += 1;
  EXPECT_FALSE(disks.find(other));
  EXPECT_FALSE(disks.find({3, dir_.path() + "/none", {1, 2}, {}}));
  // The first is as good as before.
  EXPECT_EQ(disks.not_wanted(), (std::vector<std::uint32_t>{2, 3}));
  EXPECT_TRUE(disks.find(one));
  disks.clear();
  EXPECT_TRUE(disks.not_wanted().empty());
}

TEST_F(ReadableDisksTest, WhatCouldNotBeOpenedIsTriedAgainLater) {
  ReadableDisks disks(0);
  const DiskName name = file(1, "one");
  ASSERT_EQ(std::rename(name.path.c_str(), (name.path + ".away").c_str()), 0);
  EXPECT_FALSE(disks.find(name));
  ASSERT_EQ(std::rename((name.path + ".away").c_str(), name.path.c_str()), 0);
  EXPECT_FALSE(disks.find(name));
  EXPECT_TRUE(disks.not_wanted().empty());  // it was, until now
  EXPECT_TRUE(disks.find(name));
}

TEST_F(ReadableDisksTest, AnotherNumberOfTheSameDiskCounts) {
  ReadableDisks disks;
  DiskName name{4, dir_.path() + "/none", {1, 2}, {}};
  EXPECT_FALSE(disks.find(name));
  name.number = 9;
  EXPECT_FALSE(disks.find(name));
  EXPECT_EQ(disks.not_wanted(), std::vector<std::uint32_t>{9});
}

TEST_F(ReadableDisksTest, TheyAreBounded) {
  ReadableDisks disks;
  for (std::uint32_t i = 0; i < 300; ++i) {
    EXPECT_FALSE(disks.find({i % 255, dir_.path() + "/none " + std::to_string(i), {1, 2}, {}}));
  }
  EXPECT_EQ(disks.not_wanted().size(), 256U);
}

TEST_F(ReadableDisksTest, ANamespaceIsNotWantedUntilItIsConnected) {
  ReadableDisks disks;
  const DiskName name = remote(5);
  const bool at_once = disks.find(name) != nullptr;
  if (!at_once && has(disks.not_wanted(), 5)) {
    EXPECT_TRUE(soon([&] { return disks.not_wanted().empty(); }));
  }
  EXPECT_TRUE(disks.find(name));
}

TEST_F(ReadableDisksTest, WhatIsNotThatNamespaceIsLeftToTheNode) {
  ReadableDisks disks;
  DiskName other = remote(5);
  other.id += "0";
  DiskName nobody = other;
  nobody.number = 6;
  nobody.path = "nvme-tcp://127.0.0.1:1/nqn.2024-01.local.larder:none";
  DiskName words = other;
  words.number = 7;
  words.path = "http://elsewhere";
  for (const DiskName& name : {other, nobody, words}) EXPECT_FALSE(disks.find(name));
  targets_.clear();
  ASSERT_TRUE(soon([&] {
    return !disks.find(other) && !disks.find(nobody) && !disks.find(words) &&
           disks.not_wanted().size() == 3;
  }));
}

// A file and two namespaces, in one call.
TEST_F(ReadableDisksTest, ManyDisksAreReadSideBySide) {
  ReadableDisks disks;
  const Bytes here = make_value(1, kBytes);
  const DiskName names[] = {
      file(1, std::string(reinterpret_cast<const char*>(here.data()), here.size())), remote(2),
      remote(3)};
  constexpr std::size_t kValues = 48;
  constexpr std::size_t kEach = 60'000;
  std::vector<Bytes> rooms(kValues, Bytes(kEach));
  std::vector<MutableBytes> pieces(rooms.begin(), rooms.end());
  std::vector<DiskRead> reads(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    const Bytes all = make_value(1 + i % 3, kBytes);
    const std::size_t offset = i * 4096;
    reads[i].disk = found(disks, names[i % 3]);
    ASSERT_TRUE(reads[i].disk);
    reads[i].extents = {{offset, 61'440}};
    reads[i].bytes = kEach;
    reads[i].checksum = checksum64(ConstBytes(all).subspan(offset, kEach));
    reads[i].into = std::span(&pieces[i], 1);
  }
  for (int round = 0; round < 3; ++round) {
    for (DiskRead& read : reads) read.good = false;
    disks.read(reads, {}, env::monotonic_now() + 60 * env::kSecond);
    for (std::size_t i = 0; i < kValues; ++i) ASSERT_TRUE(reads[i].good) << i;
  }
}

TEST_F(ReadableDisksTest, ATargetThatGoesLeavesItsReadsToTheNode) {
  ReadableDisks disks;
  const DiskName gone = remote(1);
  const DiskName stays = remote(2);
  std::vector<Bytes> rooms(2, Bytes(kBytes));
  std::vector<MutableBytes> pieces(rooms.begin(), rooms.end());
  std::vector<DiskRead> reads(2);
  for (std::size_t i = 0; i < 2; ++i) {
    reads[i].disk = found(disks, i == 0 ? gone : stays);
    ASSERT_TRUE(reads[i].disk);
    reads[i].extents = {{0, kBytes}};
    reads[i].bytes = kBytes;
    reads[i].checksum = checksum64(make_value(1 + i, kBytes));
    reads[i].into = std::span(&pieces[i], 1);
  }
  targets_[0].reset();
  disks.read(reads, {}, env::monotonic_now() + 60 * env::kSecond);
  EXPECT_FALSE(reads[0].good);
  EXPECT_TRUE(reads[1].good);
  EXPECT_TRUE(soon([&] { return has(disks.not_wanted(), 1); }));
  EXPECT_FALSE(has(disks.not_wanted(), 2));
  EXPECT_FALSE(disks.find(gone));
}

}  // namespace
}  // namespace larder::client
