// SPDX-License-Identifier: Apache-2.0
// What a well-behaved host sees of the target.
#include "nvmf/target/target.h"

#include <gtest/gtest.h>

#include "block/fault_device.h"
#include "block/file_device.h"
#include "block/memory_device.h"
#include "env/temp_directory.h"
#include "nvmf/target/target_testing.h"

namespace larder::nvmf {
namespace {

TEST(Target, ConnectIdentifyAndProperties) {
  const auto target = ram_target();
  TestHost host(*target);
  const Cap cap{host.admin().get_property(PropertyOffset::kCap).value};
  EXPECT_EQ(cap.queue_entries_max(), 256U);
  EXPECT_TRUE(cap.nvm_command_set());
  EXPECT_TRUE(
      Csts{static_cast<std::uint32_t>(host.admin().get_property(PropertyOffset::kCsts).value)}
          .ready());
  const Answer page = host.admin().identify(IdentifyCns::kController);
  ASSERT_EQ(page.data.size(), sizeof(IdentifyController));
  const auto limits = limits_of(load_le<IdentifyController>(page.data.data()), 12);
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->transfer_max, kMiB);
  EXPECT_EQ(limits->in_capsule_max, 16U << 10U);
  EXPECT_EQ(limits->subnqn, target->nqn());
  EXPECT_EQ(limits->cntlid, host.cntlid());
  EXPECT_FALSE(limits->volatile_cache);
  EXPECT_FALSE(limits->discovery);
}

TEST(Target, NamespacesAndTheirIds) {
  const auto target = value_of(Target::create(test_options(), {ram(kMiB), ram(2 * kMiB, 512)}));
  TestHost host(*target);
  const Answer list = host.admin().identify(IdentifyCns::kActiveNamespaces, 0);
  const auto page = std::span(list.data).first<kIdentifyBytes>();
  EXPECT_EQ(*decode_active(page, 0), (std::vector<std::uint32_t>{1, 2}));
  const auto shape = [&](std::uint32_t nsid) {
    const Answer answer = host.admin().identify(IdentifyCns::kNamespace, nsid);
    return shape_of(load_le<IdentifyNamespace>(answer.data.data()));
  };
  EXPECT_EQ(shape(1)->blocks, 256U);
  EXPECT_EQ(shape(2)->block_bytes, 512U);
  EXPECT_NE(shape(1)->nguid, shape(2)->nguid);
  const Answer ids = host.admin().identify(IdentifyCns::kDescriptors, 2);
  const auto decoded = decode_ids(std::span(ids.data).first<kIdentifyBytes>());
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->has_uuid);
  EXPECT_EQ(decoded->nguid, shape(2)->nguid);
  EXPECT_EQ(shape(3).error().code(), Code::kNotFound);
  EXPECT_EQ(host.admin().identify(IdentifyCns::kNamespace, 5000).status.code,
            Sc::kInvalidNamespace);
  EXPECT_EQ(host.admin().identify(IdentifyCns::kDescriptors, 3).status.code, Sc::kInvalidNamespace);
}

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

TEST(Target, DiscoveryNamesTheSubsystem) {
  const auto target = ram_target();
  QueueOptions options;
  options.subsystem = kDiscoveryNqn;
  TestHost host(*target, options);
  const auto id =
      load_le<IdentifyController>(host.admin().identify(IdentifyCns::kController).data.data());
  EXPECT_EQ(id.cntrltype, 2);
  const Answer first = host.admin().log_page(LogPage::kDiscovery, 1024);
  const auto header = load_le<DiscoveryHeader>(first.data.data());
  ASSERT_EQ(header.numrec, 2U);
  const Answer rest = host.admin().log_page(LogPage::kDiscovery, 2048, 1024);
  const auto entry = decode_entry(load_le<DiscoveryEntry>(rest.data.data() + 1024));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->nqn, target->nqn());
  EXPECT_EQ(entry->address, "127.0.0.1");
  EXPECT_EQ(entry->port, std::to_string(target->address().port));
  EXPECT_EQ(host.admin().identify(IdentifyCns::kNamespace, 1).status, refused(Sc::kInvalidField));
  EXPECT_EQ(host.admin().log_page(LogPage::kSmart, 512).status, refused(Sc::kInvalidLogPage));
}

TEST(Target, LogPagesAndFeatures) {
  const auto target = ram_target();
  TestHost host(*target);
  EXPECT_EQ(host.admin().log_page(LogPage::kSmart, 512).data.size(), 512U);
  EXPECT_EQ(host.admin().log_page(LogPage::kFirmware, 512).data.size(), 512U);
  EXPECT_EQ(host.admin().log_page(LogPage::kError, 256).data.size(), 256U);
  const Answer effects = host.admin().log_page(LogPage::kEffects, 4096);
  EXPECT_EQ(effects.data[1024 + 8], std::byte{1});  // read
  EXPECT_EQ(host.admin().log_page(LogPage::kDiscovery, 1024).status, refused(Sc::kInvalidLogPage));
  Command queues = TestQueue::admin(AdminOpcode::kSetFeatures);
  queues.cdw10 = static_cast<std::uint32_t>(FeatureId::kQueues);
  queues.cdw11 = 3U | 3U << 16U;
  EXPECT_EQ(host.admin().run(queues).value, 3U | 3U << 16U);
  queues.cdw11 = 1000U | 1000U << 16U;
  EXPECT_EQ(host.admin().run(queues).value, 63U | 63U << 16U);
  Command cache = TestQueue::admin(AdminOpcode::kGetFeatures);
  cache.cdw10 = static_cast<std::uint32_t>(FeatureId::kVolatileWriteCache);
  EXPECT_EQ(host.admin().run(cache).status, refused(Sc::kInvalidField));
  Command id = TestQueue::admin(AdminOpcode::kGetFeatures, 16);
  id.cdw10 = static_cast<std::uint32_t>(FeatureId::kHostId);
  id.cdw11 = 1;
  EXPECT_EQ(host.admin().run(id).data[1], std::byte{2});
  EXPECT_TRUE(host.admin().run(TestQueue::admin(AdminOpcode::kKeepAlive)).status.ok());
}

TEST(Target, ChangesOfNamespacesAreTold) {
  NamespaceOptions space = ram(kMiB);
  space.ram_bytes_max = 2 * kMiB;
  const auto target = value_of(Target::create(test_options(), {space}));
  TestHost host(*target);
  Command mask = TestQueue::admin(AdminOpcode::kSetFeatures);
  mask.cdw10 = static_cast<std::uint32_t>(FeatureId::kAsyncEvents);
  mask.cdw11 = kEventNamespaceChanged;
  ASSERT_TRUE(host.admin().run(mask).status.ok());
  Command wait = TestQueue::admin(AdminOpcode::kAsyncEvent);
  wait.cid = 0x7001;
  ASSERT_TRUE(host.admin().send(host.admin().capsule(wait)));
  ASSERT_TRUE(target->resize_namespace(1, 2 * kMiB));
  const AsyncEvent event =
      AsyncEvent::from(static_cast<std::uint32_t>(host.admin().finish(0x7001).value));
  EXPECT_EQ(event.type, kEventNotice);
  EXPECT_EQ(event.page, static_cast<std::uint8_t>(LogPage::kChangedNamespaces));
  const auto changed = load_le<ChangedNamespaces>(
      host.admin().log_page(LogPage::kChangedNamespaces, 4096).data.data());
  EXPECT_EQ(changed.ids[0], 1U);
  EXPECT_EQ(changed.ids[1], 0U);
  const auto queue = host.io_queue(1);
  EXPECT_TRUE(queue->read(511, 1).status.ok());
  // The next events: an added one, and one that is taken away.
  wait.cid = 0x7002;
  ASSERT_TRUE(host.admin().send(host.admin().capsule(wait)));
  EXPECT_EQ(*target->add_namespace(ram(kMiB)), 2U);
  host.admin().finish(0x7002);
  host.admin().log_page(LogPage::kChangedNamespaces, 4096);
  ASSERT_TRUE(target->remove_namespace(1));
  EXPECT_EQ(queue->read(0, 1).status, refused(Sc::kInvalidNamespace));
  EXPECT_EQ(target->remove_namespace(1).error().code(), Code::kNotFound);
  EXPECT_EQ(target->resize_namespace(2, 64 * kMiB).error().code(), Code::kTooLarge);
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

TEST(Target, HostsThatAreNotAllowed) {
  TargetOptions options = test_options();
  options.allow_hosts = {"nqn.2024-01.io.larder:friend"};
  const auto target = ram_target(options);
  TestQueue queue(target->address());
  queue.negotiate({});
  EXPECT_EQ(queue.connect({}, 0, kAnyController, target->nqn()).status,
            refused(Sc::kConnectInvalidHost));
  QueueOptions fine;
  fine.host = "nqn.2024-01.io.larder:friend";
  TestHost host(*target, fine);
  EXPECT_EQ(target->stats().connects_refused, 1U);
}

TEST(Target, WhatConnectRefuses) {
  const auto target = ram_target();
  const auto refusal = [&](const QueueOptions& options, std::uint16_t qid, std::uint16_t cntlid) {
    TestQueue queue(target->address());
    queue.negotiate({});
    return queue.connect(options, qid, cntlid, target->nqn());
  };
  QueueOptions options;
  options.subsystem = "nqn.2024-01.io.larder:another";
  Answer answer = refusal(options, 0, kAnyController);
  EXPECT_EQ(answer.status, refused(Sc::kConnectInvalidParameters));
  EXPECT_EQ(ConnectRefusal::from(static_cast<std::uint32_t>(answer.value)).offset, 256);
  EXPECT_TRUE(ConnectRefusal::from(static_cast<std::uint32_t>(answer.value)).in_data);
  answer = refusal({}, 0, 7);
  EXPECT_EQ(ConnectRefusal::from(static_cast<std::uint32_t>(answer.value)).offset, 16);
  options = {};
  options.entries = 257;
  answer = refusal(options, 0, kAnyController);
  EXPECT_EQ(ConnectRefusal::from(static_cast<std::uint32_t>(answer.value)).offset, 44);
  EXPECT_EQ(refusal({}, 1, 4711).status, refused(Sc::kConnectInvalidParameters));
  TestHost host(*target);
  options = {};
  options.host = "nqn.2024-01.io.larder:thief";
  EXPECT_EQ(refusal(options, 1, host.cntlid()).status, refused(Sc::kConnectInvalidParameters));
  options = {};
  options.host_id = {9};
  EXPECT_EQ(refusal(options, 1, host.cntlid()).status, refused(Sc::kConnectInvalidParameters));
  EXPECT_EQ(refusal({}, 65, host.cntlid()).status, refused(Sc::kConnectInvalidParameters));
  const auto queue = host.io_queue(1);
  EXPECT_EQ(refusal({}, 1, host.cntlid()).status, refused(Sc::kSequenceError));
}

TEST(Target, ResetEndsTheQueuesAndShutdownCompletes) {
  const auto target = ram_target();
  TestHost host(*target);
  auto queue = host.io_queue(1);
  EXPECT_TRUE(host.admin().set_configuration({0}).status.ok());
  EXPECT_TRUE(queue->ends());
  EXPECT_EQ(host.admin().identify(IdentifyCns::kController).status, refused(Sc::kSequenceError));
  EXPECT_TRUE(host.admin().set_configuration(Cc::enabled()).status.ok());
  queue = host.io_queue(1);
  EXPECT_TRUE(queue->read(0, 1).status.ok());
  EXPECT_TRUE(host.admin().set_configuration(Cc::enabled().with_shutdown()).status.ok());
  const Csts csts{
      static_cast<std::uint32_t>(host.admin().get_property(PropertyOffset::kCsts).value)};
  EXPECT_EQ(csts.shutdown(), kShutdownComplete);
  host.admin().close();
  EXPECT_TRUE(queue->ends());
}

TEST(Target, OptionsThatCannotWork) {
  const auto code = [](TargetOptions options) {
    return Target::create(std::move(options), {ram(kMiB)}).error().code();
  };
  TargetOptions options = test_options();
  options.nqn = "larder";
  EXPECT_EQ(code(options), Code::kInvalidArgument);
  options = test_options();
  options.threads = 0;
  EXPECT_EQ(code(options), Code::kInvalidArgument);
  options = test_options();
  options.transfer_max = 3 << 20;
  EXPECT_EQ(code(options), Code::kInvalidArgument);
  const auto target = ram_target();
  options = test_options();
  options.listen = target->address();
  const auto second = Target::create(options, {ram(kMiB)});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  EXPECT_NE(second.error().message().find("port 0"), std::string::npos);
  EXPECT_FALSE(Target::create(test_options(), {ram(100)}));
  EXPECT_FALSE(Target::create(test_options(), {NamespaceOptions{}}));
}

}  // namespace
}  // namespace larder::nvmf
