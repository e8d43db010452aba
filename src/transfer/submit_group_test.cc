// SPDX-License-Identifier: Apache-2.0
#include "transfer/submit_group.h"

#include <gtest/gtest.h>

#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

TEST(SubmitGroup, RunsOnceWhenTheLastOneCompletes) {
  int runs = 0;
  SubmitGroup group(5, [&] { ++runs; });
  group.end(2, true);
  group.end(2, true);
  EXPECT_EQ(runs, 0);
  group.end(1, true);
  EXPECT_EQ(runs, 1);
}

TEST(SubmitGroup, DoesNotRunWhenOneDidNotComplete) {
  for (int bad = 0; bad < 3; ++bad) {
    int runs = 0;
    SubmitGroup group(3, [&] { ++runs; });
    for (int i = 0; i < 3; ++i) group.end(1, i != bad);
    EXPECT_EQ(runs, 0) << bad;
  }
}

// Through the submitter: copies at once, jobs, merged ones, failures and cancels are all counted.
class SubmitGroups : public testing::Test {
 protected:
  void SetUp() override {
    fill_data(target_, 3);
    fault_ = &rig_.add({.type = TransportType::kTcp});
    rig_.open("policy: [{segment_type: memory, transports: [tcp]}]");
    rig_.add_memory(local_);
    rig_.add_memory(target_);
  }
  std::vector<TransferRequest> reads(std::size_t count) {
    std::vector<TransferRequest> requests;
    for (std::size_t i = 0; i < count; ++i) {
      requests.push_back(request_of(Opcode::kRead, std::span(local_).subspan(i * 1024, 1024),
                                    target_.data() + i * 1024));
    }
    return requests;
  }

  std::vector<std::byte> local_ = std::vector<std::byte>(16384);
  std::vector<std::byte> target_ = std::vector<std::byte>(16384);
  Rig rig_;
  FaultTransport* fault_ = nullptr;
  int runs_ = 0;
};

TEST_F(SubmitGroups, AfterAllBytesAreThere) {
  const BatchRef batch = rig_.batch(8);
  ASSERT_TRUE(rig_.submit(batch, reads(4), [&] {
    ++runs_;
    EXPECT_TRUE(equal(std::span(local_).first(4096), std::span(target_).first(4096)));
    for (std::uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(batch->task(i).outcome(), Outcome::kCompleted);
      EXPECT_TRUE(batch->task(i).quiescent());
    }
  }));
  EXPECT_EQ(runs_, 0);
  rig_.settle();
  EXPECT_EQ(runs_, 1);
}

TEST_F(SubmitGroups, NotAfterACancelOfOneOfThem) {
  const BatchRef batch = rig_.batch(8);
  ASSERT_TRUE(rig_.submit(batch, reads(4), [&] { ++runs_; }));
  EXPECT_EQ(rig_.cancel(batch->task(2)), Code::kOk);
  rig_.settle();
  EXPECT_TRUE(batch->idle());
  EXPECT_EQ(batch->task(3).outcome(), Outcome::kCompleted);
  EXPECT_EQ(runs_, 0);
}

TEST_F(SubmitGroups, RefusedRequestsDoNotCount) {
  const BatchRef batch = rig_.batch(8);
  auto requests = reads(4);
  requests[1].length = 0;
  ASSERT_TRUE(rig_.submit(batch, requests, [&] { ++runs_; }));
  rig_.settle();
  EXPECT_EQ(runs_, 1);
  // None was accepted: there is nothing to come after.
  ASSERT_TRUE(rig_.submit(batch, std::span(requests).subspan(1, 1), [&] { ++runs_; }));
  EXPECT_EQ(runs_, 1);
}

TEST_F(SubmitGroups, ASplitJobStillRunsItOnce) {
  const BatchRef batch = rig_.batch(8);
  const Fate failure{.code = Code::kConflict};
  fault_->script(std::span(&failure, 1));  // of the first piece, which is of all four
  ASSERT_TRUE(rig_.submit(batch, reads(4), [&] { ++runs_; }));
  rig_.settle();
  EXPECT_EQ(batch->status().completed, 4U);
  EXPECT_EQ(runs_, 1);
}

}  // namespace
}  // namespace larder::transfer
