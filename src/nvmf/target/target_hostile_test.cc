// SPDX-License-Identifier: Apache-2.0
// Hosts that break the rules, vanish or do not read: each costs its own connection, nothing else.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>

#include "block/fault_device.h"
#include "block/memory_device.h"
#include "nvmf/target/target_testing.h"

namespace larder::nvmf {
namespace {

class TargetHostile : public ::testing::Test {
 protected:
  // After whatever happened, others are served, and nothing is left of it.
  void TearDown() override {
    TestHost host(*target_);
    const auto queue = host.io_queue(1);
    EXPECT_TRUE(queue->read(0, 4).status.ok());
  }
  std::unique_ptr<TestQueue> fresh() { return std::make_unique<TestQueue>(target_->address()); }
  // Sends it on a connection after ICReq, and says what the target complains of.
  std::optional<FatalStatus> complaint(const std::function<void(PduHeader&)>& change,
                                       std::uint8_t digests = 0) {
    const auto queue = fresh();
    QueueOptions options;
    options.digests = digests;
    queue->negotiate(options);
    Bytes bytes = queue->capsule(TestQueue::admin(AdminOpcode::kKeepAlive));
    auto header = load_le<PduHeader>(bytes.data());
    change(header);
    store_le(bytes.data(), header);
    EXPECT_TRUE(queue->send(bytes));
    const auto reason = queue->term();
    EXPECT_TRUE(queue->ends());
    return reason;
  }

  std::unique_ptr<Target> target_ = ram_target();
};

TEST_F(TargetHostile, HeadersThatBreakRules) {
  const auto invalid = FatalStatus::kInvalidHeader;
  EXPECT_EQ(complaint([](PduHeader& h) { h.type = static_cast<PduType>(8); }), invalid);
  EXPECT_EQ(complaint([](PduHeader& h) { h.hlen = 71; }), invalid);
  EXPECT_EQ(complaint([](PduHeader& h) { h.plen = 8; }), invalid);
  EXPECT_EQ(complaint([](PduHeader& h) { h.flags = 0x80; }), invalid);
  EXPECT_EQ(complaint([](PduHeader& h) { h.type = PduType::kR2t; }), invalid);
  EXPECT_EQ(complaint([](PduHeader& h) { h.type = PduType::kIcReq; }), FatalStatus::kSequence);
  EXPECT_EQ(complaint([](PduHeader& h) {
              h.pdo = 72;
              h.plen = UINT32_MAX;
            }),
            FatalStatus::kLimitExceeded);
  EXPECT_EQ(complaint([](PduHeader& h) { h.pdo = 72, h.plen = 72 + 8196; }),
            FatalStatus::kLimitExceeded);
  EXPECT_EQ(target_->stats().protocol_errors, 8U);
}

TEST_F(TargetHostile, WrongDigestOfAHeader) {
  const auto queue = fresh();
  QueueOptions options;
  options.digests = kDigestHeader;
  queue->negotiate(options);
  Bytes bytes = queue->capsule(TestQueue::admin(AdminOpcode::kKeepAlive));
  bytes[20] ^= std::byte{1};
  ASSERT_TRUE(queue->send(bytes));
  EXPECT_EQ(queue->term(), FatalStatus::kHeaderDigest);
  EXPECT_TRUE(queue->ends());
}

TEST_F(TargetHostile, WrongDigestsOfDataFailTheirCommand) {
  QueueOptions options;
  options.digests = kDigestData;
  TestHost host(*target_, options);
  const auto queue = host.io_queue(1);
  const Bytes data = pattern(4096, 3);
  Command command = TestQueue::io(IoOpcode::kWrite, 9, 1, 4096);
  command.cid = 77;
  command.sgl = Sgl::in_capsule(4096);
  Bytes bytes = queue->capsule(command, data);
  bytes.back() ^= std::byte{1};
  ASSERT_TRUE(queue->send(bytes));
  EXPECT_EQ(queue->finish(77).status, failed(Sc::kTransientTransport));
  command.sgl = Sgl::transport(4096);
  ASSERT_TRUE(queue->send(queue->capsule(command)));
  const auto r2t = queue->receive().as<R2t>();
  bytes = queue->h2c_data(77, r2t.ttag, 0, data, true);
  bytes.back() ^= std::byte{1};
  ASSERT_TRUE(queue->send(bytes));
  EXPECT_EQ(queue->finish(77).status, failed(Sc::kTransientTransport));
  EXPECT_TRUE(queue->read(9, 1).status.ok());  // the connection lives
  EXPECT_EQ(target_->stats().digest_errors, 2U);
}

TEST_F(TargetHostile, NegotiationThatCannotBe) {
  const auto refused_with = [&](const std::function<void(IcReq&)>& change) {
    const auto queue = fresh();
    IcReq request;
    request.header = make_header(PduType::kIcReq, sizeof(request), 0, 0, {});
    change(request);
    EXPECT_TRUE(queue->send(std::as_bytes(std::span(&request, 1))));
    const auto reason = queue->term();
    EXPECT_TRUE(queue->ends());
    return reason;
  };
  EXPECT_EQ(refused_with([](IcReq& r) { r.pfv = 9; }), FatalStatus::kUnsupported);
  EXPECT_EQ(refused_with([](IcReq& r) { r.hpda = 32; }), FatalStatus::kInvalidHeader);
  EXPECT_EQ(refused_with([](IcReq& r) { r.header.plen = 64; }), FatalStatus::kInvalidHeader);
  EXPECT_EQ(refused_with([](IcReq& r) { r.header.type = PduType::kCapsuleCmd; }),
            FatalStatus::kSequence);
}

TEST_F(TargetHostile, CommandsBeforeTheirTime) {
  const auto queue = fresh();
  queue->negotiate({});
  EXPECT_EQ(queue->run(TestQueue::admin(AdminOpcode::kKeepAlive)).status,
            refused(Sc::kSequenceError));
  EXPECT_EQ(queue->get_property(PropertyOffset::kCap).status, refused(Sc::kSequenceError));
  ASSERT_TRUE(queue->connect({}, 0, kAnyController, target_->nqn()).status.ok());
  EXPECT_EQ(queue->identify(IdentifyCns::kController).status, refused(Sc::kSequenceError));
  EXPECT_EQ(queue->connect({}, 0, kAnyController, target_->nqn()).status,
            refused(Sc::kSequenceError));
}

TEST_F(TargetHostile, DataThatNoR2tAskedFor) {
  struct Bad {
    FatalStatus status;
    std::function<Bytes(TestQueue&, const R2t&)> make;
  };
  const Bytes data = pattern(8192, 1);
  const auto all = std::span(data);
  const std::vector<Bad> cases = {
      {FatalStatus::kInvalidHeader,
       [&](TestQueue& q, const R2t& r) {
         return q.h2c_data(r.cccid, static_cast<std::uint16_t>(r.ttag + 1), 0, all, true);
       }},
      {FatalStatus::kInvalidHeader,
       [&](TestQueue& q, const R2t& r) { return q.h2c_data(r.cccid, 60000, 0, all, true); }},
      {FatalStatus::kInvalidHeader,
       [&](TestQueue& q, const R2t& r) { return q.h2c_data(1234, r.ttag, 0, all, true); }},
      {FatalStatus::kOutOfRange,
       [&](TestQueue& q, const R2t& r) {
         return q.h2c_data(r.cccid, r.ttag, 4096, all.first(4096), true);
       }},
      {FatalStatus::kOutOfRange,
       [&](TestQueue& q, const R2t& r) {
         Bytes more(8196);
         return q.h2c_data(r.cccid, r.ttag, 0, more, true);
       }},
      {FatalStatus::kInvalidHeader,
       [&](TestQueue& q, const R2t& r) {
         return q.h2c_data(r.cccid, r.ttag, 0, all.first(4096), true);  // LAST too early
       }},
      {FatalStatus::kInvalidHeader,
       [&](TestQueue& q, const R2t& r) { return q.h2c_data(r.cccid, r.ttag, 0, all, false); }},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    TestHost host(*target_);
    const auto queue = host.io_queue(1);
    Command command = TestQueue::io(IoOpcode::kWrite, 0, 2, 4096);
    command.cid = 5;
    ASSERT_TRUE(queue->send(queue->capsule(command)));
    const auto r2t = queue->receive().as<R2t>();
    ASSERT_TRUE(queue->send(cases[i].make(*queue, r2t)));
    EXPECT_EQ(queue->term(), cases[i].status);
    EXPECT_TRUE(queue->ends());
  }
}

TEST_F(TargetHostile, MoreCommandsThanTheQueueHolds) {
  TestHost host(*target_);
  QueueOptions options;
  options.entries = 5;
  const auto queue = host.io_queue(1, options);
  Bytes burst;
  for (std::uint16_t cid = 0; cid < 6; ++cid) {
    Command command = TestQueue::io(IoOpcode::kWrite, 0, 8, 4096);
    command.cid = cid;
    const Bytes one = queue->capsule(command);
    burst.insert(burst.end(), one.begin(), one.end());
  }
  ASSERT_TRUE(queue->send(burst));
  Received got = queue->receive();
  while (got.header.type == PduType::kR2t) got = queue->receive();
  ASSERT_EQ(got.header.type, PduType::kC2hTermReq);
  EXPECT_EQ(got.as<TermReq>().fes, static_cast<std::uint16_t>(FatalStatus::kSequence));
}

TEST_F(TargetHostile, TheSameCommandIdTwice) {
  TestHost host(*target_);
  const auto queue = host.io_queue(1);
  Command command = TestQueue::io(IoOpcode::kWrite, 0, 8, 4096);
  command.cid = 5;
  ASSERT_TRUE(queue->send(queue->capsule(command)));
  EXPECT_EQ(queue->receive().header.type, PduType::kR2t);
  command.opcode = static_cast<std::uint8_t>(IoOpcode::kRead);
  ASSERT_TRUE(queue->send(queue->capsule(command)));
  EXPECT_EQ(queue->finish(5).status, refused(Sc::kCommandIdConflict));
}

// A connection that breaks within data leaves each block old or new.
TEST_F(TargetHostile, BlocksAreWholeAfterABrokenWrite) {
  TestHost host(*target_);
  const auto queue = host.io_queue(1);
  const Bytes old(16 * 4096, std::byte{0x11});
  ASSERT_TRUE(queue->write(0, old).status.ok());
  const Bytes fresh_data(16 * 4096, std::byte{0x22});
  std::mt19937_64 random(7);
  for (std::uint16_t qid = 2; qid < 12; ++qid) {
    const auto broken = host.io_queue(qid);
    Command command = TestQueue::io(IoOpcode::kWrite, 0, 16, 4096);
    command.cid = 5;
    ASSERT_TRUE(broken->send(broken->capsule(command)));
    const auto r2t = broken->receive().as<R2t>();
    const Bytes bytes = broken->h2c_data(5, r2t.ttag, 0, fresh_data, true);
    const std::size_t cut = 24 + random() % (bytes.size() - 24);
    const std::size_t first = random() % cut;
    ASSERT_TRUE(broken->send(std::span(bytes).first(first)));
    EXPECT_TRUE(queue->read(0, 1).status.ok());  // it has been received by now, or soon is
    ASSERT_TRUE(broken->send(std::span(bytes).subspan(first, cut - first)));
    broken->close();
    const Answer got = queue->read(0, 16);
    ASSERT_TRUE(got.status.ok());
    for (std::size_t block = 0; block < 16; ++block) {
      const auto at = std::span(got.data).subspan(block * 4096, 4096);
      for (const std::byte b : at) ASSERT_EQ(b, at[0]) << "block " << block << " is torn";
    }
    ASSERT_TRUE(queue->write(0, old).status.ok());
  }
}

TEST_F(TargetHostile, AHostThatDoesNotRead) {
  TestHost greedy(*target_);
  const auto queue = greedy.io_queue(1);
  Bytes burst;
  for (std::uint16_t cid = 0; cid < 31; ++cid) {
    Command command = TestQueue::io(IoOpcode::kRead, 0, 256, 4096);
    command.cid = cid;
    const Bytes one = queue->capsule(command);
    burst.insert(burst.end(), one.begin(), one.end());
  }
  ASSERT_TRUE(queue->send(burst));
  // Others are served meanwhile, and it gets all of it once it reads.
  TestHost other(*target_);
  const auto quick = other.io_queue(1);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(quick->read(0, 16).status.ok());
  for (std::uint16_t cid = 0; cid < 31; ++cid) {
    const Answer answer = queue->finish(cid);
    ASSERT_TRUE(answer.status.ok());
    ASSERT_EQ(answer.data.size(), kMiB);
  }
}

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

// A device under the target, with faults, and little memory for its data.
class TargetDevice : public ::testing::Test {
 protected:
  void start(const block::FaultOptions& faults) {
    block::MemoryDeviceOptions memory;
    memory.bytes = 16 * kMiB;
    memory_ = value_of(block::MemoryDevice::create(memory));
    device_ = value_of(block::FaultDevice::create(memory_, faults));
    TargetOptions options = test_options();
    options.bounce_bytes_max = 4 * kMiB;
    NamespaceOptions space;
    space.device = device_;
    target_ = value_of(Target::create(options, {space}));
  }
  std::shared_ptr<block::MemoryDevice> memory_;
  std::shared_ptr<block::FaultDevice> device_;
  std::unique_ptr<Target> target_;
};

TEST_F(TargetDevice, MoreThanTheMemoryHoldsWaits) {
  start({});
  TestHost host(*target_);
  const auto queue = host.io_queue(1);
  const Bytes data = pattern(kMiB, 4);
  ASSERT_TRUE(queue->write(0, data).status.ok());
  Bytes burst;
  for (std::uint16_t cid = 0; cid < 30; ++cid) {
    Command command = TestQueue::io(IoOpcode::kRead, 0, 256, 4096);
    command.cid = cid;
    const Bytes one = queue->capsule(command);
    burst.insert(burst.end(), one.begin(), one.end());
  }
  ASSERT_TRUE(queue->send(burst));
  const auto small = host.io_queue(2);
  ASSERT_TRUE(small->write(1024, pattern(16384, 1), true).status.ok());
  for (int i = 0; i < 30; ++i) {
    const Received got = queue->receive();
    ASSERT_EQ(got.header.type, PduType::kC2hData);
    ASSERT_TRUE(got.data == data);
  }
  EXPECT_LE(target_->stats().bounce_bytes, 4 * kMiB);
}

TEST_F(TargetDevice, ErrorsOfTheDeviceAreThoseOfCommands) {
  start({});
  device_->set_bad(0, 4096);
  TestHost host(*target_);
  const auto queue = host.io_queue(1);
  EXPECT_EQ(queue->read(0, 1).status, failed(Sc::kUnrecoveredRead));
  EXPECT_EQ(queue->write(0, pattern(4096, 1), true).status, failed(Sc::kWriteFault));
  EXPECT_TRUE(queue->read(1, 1).status.ok());
}

TEST_F(TargetDevice, FlushedWritesSurviveALossOfPower) {
  start({});
  TestHost host(*target_);
  const auto queue = host.io_queue(1);
  const auto id = limits_of(
      load_le<IdentifyController>(host.admin().identify(IdentifyCns::kController).data.data()), 12);
  EXPECT_TRUE(id->volatile_cache);
  const Bytes data = pattern(4096, 8);
  ASSERT_TRUE(queue->write(7, data, true).status.ok());
  ASSERT_TRUE(queue->flush().status.ok());
  ASSERT_TRUE(queue->write(8, data, true).status.ok());
  ASSERT_TRUE(device_->cut_power(block::CutKind::kNothing));
  EXPECT_FALSE(queue->read(7, 1).status.ok());
  EXPECT_FALSE(queue->flush().status.ok());
  // The medium is another one for its owner: here it comes back as it is.
  NamespaceOptions again;
  again.nsid = 1;
  again.device = value_of(block::FaultDevice::create(memory_, {}));
  ASSERT_TRUE(target_->replace_namespace(again));
  EXPECT_TRUE(queue->read(7, 1).data == data);
  EXPECT_TRUE(queue->read(8, 1).data == Bytes(4096));
}

// The device still works on it when the connection is gone, and so is the target then.
TEST_F(TargetDevice, ConnectionsMayEndWhileTheDeviceWorks) {
  start({});
  device_->stall();
  {
    TestHost host(*target_);
    const auto queue = host.io_queue(1);
    Command command = TestQueue::io(IoOpcode::kRead, 0, 256, 4096);
    ASSERT_TRUE(queue->send(queue->capsule(command)));
    while (target_->stats().bounce_bytes == 0) {
      ASSERT_TRUE(host.admin().run(TestQueue::admin(AdminOpcode::kKeepAlive)).status.ok());
    }
  }
  device_->resume();
  TestHost host(*target_);
  EXPECT_TRUE(host.io_queue(1)->read(0, 1).status.ok());
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
