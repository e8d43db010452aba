// SPDX-License-Identifier: Apache-2.0
// Device memory and a peer's: two engines, real sockets and real shared memory, and a simulated
// device whose memory the CPU cannot touch.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "env/clock.h"
#include "larder/transfer.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = 1UL << 20;
constexpr auto kLong = 30s;

// The transport, and the kind of device.
class StagingTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static std::string transport() { return std::get<0>(GetParam()); }
  static std::string device() { return std::get<1>(GetParam()); }

  void SetUp() override {
    TransferConfig config;
    config.transports = {"memcpy", "tcp", "shm"};
    config.platforms = {"cpu", "sim-" + device()};
    config.listen = {"tcp:127.0.0.1:0"};
    server_ = TransferEngine::create(config).value();
    config.transports = {"memcpy", transport()};
    config.listen = {};
    config.peer_timeout = 5s;
    client_ = TransferEngine::create(config).value();
    segment_ = client_->open_segment(server_->addresses().front()).value();
  }
  static std::byte* host(TransferEngine& engine, std::uint64_t bytes, unsigned seed) {
    auto* const at = static_cast<std::byte*>(engine.allocate_memory(bytes).value());
    for (std::uint64_t i = 0; i < bytes; ++i) {
      at[i] = static_cast<std::byte>((seed * 131 + i * 7 + i / 251) & 0xff);
    }
    return at;
  }
  std::byte* on_device(TransferEngine& engine, std::uint64_t bytes) {
    return static_cast<std::byte*>(engine.allocate_memory(bytes, device() + ":0").value());
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
  // One request by itself; its status, and what explain() says of it.
  TaskStatus run(const TransferRequest& one, std::string* why = nullptr) {
    const BatchId batch = client_->allocate_batch(1).value();
    const auto results = client_->submit(batch, std::span(&one, 1)).value();
    TaskStatus status;
    status.code = results[0].code;
    status.message = results[0].message;
    if (status.code == Code::kOk) {
      EXPECT_TRUE(client_->wait(batch, kLong));
      status = client_->poll(batch, 0).value();
      if (why != nullptr) *why = client_->explain(batch, 0).value();
    }
    EXPECT_TRUE(client_->free_batch(batch));
    return status;
  }

  std::unique_ptr<TransferEngine> server_;
  std::unique_ptr<TransferEngine> client_;
  SegmentId segment_;
};

INSTANTIATE_TEST_SUITE_P(Transports, StagingTest,
                         testing::Combine(testing::Values("tcp", "shm"),
                                          testing::Values("npu", "cuda")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

TEST_P(StagingTest, MovesBytesBothWaysInEverySize) {
  constexpr std::uint64_t kBytes = 33 * kMiB + 3;
  std::byte* const from = host(*server_, kBytes, 1);
  std::byte* const to = host(*server_, kBytes, 2);
  std::byte* const device = on_device(*client_, kBytes);
  for (const std::uint64_t bytes : {1UL, 4096UL, 65537UL, kMiB, kBytes}) {
    const TaskStatus read = run(request(Opcode::kRead, device, from, bytes));
    ASSERT_EQ(read.outcome, Outcome::kCompleted) << read.message;
    EXPECT_TRUE(read.quiescent);
    EXPECT_EQ(read.bytes, bytes);
    EXPECT_EQ(transport_name(read.transport), transport());
    std::memset(to, 0, bytes);
    ASSERT_EQ(run(request(Opcode::kWrite, device, to, bytes)).message, "");
    EXPECT_EQ(std::memcmp(from, to, bytes), 0) << bytes;
  }
}

TEST_P(StagingTest, SmallOnesAtOnceWithABadOneAmongThem) {
  std::byte* const from = host(*server_, kMiB, 3);
  std::byte* const to = host(*server_, kMiB, 4);
  std::byte* const device = on_device(*client_, kMiB);
  for (const Opcode opcode : {Opcode::kRead, Opcode::kWrite}) {
    std::byte* const far = opcode == Opcode::kRead ? from : to;
    std::vector<TransferRequest> requests;
    for (std::uint64_t i = 0; i < 128; ++i) {
      requests.push_back(request(opcode, device + i * 8192, far + i * 8192, 4096));
    }
    requests[7].target_offset = 4096;
    const BatchId batch = client_->allocate_batch(128).value();
    const auto results = client_->submit(batch, requests).value();
    EXPECT_EQ(results[7].code, Code::kNotFound) << results[7].message;
    EXPECT_EQ(client_->wait(batch, kLong)->completed, 127U);
  }
  for (std::uint64_t i = 0; i < 128; ++i) {
    EXPECT_EQ(std::memcmp(from + i * 8192, to + i * 8192, 4096) == 0, i != 7) << i;
  }
}

TEST_P(StagingTest, ExplainsBothStages) {
  std::byte* const far = host(*server_, kMiB, 5);
  std::byte* const device = on_device(*client_, kMiB);
  TransferRequest one = request(Opcode::kRead, device, far, kMiB);
  one.intent = Intent::kForegroundPrefixFetch;
  std::string why;
  ASSERT_EQ(run(one, &why).message, "");
  const std::string half = transport() == "tcp" ? "peer_to_host" : "host_to_host";
  for (const std::string& part :
       {std::string("\"staged\":true"), "\"stage\":\"" + half + "\"",
        std::string("\"stage\":\"host_to_device\""), std::string("\"accel_pcie_in\":1048576"),
        std::string("\"class\":\"high\""), "\"transport\":\"" + transport() + "\""}) {
    EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
  }
}

// Nobody but its owner reaches a peer's device.
TEST_P(StagingTest, APeersDeviceIsRefused) {
  std::byte* const far = on_device(*server_, kMiB);
  for (void* const local : {static_cast<void*>(host(*client_, kMiB, 6)),
                            static_cast<void*>(on_device(*client_, kMiB))}) {
    for (const Opcode opcode : {Opcode::kRead, Opcode::kWrite}) {
      const TaskStatus status = run(request(opcode, local, far, 4096));
      EXPECT_EQ(status.code, Code::kUnsupported) << status.message;
    }
  }
}

TEST_P(StagingTest, APeerThatIsGoneIsAnErrorAndTheMemoryFree) {
  std::byte* const far = host(*server_, 32 * kMiB, 7);
  std::byte* const device = on_device(*client_, 32 * kMiB);
  ASSERT_EQ(run(request(Opcode::kRead, device, far, 4096)).message, "");
  server_.reset();
  const TaskStatus status = run(request(Opcode::kRead, device, far, 32 * kMiB));
  EXPECT_EQ(status.code, Code::kUnavailable) << status.message;
  EXPECT_TRUE(client_->free_memory(device));
}

TEST_P(StagingTest, WhatIsCancelledIsQuiescentSoon) {
  std::byte* const far = host(*server_, 32 * kMiB, 8);
  std::byte* const device = on_device(*client_, 32 * kMiB);
  for (const Opcode opcode : {Opcode::kRead, Opcode::kWrite}) {
    const BatchId batch = client_->allocate_batch(8).value();
    std::vector<TransferRequest> requests;
    for (std::uint64_t i = 0; i < 8; ++i) {
      requests.push_back(request(opcode, device + i * 4 * kMiB, far + i * 4 * kMiB, 3 * kMiB));
    }
    ASSERT_TRUE(client_->submit(batch, requests));
    for (std::uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(client_->cancel(batch, i));
    const auto status = client_->wait(batch, kLong);
    ASSERT_TRUE(status) << status.error().to_string();
    for (std::uint32_t i = 0; i < 8; ++i) {
      const Outcome outcome = client_->poll(batch, i)->outcome;
      EXPECT_TRUE(outcome == Outcome::kCompleted || outcome == Outcome::kCancelled) << i;
    }
  }
  EXPECT_TRUE(client_->free_memory(device));
}

TEST(StagingTransports, ShmIsTakenWhereItCanAndTcpWhereNot) {
  TransferConfig config;
  config.transports = {"memcpy", "tcp", "shm"};
  config.platforms = {"sim-npu"};
  config.listen = {"tcp:127.0.0.1:0"};
  const auto server = TransferEngine::create(config).value();
  config.listen = {};
  const auto client = TransferEngine::create(config).value();
  const SegmentId segment = client->open_segment(server->addresses().front()).value();
  std::vector<std::byte> own(4096);  // no memory that a peer could map
  const MemoryRange range{own.data(), own.size()};
  ASSERT_TRUE(server->register_memory(std::span(&range, 1)));
  void* const shared = server->allocate_memory(4096).value();
  void* const device = client->allocate_memory(4096, "npu:0").value();
  const auto taken = [&](void* far) {
    TransferRequest request;
    request.local = device;
    request.target = segment;
    request.target_offset = reinterpret_cast<std::uintptr_t>(far);
    request.length = 4096;
    const BatchId batch = client->allocate_batch(1).value();
    EXPECT_EQ(client->submit(batch, std::span(&request, 1)).value()[0].message, "");
    EXPECT_TRUE(client->wait(batch, kLong)->all_completed());
    return client->poll(batch, 0)->transport;
  };
  EXPECT_EQ(taken(shared), TransportType::kShm);
  EXPECT_EQ(taken(own.data()), TransportType::kTcp);
}

}  // namespace
}  // namespace larder
