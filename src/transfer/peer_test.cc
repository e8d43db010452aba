// SPDX-License-Identifier: Apache-2.0
// Two engines and what is between them: real sockets and real shared memory.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "env/clock.h"
#include "larder/transfer.h"
#include "obs/metrics.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = 1UL << 20;
constexpr auto kLong = 30s;

env::Nanos later() {
  return env::monotonic_now() + 30 * env::kSecond;
}

std::unique_ptr<TransferEngine> make_engine(TransferConfig config) {
  auto made = TransferEngine::create(std::move(config));
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? std::move(*made) : nullptr;
}

std::byte* filled(TransferEngine& engine, std::uint64_t bytes, unsigned seed) {
  auto* const at = static_cast<std::byte*>(engine.allocate_memory(bytes).value());
  for (std::uint64_t i = 0; i < bytes; ++i) {
    at[i] = static_cast<std::byte>((seed * 131 + i * 7 + i / 251) & 0xff);
  }
  return at;
}

// "tcp" and "shm": the same is asked of both.
class PeerTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    start_server();
    TransferConfig config;
    config.transports = {"memcpy", GetParam()};
    config.peer_timeout = 5s;
    client_ = make_engine(std::move(config));
    segment_ = client_->open_segment(address_).value();
  }
  void start_server() {
    TransferConfig config;
    config.transports = {"memcpy", "tcp", "shm"};
    config.listen = {address_.empty() ? "tcp:127.0.0.1:0" : address_};
    config.metrics = &server_metrics_;
    server_ = make_engine(std::move(config));
    address_ = server_->addresses().front();
  }
  TransferRequest request(Opcode opcode, void* local, const void* remote, std::uint64_t bytes) {
    TransferRequest out;
    out.opcode = opcode;
    out.local = local;
    out.target = segment_;
    out.target_offset = reinterpret_cast<std::uintptr_t>(remote);
    out.length = bytes;
    return out;
  }
  TaskStatus run(const TransferRequest& one) {
    const BatchId batch = client_->allocate_batch(1).value();
    const auto results = client_->submit(batch, std::span(&one, 1)).value();
    TaskStatus status;
    status.code = results[0].code;
    status.message = results[0].message;
    if (status.code == Code::kOk) {
      EXPECT_TRUE(client_->wait(batch, kLong));
      status = client_->poll(batch, 0).value();
    }
    EXPECT_TRUE(client_->free_batch(batch));
    return status;
  }

  obs::Registry server_metrics_;
  std::string address_;
  std::unique_ptr<TransferEngine> server_;
  std::unique_ptr<TransferEngine> client_;
  SegmentId segment_;
};

std::string test_name(const testing::TestParamInfo<std::string>& test) {
  return test.param;
}
INSTANTIATE_TEST_SUITE_P(Transports, PeerTest, testing::Values("tcp", "shm"), test_name);

TEST_P(PeerTest, MovesBytesBothWaysInEverySize) {
  std::byte* const far = filled(*server_, 40 * kMiB, 1);
  std::byte* const near = filled(*client_, 40 * kMiB, 2);
  for (const std::uint64_t bytes : {1UL, 4096UL, 65537UL, 1 * kMiB, 33 * kMiB + 3}) {
    const TaskStatus read = run(request(Opcode::kRead, near, far, bytes));
    ASSERT_EQ(read.outcome, Outcome::kCompleted) << read.message;
    EXPECT_TRUE(read.quiescent);
    EXPECT_EQ(read.bytes, bytes);
    EXPECT_EQ(transport_name(read.transport), GetParam());
    EXPECT_EQ(std::memcmp(near, far, bytes), 0);
    near[bytes - 1] = ~near[bytes - 1];
    near[0] = ~near[0];
    ASSERT_EQ(run(request(Opcode::kWrite, near, far, bytes)).message, "");
    EXPECT_EQ(std::memcmp(near, far, bytes), 0);
  }
}

TEST_P(PeerTest, WhatAnEngineServesIsInItsBooks) {
  std::byte* const far = filled(*server_, kMiB, 1);
  std::byte* const near = filled(*client_, kMiB, 2);
  ASSERT_EQ(run(request(Opcode::kRead, near, far, kMiB)).outcome, Outcome::kCompleted);
  ASSERT_EQ(run(request(Opcode::kWrite, near, far, kMiB)).outcome, Outcome::kCompleted);
  for (const std::string resource : {"nic_rx", "nic_tx"}) {
    const std::string series =
        "larder_unmanaged_transfer_bytes{path=\"peers\",resource=\"" + resource + "\"} 0\n";
    EXPECT_NE(server_metrics_.text().find(series), std::string::npos) << resource;
  }
}

TEST_P(PeerTest, ManySmallOnesWithBadOnesAmongThem) {
  std::byte* const far = filled(*server_, kMiB, 3);
  std::byte* const near = filled(*client_, kMiB, 4);
  const BatchId batch = client_->allocate_batch(128).value();
  std::vector<TransferRequest> requests;
  for (std::uint64_t i = 0; i < 128; ++i) {
    requests.push_back(request(Opcode::kRead, near + i * 8192, far + i * 8192, 4096));
  }
  requests[7].target_offset = 4096;
  const auto results = client_->submit(batch, requests).value();
  EXPECT_EQ(results[7].code, Code::kNotFound) << results[7].message;
  const BatchStatus status = client_->wait(batch, kLong).value();
  EXPECT_EQ(status.completed, 127U);
  for (std::uint64_t i = 0; i < 128; ++i) {
    EXPECT_EQ(std::memcmp(near + i * 8192, far + i * 8192, 4096) == 0, i != 7) << i;
  }
}

TEST_P(PeerTest, DescribesAndAnswersProbes) {
  std::byte* const far = filled(*server_, kMiB, 5);
  const SegmentInfo info = client_->segment_info(segment_).value();
  ASSERT_EQ(info.buffers.size(), 1U);
  EXPECT_EQ(info.buffers[0].address, reinterpret_cast<std::uintptr_t>(far));
  EXPECT_EQ(info.buffers[0].bytes, kMiB);
  EXPECT_EQ(info.buffers[0].location.type, MemoryType::kCpu);
  EXPECT_TRUE(info.same_machine);
  EXPECT_NE(info.incarnation, 0U);
  EXPECT_GT(client_->probe_peer(segment_).value(), 0ns);
  EXPECT_EQ(client_->probe_peer(kLocalSegment).error().code(), Code::kInvalidArgument);
}

// What the owner takes back is not written to any more.
TEST_P(PeerTest, MemoryThatWasTakenBackIsRefused) {
  std::byte* const far = filled(*server_, kMiB, 6);
  std::byte* const near = filled(*client_, kMiB, 7);
  ASSERT_EQ(run(request(Opcode::kRead, near, far, 4096)).outcome, Outcome::kCompleted);
  // The serving side lets go of it a moment after the last byte was taken.
  Result<void> freed = fail(Code::kConflict, "");
  for (const env::Nanos until = later(); !freed && env::monotonic_now() < until;) {
    freed = server_->free_memory(far);
  }
  ASSERT_TRUE(freed);
  const TaskStatus status = run(request(Opcode::kWrite, near, far, 4096));
  EXPECT_NE(status.outcome, Outcome::kCompleted);
  EXPECT_NE(status.code, Code::kOk);
  EXPECT_FALSE(status.message.empty());
}

TEST_P(PeerTest, APeerThatIsGoneIsAnError) {
  std::byte* const far = filled(*server_, kMiB, 8);
  std::byte* const near = filled(*client_, kMiB, 9);
  ASSERT_EQ(run(request(Opcode::kRead, near, far, 4096)).outcome, Outcome::kCompleted);
  server_.reset();
  const TaskStatus status = run(request(Opcode::kRead, near, far, 4096));
  EXPECT_NE(status.outcome, Outcome::kCompleted);
  EXPECT_EQ(status.code, Code::kUnavailable) << status.message;
  EXPECT_FALSE(client_->probe_peer(segment_));
}

// The same address, and maybe the same place in memory, but another process's life.
TEST_P(PeerTest, ARestartedPeerIsLearnedAnew) {
  std::byte* far = filled(*server_, kMiB, 10);
  std::byte* const near = filled(*client_, kMiB, 11);
  ASSERT_EQ(run(request(Opcode::kRead, near, far, 4096)).outcome, Outcome::kCompleted);
  const std::uint64_t before = client_->segment_info(segment_)->incarnation;
  server_.reset();
  start_server();
  far = filled(*server_, kMiB, 12);
  TaskStatus status;
  // At most one request meets the end of the old connection.
  for (int tries = 0; tries < 100 && status.outcome != Outcome::kCompleted; ++tries) {
    static_cast<void>(client_->segment_info(segment_));
    status = run(request(Opcode::kRead, near, far, 4096));
  }
  EXPECT_EQ(status.outcome, Outcome::kCompleted) << status.message;
  EXPECT_EQ(std::memcmp(near, far, 4096), 0);
  EXPECT_NE(client_->segment_info(segment_)->incarnation, before);
}

// ---- notifications ----

TEST_P(PeerTest, ANotificationComesAfterTheData) {
  std::byte* const far = filled(*server_, 8 * kMiB, 13);
  std::byte* const near = filled(*client_, 8 * kMiB, 14);
  const BatchId batch = client_->allocate_batch(4).value();
  std::vector<TransferRequest> requests;
  for (std::uint64_t i = 0; i < 4; ++i) {
    requests.push_back(request(Opcode::kWrite, near + i * 2 * kMiB, far + i * 2 * kMiB, kMiB));
  }
  const NotifyAfter after{segment_, {"written", "four blocks"}};
  ASSERT_TRUE(client_->submit(batch, requests, &after));
  std::vector<Notification> got;
  for (const env::Nanos until = later(); got.empty() && env::monotonic_now() < until;) {
    got = server_->receive_notifications();
    static_cast<void>(client_->poll(batch));
  }
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].name, "written");
  EXPECT_EQ(got[0].message, "four blocks");
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::memcmp(near + i * 2 * kMiB, far + i * 2 * kMiB, kMiB), 0);
  }
  EXPECT_TRUE(client_->wait(batch, kLong));
}

TEST_P(PeerTest, NotificationsHaveBounds) {
  EXPECT_EQ(client_->send_notification(segment_, {"", "x"}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(client_->send_notification(segment_, {"x", std::string(65537, 'y')}).error().code(),
            Code::kInvalidArgument);
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(client_->send_notification(segment_, {"n", ""}));
  EXPECT_EQ(client_->send_notification(segment_, {"n", ""}).error().code(), Code::kBackpressure);
  EXPECT_EQ(server_->receive_notifications().size(), 1024U);
  EXPECT_TRUE(client_->send_notification(segment_, {"n", ""}));
  EXPECT_TRUE(client_->send_notification(kLocalSegment, {"self", "note"}));
  EXPECT_EQ(client_->receive_notifications().size(), 1U);
}

// ---- who may ----

TEST(PeerAccess, BeyondThisMachineOnlyWithATokenOrOnRequest) {
  TransferConfig config;
  config.transports = {"memcpy"};
  config.listen = {"tcp:0.0.0.0:0"};
  EXPECT_EQ(TransferEngine::create(config).error().code(), Code::kPermissionDenied);
  config.insecure = true;
  EXPECT_TRUE(TransferEngine::create(config));
  config.listen = {"tcp:nonsense"};
  EXPECT_EQ(TransferEngine::create(config).error().code(), Code::kInvalidArgument);
}

TEST(PeerAccess, NobodyThereIsSaidAtOnce) {
  TransferConfig config;
  config.transports = {"memcpy", "tcp"};
  const auto engine = make_engine(config);
  EXPECT_EQ(engine->open_segment("tcp:127.0.0.1:1").error().code(), Code::kUnavailable);
  EXPECT_EQ(engine->open_segment("unix:/no/such/socket").error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace larder
