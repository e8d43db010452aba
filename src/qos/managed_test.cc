// SPDX-License-Identifier: Apache-2.0
#include "qos/managed.h"

#include <gtest/gtest.h>

#include <string>

namespace larder::qos {
namespace {

constexpr Label kFetch{TransportType::kTcp, TrafficClass::kHigh, Intent::kForegroundPrefixFetch,
                       Opcode::kRead};
const std::string kFetchLabels =
    R"({class="high",direction="read",intent="foreground_prefix_fetch",transport="tcp"})";

class ManagedTest : public ::testing::Test {
 protected:
  // The series' value as the scrape has it; empty: there is none.
  std::string value(const std::string& series) const {
    const std::string text = registry.text();
    const auto at = text.find("\n" + series + " ");
    if (at == std::string::npos) return {};
    const auto begin = at + series.size() + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  obs::Registry registry;
  ManagedTransfers books{&registry};
};

TEST_F(ManagedTest, ACompletedTransferIsCountedWithItsTime) {
  auto transfer = books.begin(kFetch);
  EXPECT_EQ(value("larder_transfer_in_flight" + kFetchLabels), "1");
  transfer.completed(3, 4096);
  EXPECT_FALSE(transfer);
  EXPECT_EQ(value("larder_transfer_in_flight" + kFetchLabels), "0");
  EXPECT_EQ(value("larder_transfer_requests_total" + kFetchLabels), "3");
  EXPECT_EQ(value("larder_transfer_bytes_total" + kFetchLabels), "4096");
  EXPECT_EQ(value("larder_transfer_seconds_count" + kFetchLabels), "1");
}

TEST_F(ManagedTest, OneThatIsDroppedHasFailed) {
  { const auto dropped = books.begin(kFetch); }
  {
    auto moved = books.begin(kFetch);
    auto here = std::move(moved);
    EXPECT_FALSE(moved);  // NOLINT(bugprone-use-after-move): what is left of it is the point
    EXPECT_EQ(value("larder_transfer_in_flight" + kFetchLabels), "1");
    here = ManagedTransfers::Transfer();  // ended by what takes its place
    EXPECT_EQ(value("larder_transfer_in_flight" + kFetchLabels), "0");
  }
  const std::string labels =
      R"({class="high",direction="read",intent="foreground_prefix_fetch",outcome="failed",)"
      R"(transport="tcp"})";
  EXPECT_EQ(value("larder_transfer_failures_total" + labels), "2");
  EXPECT_EQ(value("larder_transfer_requests_total" + kFetchLabels), "0");
}

TEST_F(ManagedTest, EveryTransportHasSeriesOfItsOwn) {
  std::uint64_t bytes = 0;
  const std::pair<TransportType, std::string> all[] = {{TransportType::kUnspecified, "unknown"},
                                                       {TransportType::kShm, "shm"},
                                                       {TransportType::kGds, "gds"},
                                                       {TransportType::kIoUring, "io_uring"},
                                                       {TransportType::kTcp, "tcp"},
                                                       {TransportType::kNds, "nds"},
                                                       {TransportType::kMemcpy, "memcpy"},
                                                       {TransportType::kNvmeTcp, "nvme_tcp"}};
  Label label{TransportType::kUnspecified, TrafficClass::kHigh, Intent::kCheckpoint,
              Opcode::kWrite};
  for (const auto& [transport, name] : all) {
    label.transport = transport;
    books.completed(label, 1, ++bytes);
  }
  bytes = 0;
  for (const auto& [transport, name] : all) {
    EXPECT_EQ(value(R"(larder_transfer_bytes_total{class="high",direction="write",)"
                    R"(intent="checkpoint",transport=")" +
                    name + "\"}"),
              std::to_string(++bytes))
        << name;
  }
}

TEST_F(ManagedTest, WhatTheBooksDoNotKnowShows) {
  std::uint64_t moved = 0;
  const auto handle =
      books.export_unmanaged("frames", Resource::kNicRx, [&moved] { return moved; });
  ASSERT_TRUE(handle);
  const std::string series = R"(larder_unmanaged_transfer_bytes{path="frames",resource="nic_rx"})";
  EXPECT_EQ(value(series), "0");
  moved = 5000;
  books.know(Resource::kNicRx, 4000);
  books.know(Resource::kNicTx, 700);  // another resource's
  EXPECT_EQ(value(series), "1000");
  books.know(Resource::kNicRx, 1000);
  EXPECT_EQ(value(series), "0");
}

TEST(Purpose, UnknownNumbersAreUnknownAndNeverHigh) {
  EXPECT_EQ(purpose_of(2, 0).intent, Intent::kForegroundPrefixFetch);
  EXPECT_EQ(purpose_of(2, 0).traffic_class, TrafficClass::kHigh);
  EXPECT_EQ(purpose_of(2, 2).traffic_class, TrafficClass::kLow);
  EXPECT_EQ(purpose_of(6, 1).traffic_class, TrafficClass::kHigh);
  EXPECT_EQ(purpose_of(kIntentCount, 0).intent, Intent::kUnknown);
  EXPECT_EQ(purpose_of(255, 255).traffic_class, TrafficClass::kLow);
}

}  // namespace
}  // namespace larder::qos
