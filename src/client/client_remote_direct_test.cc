// SPDX-License-Identifier: Apache-2.0
// Values that a client reads from a remote namespace by itself.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/disk_testing.h"
#include "nvmf/target/target.h"

namespace larder::client {
namespace {

class ClientRemoteDirectTest : public testing::TestWithParam<Path>, protected DiskBed {
 protected:
  ClientRemoteDirectTest() : DiskBed(GetParam()) {}
  void TearDown() override {
    end();
    nodes_.node.reset();  // while its target is there
  }
  void start_target() {
    nvmf::TargetOptions options;
    options.listen.port = port_;
    nvmf::NamespaceOptions space;
    space.ram_bytes = 256ULL << 20U;
    space.populate = false;
    auto made = nvmf::Target::create(options, {std::move(space)});
    ASSERT_TRUE(made) << made.error().to_string();
    target_ = std::move(*made);
    port_ = target_->address().port;
  }
  void fill(const std::string& promotion = "never", const std::string& direct = "any") {
    start_target();
    nodes_.options.cold.direct = direct;
    start_on(target_->url() + "?host_nqn=nqn.2014-08.org.nvmexpress:larder-test", promotion);
    put_many(0, kMore);
    settle(kMore);
  }
  // Until the client has its own way to the namespace; the node serves it meanwhile.
  void connect() {
    ASSERT_TRUE(soon([&] {
      const double before = restored();
      expect_value(0);
      return restored() == before;
    }));
  }

  std::uint16_t port_ = 0;
  std::unique_ptr<nvmf::Target> target_;
};

TEST_P(ClientRemoteDirectTest, TheNodeReadsNothing) {
  fill();
  connect();
  const double restored_before = restored();
  const double direct_before = direct();
  for (std::uint64_t i = 0; i < kFirst; ++i) expect_value(i);
  EXPECT_EQ(restored(), restored_before);
  EXPECT_EQ(direct(), direct_before + kFirst);
}

// In the client's books, with the intent of the call.
TEST_P(ClientRemoteDirectTest, IsBookedByWhoReads) {
  fill();
  connect();
  CallOptions options;
  options.intent = Intent::kForegroundHandoff;
  ASSERT_TRUE(client_->get(key(3), options));
  ASSERT_TRUE(client_->get(key(4), options));
  const std::string line =
      "larder_transfer_bytes_total{class=\"high\",direction=\"read\",intent=\"foreground_handoff\","
      "transport=\"nvme_tcp\"} " +
      std::to_string(2 * kValue + 7) + "\n";
  EXPECT_NE(client_->metrics().find(line), std::string::npos) << client_->metrics();
}

// One call for values of both tiers, into memory of any alignment, in several pieces, with ends
// within a block.
TEST_P(ClientRemoteDirectTest, ABatchIntoPiecesOfAnyAlignment) {
  fill();
  connect();
  const double restored_before = restored();
  get_all_into_odd_pieces();
  EXPECT_GT(direct(), 100);
  EXPECT_EQ(restored(), restored_before);
}

TEST_P(ClientRemoteDirectTest, TheSecondReadBringsItIntoDram) {
  fill("on_second_hit");
  connect();
  const double restored_before = restored();
  expect_value(1);
  EXPECT_EQ(tier_of(key(1)), Tier::kCold);
  expect_value(1);
  EXPECT_EQ(tier_of(key(1)), Tier::kHotAndCold);
  EXPECT_EQ(restored(), restored_before + 1);
}

TEST_P(ClientRemoteDirectTest, NotWhereItIsNotAllowed) {
  fill("never", "off");
  for (std::uint64_t i = 0; i < kFirst; ++i) expect_value(i);
  EXPECT_EQ(direct(), 0);
  EXPECT_EQ(restored(), kFirst);
}

TEST_P(ClientRemoteDirectTest, OfThisHostOnly) {
  fill("never", "host");
  if (GetParam() == Path::kTcp) {
    for (std::uint64_t i = 0; i < kFirst; ++i) expect_value(i);
    EXPECT_EQ(direct(), 0);
  } else {
    connect();
    EXPECT_GT(direct(), 0);
  }
}

// A target that goes takes the disk with it: misses, no errors, no waiting for ever. What is put
// meanwhile is in DRAM.
TEST_P(ClientRemoteDirectTest, ATargetThatGoes) {
  fill();
  connect();
  target_.reset();
  const auto miss = client_->get(key(1));
  ASSERT_FALSE(miss);
  EXPECT_EQ(miss.error().code(), Code::kNotFound) << words(miss);
  ASSERT_TRUE(client_->put("new", make_value(4711, kValue)));
  EXPECT_TRUE(same(client_->get("new")->bytes(), make_value(4711, kValue)));
}

INSTANTIATE_TEST_SUITE_P(, ClientRemoteDirectTest,
                         testing::Values(Path::kSharedMemory, Path::kUnixSocket, Path::kTcp),
                         path_test_name);

}  // namespace
}  // namespace larder::client
