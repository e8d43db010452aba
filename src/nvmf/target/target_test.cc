// SPDX-License-Identifier: Apache-2.0
// What a well-behaved host sees of the target.
#include "nvmf/target/target.h"

#include <gtest/gtest.h>

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
