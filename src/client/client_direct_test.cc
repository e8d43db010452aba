// SPDX-License-Identifier: Apache-2.0
// Values that a client of the same host reads from the node's disk by itself.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "client/disk_testing.h"

namespace larder::client {
namespace {

class ClientDirectTest : public testing::Test, protected DiskBed {
 protected:
  ClientDirectTest() : DiskBed(Path::kSharedMemory) {}
  void TearDown() override { end(); }
  // More than DRAM holds, all on disk; the first values are there alone.
  void fill(const std::string& promotion) {
    start(promotion);
    put_many(0, kMore);
    settle(kMore);
    ASSERT_EQ(tier_of(key(0)), Tier::kCold);
  }
  std::string store() { return nodes_.dir + "/disk/larder.store"; }
};

TEST_F(ClientDirectTest, TheNodeReadsNothingTheFirstTime) {
  fill("on_second_hit");
  for (std::uint64_t i = 0; i < 20; ++i) expect_value(i);
  EXPECT_EQ(direct(), 20);
  EXPECT_EQ(restored(), 0);
  EXPECT_EQ(tier_of(key(0)), Tier::kCold);
}

// The reuse is near: DRAM can serve the next.
TEST_F(ClientDirectTest, TheSecondReadBringsItIntoDram) {
  fill("on_second_hit");
  expect_value(0);
  EXPECT_EQ(tier_of(key(0)), Tier::kCold);
  expect_value(0);
  EXPECT_EQ(tier_of(key(0)), Tier::kHotAndCold);
  EXPECT_EQ(direct(), 1);
  EXPECT_EQ(restored(), 1);
}

// What comes back only after more than DRAM holds was read would not have stayed there.
TEST_F(ClientDirectTest, AReadLongAgoIsNoReasonToKeepIt) {
  fill("on_second_hit");
  std::vector<std::uint64_t> cold;
  for (std::uint64_t i = 0; i < kMore; ++i) {
    if (tier_of(key(i)) == Tier::kCold) cold.push_back(i);
  }
  ASSERT_GT(cold.size() * kValue, NodeFixture::kCapacity * 5 / 4);
  for (int round = 0; round < 2; ++round) {
    for (const std::uint64_t i : cold) expect_value(i);
  }
  EXPECT_EQ(direct(), 2.0 * static_cast<double>(cold.size()));
  EXPECT_EQ(restored(), 0);
}

TEST_F(ClientDirectTest, NeverMeansThatDramIsForWhatIsPut) {
  fill("never");
  for (int round = 0; round < 3; ++round) expect_value(0);
  EXPECT_EQ(direct(), 3);
  EXPECT_EQ(tier_of(key(0)), Tier::kCold);
}

// One call for values of both kinds, into memory of any alignment, in several pieces.
TEST_F(ClientDirectTest, ABatchIntoPiecesOfAnyAlignment) {
  fill("on_second_hit");
  get_all_into_odd_pieces();
  EXPECT_GT(direct(), 100);
  EXPECT_EQ(restored(), 0);
}

// Rot on the disk: the client sees that it is not the value, the node then forgets it.
TEST_F(ClientDirectTest, WrongBytesAreAMissAndNeverAValue) {
  fill("never");
  const Bytes value = make_value(0, kValue);
  {
    std::fstream file(store(), std::ios::in | std::ios::out | std::ios::binary);
    std::string all((std::istreambuf_iterator<char>(file)), {});
    const auto at = all.find(std::string(reinterpret_cast<const char*>(value.data()), 64));
    ASSERT_NE(at, std::string::npos);
    file.clear();
    file.seekp(static_cast<std::streamoff>(at + 1000));
    file.put(static_cast<char>(~all[at + 1000]));
  }
  const auto got = client_->get(key(0));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kNotFound);
  EXPECT_EQ(count("larder_disk_corrupt_total"), 1);
  expect_value(1);
}

// In a container, say, where the path names something else, or nothing.
TEST_F(ClientDirectTest, WhoCannotOpenTheDiskAsksTheNode) {
  fill("on_second_hit");
  ASSERT_EQ(std::rename(store().c_str(), (store() + ".away").c_str()), 0);
  std::ofstream(store()) << "another file";
  for (std::uint64_t i = 0; i < 20; ++i) expect_value(i);
  EXPECT_EQ(direct(), 1);  // then it asked no more
  EXPECT_EQ(restored(), 20);
  ASSERT_EQ(std::rename((store() + ".away").c_str(), store().c_str()), 0);
}

TEST_F(ClientDirectTest, ARemovedValueIsNotOffered) {
  fill("on_second_hit");
  ASSERT_TRUE(client_->remove(key(0)));
  EXPECT_EQ(client_->get(key(0)).error().code(), Code::kNotFound);
  EXPECT_EQ(direct(), 0);
}

// A node that does not share its memory does not share its disks.
TEST_F(ClientDirectTest, NotWithoutSharedMemory) {
  nodes_.options.share_memory = false;
  nodes_.options.cold.disks = {nodes_.dir + "/disk:256MiB"};
  nodes_.options.cold.promotion = "never";
  nodes_.start();
  ASSERT_TRUE(nodes_.node);
  client_ = nodes_.connect(Path::kUnixSocket);
  ASSERT_TRUE(client_);
  put_many(0, kMore);
  settle(kMore);
  expect_value(0);
  EXPECT_EQ(direct(), 0);
}

}  // namespace
}  // namespace larder::client
