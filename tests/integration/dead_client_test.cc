// SPDX-License-Identifier: Apache-2.0
// A client process that dies, or freezes, with pins held and in the middle of a put: the node gets
// everything back. The client is this very program, run again with another test selected.
#include <gtest/gtest.h>

#include <cstdlib>

#include "node/node.h"
#include "node_process.h"
#include "obs/log.h"

namespace larder::integration {
namespace {

constexpr env::Nanos kStall = 500 * env::kMilli;

// The part of the client process: pins, then puts until it is killed.
TEST(Role, DISABLED_PinsAndPuts) {
  const char* address = std::getenv("LARDER_TEST_ADDRESS");
  const char* path = std::getenv("LARDER_TEST_PATH");
  ASSERT_TRUE(address != nullptr && path != nullptr);
  ClientOptions options;
  options.address = address;
  options.path = static_cast<Path>(std::atoi(path));
  options.window_bytes = 256 << 10;
  auto client = Client::connect(options);
  ASSERT_TRUE(client) << words(client);
  for (int i = 0; i < 8; ++i) {
    const std::string key = "pinned-" + std::to_string(i);
    ASSERT_TRUE((*client)->put(key, make_value(1, 10'000)));
    ASSERT_TRUE((*client)->pin(key));
  }
  std::optional<PinnedView> view;
  if (options.path == Path::kSharedMemory) view.emplace((*client)->view("pinned-0").value());
  for (std::uint64_t i = 0;; ++i) {
    static_cast<void>((*client)->put(std::to_string(i % 5), make_value(i, 1 << 20)).has_value());
  }
}

class DeadClientTest : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    obs::LogOptions log;
    log.level = obs::Level::kError;
    obs::configure_log(std::move(log));
    node::NodeOptions options = node::default_node_options().value();
    options.socket = dir_.file("node.sock");
    options.listen = {"127.0.0.1:0"};
    options.http.clear();
    options.hot_capacity = 16 << 20;
    options.hot_pages = "4k";
    options.hot_populate = false;
    options.reactors = 1;
    options.stall_timeout = std::chrono::nanoseconds(kStall);
    node_ = node::Node::create(options).value();
  }
  apps::ChildProcess start_client() {
    const std::string address =
        GetParam() == Path::kTcp ? node_->tcp_addresses().front() : node_->unix_address();
    ::setenv("LARDER_TEST_ADDRESS", address.c_str(), 1);
    ::setenv("LARDER_TEST_PATH", std::to_string(static_cast<int>(GetParam())).c_str(), 1);
    apps::ChildOptions child;
    child.program = apps::own_program().value();
    child.arguments = {"--gtest_also_run_disabled_tests",
                       "--gtest_filter=Role.DISABLED_PinsAndPuts"};
    child.output_file = dir_.file("client.log");
    return apps::ChildProcess::start(child).value();
  }
  bool in_the_middle() const { return node_->pins() == 8 && node_->reserved_bytes() > 0; }
  bool nothing_held() const {
    return node_->pins() == 0 && node_->reserved_bytes() == 0 && node_->connections() == 0;
  }

  Directory dir_;
  std::unique_ptr<node::Node> node_;
};
INSTANTIATE_TEST_SUITE_P(Paths, DeadClientTest, testing::ValuesIn(kPaths), path_test_name);

// Poll hard: a put is over within a millisecond.
bool catch_it(const std::function<bool()>& holds) {
  const env::Nanos deadline = env::monotonic_now() + 20 * env::kSecond;
  while (!holds()) {
    if (env::monotonic_now() > deadline) return false;
  }
  return true;
}

TEST_P(DeadClientTest, KilledInTheMiddleOfAPut) {
  for (int round = 0; round < 10; ++round) {
    apps::ChildProcess client = start_client();
    EXPECT_TRUE(catch_it([&] { return in_the_middle(); })) << dir_.read("client.log");
    ::kill(client.pid(), SIGKILL);
    EXPECT_TRUE(within(kStall + env::kSecond, [&] { return nothing_held(); }))
        << node_->pins() << " pins, " << node_->reserved_bytes() << " bytes reserved, "
        << node_->connections() << " connections";
    EXPECT_EQ(node_->used_bytes() + node_->free_bytes(), node_->capacity_bytes());
  }
}

TEST_P(DeadClientTest, FrozenInTheMiddleOfAPut) {
  for (int round = 0; round < 3; ++round) {
    apps::ChildProcess client = start_client();
    EXPECT_TRUE(catch_it([&] { return in_the_middle(); })) << dir_.read("client.log");
    ::kill(client.pid(), SIGSTOP);
    EXPECT_TRUE(within(kStall + 2 * env::kSecond, [&] { return node_->reserved_bytes() == 0; }));
    EXPECT_EQ(node_->used_bytes() + node_->free_bytes(), node_->capacity_bytes());
    ::kill(client.pid(), SIGKILL);
    EXPECT_TRUE(within(kStall + env::kSecond, [&] { return nothing_held(); }));
  }
}

}  // namespace
}  // namespace larder::integration
