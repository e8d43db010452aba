// SPDX-License-Identifier: Apache-2.0
// Values move in the transfer engine's books, at both ends: why, how, how much.
#include <gtest/gtest.h>

#include <string>

#include "client/client_testing.h"
#include "larder.pb.h"
#include "rpc/channel.h"
#include "rpc/payload.h"
#include "wire/message.h"

namespace larder::client {
namespace {

constexpr std::size_t kValueBytes = 100'000;

// The series' value; empty: there is none.
std::string value_of(const std::string& metrics, const std::string& series) {
  const auto at = metrics.find("\n" + series + " ");
  if (at == std::string::npos) return {};
  const auto begin = at + series.size() + 2;
  return metrics.substr(begin, metrics.find('\n', begin) - begin);
}

std::string labels(std::string_view direction, std::string_view intent, std::string_view transport,
                   std::string_view traffic_class) {
  return "{class=\"" + std::string(traffic_class) + "\",direction=\"" + std::string(direction) +
         "\",intent=\"" + std::string(intent) + "\",transport=\"" + std::string(transport) + "\"}";
}

std::string with_failed(std::string series) {
  return series.insert(series.find(",transport"), ",outcome=\"failed\"");
}

std::string unmanaged(const std::string& metrics, const std::string& resource) {
  return value_of(metrics,
                  "larder_unmanaged_transfer_bytes{path=\"frames\",resource=\"" + resource + "\"}");
}

class ClientBooksTest : public ClientTest {
 protected:
  std::string transport() const { return GetParam() == Path::kSharedMemory ? "shm" : "tcp"; }
  std::string put_intent() const {
    return GetParam() == Path::kTcp ? "remote_store_write" : "dram_offload";
  }
  void expect_bytes(const std::string& metrics, const std::string& with, std::size_t bytes) {
    EXPECT_EQ(value_of(metrics, "larder_transfer_bytes_total" + with), std::to_string(bytes))
        << with;
    EXPECT_EQ(value_of(metrics, "larder_transfer_in_flight" + with), "0") << with;
  }
};

TEST_P(ClientBooksTest, PutsAndGetsAreCountedWithTheirIntents) {
  const Bytes value = make_value(1, kValueBytes);
  put("a", value);
  put("b", value);
  expect_value("a", value);
  expect_value("a", value);
  EXPECT_FALSE(client_->get("absent"));
  const std::string put_labels = labels("write", put_intent(), transport(), "low");
  const std::string get_labels = labels("read", "foreground_prefix_fetch", transport(), "high");
  expect_bytes(client_->metrics(), put_labels, 2 * kValueBytes);
  expect_bytes(client_->metrics(), get_labels, 2 * kValueBytes);
  const std::string failures = "larder_transfer_failures_total" +
                               labels("read", "foreground_prefix_fetch", transport(), "high");
  EXPECT_EQ(value_of(client_->metrics(), with_failed(failures)), "0") << "absent is no failure";
  expect_bytes(node().metrics(), put_labels, 2 * kValueBytes);
  if (GetParam() != Path::kSharedMemory) {  // those reads the node only hears of
    ASSERT_TRUE(soon([&] {
      return value_of(node().metrics(), "larder_transfer_in_flight" + get_labels) == "0";
    }));
    expect_bytes(node().metrics(), get_labels, 2 * kValueBytes);
  }
}

TEST_P(ClientBooksTest, TheCallersIntentAndClassCount) {
  const Bytes value = make_value(2, kValueBytes);
  PutOptions options;
  options.intent = Intent::kCheckpoint;
  options.traffic_class = TrafficClass::kHigh;
  ASSERT_TRUE(client_->put("a", value, options));
  CallOptions fetch;
  fetch.intent = Intent::kForegroundHandoff;
  ASSERT_TRUE(client_->get("a", fetch));
  const std::string as_put = labels("write", "checkpoint", transport(), "high");
  expect_bytes(client_->metrics(), as_put, kValueBytes);
  expect_bytes(node().metrics(), as_put, kValueBytes);
  expect_bytes(client_->metrics(), labels("read", "foreground_handoff", transport(), "high"),
               kValueBytes);
}

TEST_P(ClientBooksTest, NothingMovesPastTheBooks) {
  const Bytes large = make_value(3, 3 * kValueBytes);
  const Bytes small = make_value(4, 900);
  for (int i = 0; i < 3; ++i) {
    put("large" + std::to_string(i), large);
    put("small" + std::to_string(i), small);
    put("small" + std::to_string(i), small);  // is there already
  }
  expect_value("large1", large);
  expect_value("small2", small);
  const std::vector<std::string_view> keys = {"large0", "large1", "small0", "absent"};
  ASSERT_TRUE(client_->exists(keys));
  ASSERT_TRUE(client_->match_prefix(keys));
  ASSERT_TRUE(client_->stat("small0"));
  ASSERT_TRUE(client_->remove("large2"));
  EXPECT_EQ(unmanaged(node().metrics(), "nic_rx"), "0");
  EXPECT_EQ(unmanaged(node().metrics(), "nic_tx"), "0");
}

INSTANTIATE_TEST_SUITE_P(Paths, ClientBooksTest,
                         testing::Values(Path::kSharedMemory, Path::kUnixSocket, Path::kTcp),
                         [](const auto& path) {
                           std::string name(path_name(path.param));
                           std::erase(name, '-');
                           return name;
                         });

// A request with payload that no operation wants: it moved all the same.
class Unwanted final : public rpc::Call, public rpc::PayloadSource {
 public:
  explicit Unwanted(std::span<std::byte> bytes) : bytes_(bytes) {}
  rpc::PayloadSink* on_reply(const wire::FrameHeader& header, std::string_view) override {
    code = header.code;
    return nullptr;
  }
  void on_done(const Error*) override {}
  std::size_t next(std::span<iovec> into) override {
    if (bytes_.empty()) return 0;
    into[0] = {bytes_.data(), bytes_.size()};
    bytes_ = {};
    return 1;
  }
  Code code = Code::kOk;

 private:
  std::span<std::byte> bytes_;
};

TEST(NodeBooksTest, PayloadThatNothingAsksForShowsAsUnmanaged) {
  NodeFixture nodes;
  nodes.start();
  ASSERT_TRUE(nodes.node);
  rpc::ChannelOptions options;
  options.address = env::SocketAddress::parse(nodes.node->unix_address()).value();
  const auto channel = rpc::Channel::connect(options).value();
  Bytes bytes(5000);
  Unwanted call(bytes);
  wire::FrameHeader header;
  header.op = wire::Op::kInfo;
  header.payload_bytes = bytes.size();
  channel->send(call, header, wire::frame_with(pb::InfoRequest()), &call,
                env::monotonic_now() + 10 * env::kSecond, rpc::Attendance::kWaited);
  channel->wait(call);
  EXPECT_EQ(call.code, Code::kInvalidArgument);
  EXPECT_EQ(unmanaged(nodes.node->metrics(), "nic_rx"), "5000");
  EXPECT_EQ(unmanaged(nodes.node->metrics(), "nic_tx"), "0");
}

}  // namespace
}  // namespace larder::client
