// SPDX-License-Identifier: Apache-2.0
// Hosts that break the rules, vanish or do not read: each costs its own connection, nothing else.
#include <gtest/gtest.h>

#include <functional>

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

}  // namespace
}  // namespace larder::nvmf
