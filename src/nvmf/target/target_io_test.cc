// SPDX-License-Identifier: Apache-2.0
// What a well-behaved host writes, reads, zeroes and flushes, in every way that data may travel.
#include <gtest/gtest.h>

#include "block/file_device.h"
#include "block/memory_device.h"
#include "env/temp_directory.h"
#include "nvmf/target/target_testing.h"

namespace larder::nvmf {
namespace {

// Every way in which data may travel, on every kind of backing.
struct Way {
  const char* name;
  std::uint8_t digests;
  std::uint8_t hpda;
  std::uint8_t cpda;
  bool sq_flow;
  std::uint32_t r2t_bytes;
  std::uint32_t h2c_bytes;
  bool device;
};
class TargetWays : public ::testing::TestWithParam<Way> {};

TEST_P(TargetWays, WhatIsWrittenIsRead) {
  const Way& way = GetParam();
  TargetOptions options = test_options();
  options.cpda = way.cpda;
  options.r2t_bytes_max = way.r2t_bytes;
  NamespaceOptions space = ram(8 * kMiB);
  if (way.device) {
    space.ram_bytes = 0;
    block::MemoryDeviceOptions memory;
    memory.bytes = 8 * kMiB;
    space.device = value_of(block::MemoryDevice::create(memory));
  }
  const auto target = value_of(Target::create(options, {space}));
  QueueOptions queue_options;
  queue_options.digests = way.digests;
  queue_options.hpda = way.hpda;
  queue_options.sq_flow = way.sq_flow;
  TestHost host(*target, queue_options);
  const auto queue = host.io_queue(1);
  queue->set_h2c_part(way.h2c_bytes);
  std::uint64_t seed = 1;
  for (const std::size_t bytes : {4096UL, 12288UL, 65536UL, 1048576UL}) {
    for (const bool in_capsule : {false, true}) {
      if (in_capsule && bytes > 16384) continue;
      const Bytes data = pattern(bytes, ++seed);
      const Answer written = queue->write(3, data, in_capsule);
      ASSERT_TRUE(written.status.ok()) << to_string(written.status);
      const Answer got = queue->read(3, static_cast<std::uint32_t>(bytes / 4096));
      ASSERT_TRUE(got.status.ok()) << to_string(got.status);
      EXPECT_EQ(got.success_flag, !way.sq_flow);
      ASSERT_TRUE(got.data == data) << bytes << (in_capsule ? " in the capsule" : " by R2T");
    }
  }
  EXPECT_TRUE(queue->flush().status.ok());
}

INSTANTIATE_TEST_SUITE_P(All, TargetWays,
                         ::testing::Values(Way{"plain", 0, 0, 0, false, 0, 1 << 20, false},
                                           Way{"flow", 0, 0, 0, true, 0, 1 << 20, false},
                                           Way{"digests", 3, 0, 0, false, 0, 1 << 20, false},
                                           Way{"digests_flow", 3, 3, 7, true, 8192, 4096, false},
                                           Way{"header_digest", 1, 17, 17, false, 0, 65536, false},
                                           Way{"data_digest", 2, 31, 31, true, 0, 65536, false},
                                           Way{"small_pieces", 0, 0, 0, false, 20480, 1500, false},
                                           Way{"odd_pieces", 2, 0, 0, false, 0, 5000, false},
                                           Way{"device", 0, 0, 0, false, 0, 1 << 20, true},
                                           Way{"device_digests", 3, 5, 9, true, 65536, 40000,
                                               true}),
                         [](const auto& way) { return std::string(way.param.name); });

TEST(Target, ManyCommandsAtOnce) {
  const auto target = ram_target();
  TestHost host(*target);
  const auto queue = host.io_queue(1);
  Bytes burst;
  const Bytes data = pattern(4096, 9);
  for (std::uint16_t cid = 100; cid < 130; ++cid) {
    Command command = TestQueue::io(IoOpcode::kWrite, cid, 1, 4096);
    command.cid = cid;
    command.sgl = Sgl::in_capsule(4096);
    const Bytes one = queue->capsule(command, data);
    burst.insert(burst.end(), one.begin(), one.end());
  }
  ASSERT_TRUE(queue->send(burst));
  for (std::uint16_t cid = 100; cid < 130; ++cid) {
    EXPECT_TRUE(queue->finish(cid).status.ok());
  }
  EXPECT_TRUE(queue->read(129, 1).data == data);
}

TEST(Target, LimitsOfCommands) {
  NamespaceOptions readonly = ram(kMiB);
  readonly.read_only = true;
  const auto target = value_of(Target::create(test_options(), {ram(kMiB), readonly}));
  TestHost host(*target);
  const auto queue = host.io_queue(1);
  const Bytes block = pattern(4096, 1);
  EXPECT_EQ(queue->read(256, 1).status, refused(Sc::kLbaOutOfRange));
  EXPECT_EQ(queue->read(255, 2).status, refused(Sc::kLbaOutOfRange));
  EXPECT_EQ(queue->read(UINT64_MAX, 2).status, refused(Sc::kLbaOutOfRange));
  EXPECT_EQ(queue->write(256, block, true).status, refused(Sc::kLbaOutOfRange));
  EXPECT_EQ(queue->read(0, 1, 4096, 3).status, refused(Sc::kInvalidNamespace));
  EXPECT_EQ(queue->write(0, block, true, 4096, 2).status, refused(Sc::kNamespaceWriteProtected));
  EXPECT_TRUE(queue->read(0, 1, 4096, 2).status.ok());
  EXPECT_EQ(queue->read(0, 1, 512).status, refused(Sc::kDataSglLength));
  Command odd = TestQueue::io(IoOpcode::kRead, 0, 1, 4096);
  odd.flags = 0;  // PRPs
  EXPECT_EQ(queue->run(odd).status, refused(Sc::kInvalidField));
  odd = TestQueue::io(IoOpcode::kRead, 0, 1, 4096);
  odd.opcode = 0x99;
  EXPECT_EQ(queue->run(odd).status, refused(Sc::kInvalidOpcode));
  odd = TestQueue::io(IoOpcode::kWrite, 0, 1, 4096);
  odd.sgl.type = 0x22;
  EXPECT_EQ(queue->run(odd).status, refused(Sc::kSglType));
  odd.sgl = Sgl::in_capsule(4096);
  odd.sgl.address = 64;
  EXPECT_EQ(queue->run(odd, block).status, refused(Sc::kInvalidSglOffset));
  odd.sgl = Sgl::in_capsule(4096);
  EXPECT_EQ(queue->run(odd).status, refused(Sc::kDataSglLength));
  const auto big = value_of(Target::create(test_options(), {ram(4 * kMiB)}));
  TestHost other(*big);
  EXPECT_EQ(other.io_queue(1)->read(0, 257).status, refused(Sc::kInvalidField));
}

TEST(Target, ZeroesAndDeallocate) {
  const auto target = ram_target();
  TestHost host(*target);
  const auto queue = host.io_queue(1);
  const Bytes data = pattern(kMiB, 5);
  ASSERT_TRUE(queue->write(0, data).status.ok());
  Command zeroes = TestQueue::io(IoOpcode::kWriteZeroes, 1, 2, 0);
  EXPECT_TRUE(queue->run(zeroes).status.ok());
  DsmRange range{0, 3, 10};
  Command dsm = TestQueue::io(IoOpcode::kDatasetManagement, 0, 1, 0);
  dsm.cdw10 = 0;
  dsm.cdw11 = kDsmDeallocate;
  dsm.cdw12 = 0;
  dsm.sgl = Sgl::in_capsule(sizeof(range));
  const auto bytes = std::as_bytes(std::span(&range, 1));
  EXPECT_TRUE(queue->run(dsm, bytes).status.ok());
  dsm.sgl = Sgl::transport(sizeof(range));
  range.lba = 20;
  EXPECT_TRUE(queue->run(dsm, {}, bytes).status.ok());
  // Room for all ranges, of which one counts.
  Bytes all(4096, std::byte{0xFF});
  range.lba = 30;
  std::memcpy(all.data(), &range, sizeof(range));
  dsm.sgl = Sgl::in_capsule(4096);
  EXPECT_TRUE(queue->run(dsm, all).status.ok());
  dsm.sgl = Sgl::transport(sizeof(range));
  range.lba = 1ULL << 60U;
  EXPECT_EQ(queue->run(dsm, {}, bytes).status, refused(Sc::kLbaOutOfRange));
  Bytes expected = data;
  const auto wipe = [&](std::size_t lba, std::size_t blocks) {
    std::memset(expected.data() + lba * 4096, 0, blocks * 4096);
  };
  wipe(1, 2);
  wipe(10, 3);
  wipe(20, 3);
  wipe(30, 3);
  EXPECT_TRUE(queue->read(0, 256).data == expected);
}

TEST(Target, AFileKeepsWhatWasWritten) {
  const auto folder = value_of(env::TempDirectory::create("larder-nvmf"));
  const std::string path = folder.path() + "/disk";
  const Bytes data = pattern(256 << 10, 77);
  std::string id;
  for (const bool first : {true, false}) {
    block::FileDeviceOptions file;
    file.path = path;
    file.create = first;
    if (first) file.bytes = 4 * kMiB;
    NamespaceOptions space;
    space.device = value_of(block::FileDevice::open(file));
    const auto target = value_of(Target::create(test_options(), {space}));
    TestHost host(*target);
    const auto queue = host.io_queue(1);
    const auto page =
        load_le<IdentifyNamespace>(host.admin().identify(IdentifyCns::kNamespace, 1).data.data());
    const std::string now(reinterpret_cast<const char*>(page.nguid.data()), page.nguid.size());
    if (first) {
      id = now;
      Command fua = TestQueue::io(IoOpcode::kWrite, 5, 64, 4096);
      fua.cdw12 |= kForceUnitAccess;
      EXPECT_TRUE(queue->run(fua, {}, data).status.ok());
      EXPECT_TRUE(queue->flush().status.ok());
      EXPECT_EQ(queue->run(TestQueue::io(IoOpcode::kWriteZeroes, 6, 2000, 0)).status,
                refused(Sc::kLbaOutOfRange));
    } else {
      EXPECT_EQ(now, id);  // of the same file
      EXPECT_TRUE(queue->read(5, 64).data == data);
      EXPECT_TRUE(queue->run(TestQueue::io(IoOpcode::kWriteZeroes, 6, 500, 0)).status.ok());
      EXPECT_TRUE(queue->read(6, 63).data == Bytes(63 * 4096));
    }
  }
}

}  // namespace
}  // namespace larder::nvmf
