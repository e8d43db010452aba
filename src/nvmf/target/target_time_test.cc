// SPDX-License-Identifier: Apache-2.0
// Hosts that are silent, stand still, or are very many.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "nvmf/target/target_testing.h"

namespace larder::nvmf {
namespace {

TEST(TargetTime, KeepAliveEndsASilentHost) {
  env::ManualClock clock;
  TargetOptions options = test_options();
  options.clock = &clock;
  options.stall_timeout = 1000 * env::kSecond;
  const auto target = ram_target(options);
  QueueOptions silent;
  silent.kato_ms = 5000;
  TestHost host(*target, silent);
  const auto queue = host.io_queue(1);
  clock.advance(4 * env::kSecond);
  EXPECT_TRUE(queue->read(0, 1).status.ok());  // a sign of life
  clock.advance(4 * env::kSecond);
  EXPECT_TRUE(host.admin().run(TestQueue::admin(AdminOpcode::kKeepAlive)).status.ok());
  clock.advance(6 * env::kSecond);
  EXPECT_TRUE(host.admin().ends());
  EXPECT_TRUE(queue->ends());
  EXPECT_EQ(target->stats().keep_alive_expired, 1U);
  EXPECT_EQ(target->stats().controllers, 0U);
}

TEST(TargetTime, ConnectionsThatNeverConnect) {
  env::ManualClock clock;
  TargetOptions options = test_options();
  options.clock = &clock;
  const auto target = ram_target(options);
  TestQueue silent(target->address());
  TestQueue half(target->address());
  half.negotiate({});
  clock.advance(options.handshake_timeout + env::kSecond);
  EXPECT_TRUE(silent.ends());
  EXPECT_TRUE(half.ends());
}

TEST(TargetTime, AHostThatOwesDataIsDropped) {
  env::ManualClock clock;
  TargetOptions options = test_options();
  options.clock = &clock;
  const auto target = ram_target(options);
  TestHost host(*target);
  const auto queue = host.io_queue(1);
  Command command = TestQueue::io(IoOpcode::kWrite, 0, 16, 4096);
  command.cid = 1;
  ASSERT_TRUE(queue->send(queue->capsule(command)));
  EXPECT_EQ(queue->receive().header.type, PduType::kR2t);
  // The target looks at its connections now and then; what moved since is no stall.
  while (target->stats().stalled == 0) {
    clock.advance(options.stall_timeout / 2);
    ASSERT_TRUE(host.admin().run(TestQueue::admin(AdminOpcode::kKeepAlive)).status.ok());
  }
  EXPECT_TRUE(queue->ends());
  EXPECT_TRUE(host.admin().run(TestQueue::admin(AdminOpcode::kKeepAlive)).status.ok());
}

TEST(TargetCrowd, AThousandConnections) {
  constexpr rlim_t kNeeded = 2200;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < kNeeded) {
    if (limit.rlim_max < kNeeded) GTEST_SKIP() << "the limit of open files is too low";
    limit.rlim_cur = kNeeded;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  const auto target = ram_target();
  TestHost host(*target);
  std::vector<std::unique_ptr<TestQueue>> queues;
  for (int i = 0; i < 1000; ++i) {
    queues.push_back(std::make_unique<TestQueue>(target->address()));
  }
  for (std::size_t i = 0; i < queues.size(); ++i) {
    queues[i]->negotiate({});
    QueueOptions options;
    options.entries = 16;
    ASSERT_TRUE(queues[i]->connect(options, 0, kAnyController, target->nqn()).status.ok());
  }
  EXPECT_EQ(target->stats().controllers, 1001U);
  for (auto& queue : queues) {
    ASSERT_TRUE(queue->get_property(PropertyOffset::kCap).status.ok());
  }
  queues.clear();
  EXPECT_TRUE(host.io_queue(1)->read(0, 1).status.ok());
}

}  // namespace
}  // namespace larder::nvmf
