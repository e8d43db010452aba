// SPDX-License-Identifier: Apache-2.0
// For the tests of this folder: a node in this process, clients of it by every path, and values
// whose bytes follow from a seed.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "env/clock.h"
#include "env/temp_directory.h"
#include "larder/client.h"
#include "node/node.h"
#include "obs/log.h"
#include "tier/hot/fence.h"

namespace larder::client {

using Bytes = std::vector<std::byte>;

inline Bytes make_value(std::uint64_t seed, std::size_t bytes) {
  Bytes value(bytes);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t at = 0; at < bytes; at += sizeof(state)) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t word = state ^ (state >> 29);
    std::memcpy(value.data() + at, &word, std::min(sizeof(word), bytes - at));
  }
  return value;
}

inline bool same(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

inline Code code_of(const Result<void>& result) {
  return result ? Code::kOk : result.error().code();
}
template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}
template <class T>
std::string words(const Result<T>& result) {
  return result ? "ok" : result.error().to_string();
}

// Polls, offering the core to others, until it holds or ten seconds are over.
inline bool soon(const std::function<bool()>& holds) {
  const env::Nanos deadline = env::monotonic_now() + 10 * env::kSecond;
  while (!holds()) {
    if (env::monotonic_now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// A node of its own, in a directory of its own, for each test.
class NodeFixture {
 public:
  static constexpr std::uint64_t kCapacity = 16 << 20;

  NodeFixture() {
    obs::LogOptions log;
    log.level = obs::Level::kError;
    obs::configure_log(std::move(log));
    options = node::default_node_options().value();
    options.socket = dir + "/node.sock";
    options.listen = {"127.0.0.1:0"};
    options.http.clear();
    options.reactors = 2;
    options.hot_capacity = kCapacity;
    options.hot_pages = "4k";
    options.hot_populate = false;
    options.hot_high_watermark = 1;  // evicts only what a put needs, so that tests can count
    options.hot_low_watermark = 1;
  }
  ~NodeFixture() {
    node.reset();
    tier::forget_fence(options.socket);
  }

  void start() {
    auto made = node::Node::create(options);
    ASSERT_TRUE(made) << made.error().to_string();
    node = std::move(*made);
  }
  ClientOptions client_options(Path path) const {
    ClientOptions client;
    client.path = path;
    client.address = path == Path::kTcp ? node->tcp_addresses().front() : node->unix_address();
    client.window_bytes = 256 << 10;
    return client;
  }
  std::unique_ptr<Client> connect(Path path) const { return connect(client_options(path)); }
  static std::unique_ptr<Client> connect(ClientOptions client) {
    auto made = Client::connect(std::move(client));
    EXPECT_TRUE(made) << words(made);
    return made ? std::move(*made) : nullptr;
  }
  // With every client gone: nothing is pinned or half put, and no byte is lost.
  void expect_clean() const {
    if (!node) return;
    EXPECT_TRUE(soon([this] { return node->connections() == 0; }));
    EXPECT_EQ(node->pins(), 0U);
    EXPECT_EQ(node->reserved_bytes(), 0U);
    EXPECT_EQ(node->used_bytes() + node->free_bytes(), node->capacity_bytes());
  }

  const env::TempDirectory home = env::TempDirectory::create("larder-client").value();
  const std::string& dir = home.path();
  node::NodeOptions options;
  std::unique_ptr<node::Node> node;
};

class ClientTest : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    nodes_.start();
    ASSERT_TRUE(nodes_.node);
    client_ = nodes_.connect(GetParam());
    ASSERT_TRUE(client_);
    ASSERT_EQ(client_->path(), GetParam());
  }
  void TearDown() override {
    client_.reset();
    nodes_.expect_clean();
  }
  node::Node& node() { return *nodes_.node; }
  void put(std::string_view key, ConstBytes value) {
    const auto result = client_->put(key, value);
    ASSERT_TRUE(result) << words(result);
  }
  void expect_value(std::string_view key, ConstBytes value) {
    const auto got = client_->get(key);
    ASSERT_TRUE(got) << words(got);
    EXPECT_TRUE(same(got->bytes(), value)) << key << ": other bytes";
  }

  NodeFixture nodes_;
  std::unique_ptr<Client> client_;
};

inline std::string path_test_name(const testing::TestParamInfo<Path>& info) {
  if (info.param == Path::kSharedMemory) return "SharedMemory";
  return info.param == Path::kUnixSocket ? "UnixSocket" : "Tcp";
}
inline const auto kEveryPath = testing::Values(Path::kSharedMemory, Path::kUnixSocket, Path::kTcp);

}  // namespace larder::client
