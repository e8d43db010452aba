// SPDX-License-Identifier: Apache-2.0
// What a client sees of its node: which path it takes, tokens, restarts, and strangers.
#include <filesystem>
#include <fstream>

#include "client/client_testing.h"
#include "client/route_cache.h"

namespace larder::client {
namespace {

class ClientNodeTest : public ClientTest {
 protected:
  // Another incarnation on the same socket; TCP addresses stay the same, too.
  void restart() {
    nodes_.options.listen = {nodes_.node->tcp_addresses().front().substr(4)};
    nodes_.node->stop(std::chrono::milliseconds(100));
    nodes_.node.reset();
    nodes_.start();
  }
};
INSTANTIATE_TEST_SUITE_P(Paths, ClientNodeTest, kEveryPath, path_test_name);

TEST_P(ClientNodeTest, WorksAgainByItselfAfterARestart) {
  const Bytes value = make_value(1, 100'000);
  const Bytes other = make_value(2, 100'000);
  for (int round = 0; round < 5; ++round) {
    put("a", value);
    expect_value("a", value);
    // Several connections, so that each of them turns out to be dead.
    std::vector<std::future<Result<std::vector<PutResult>>>> futures;
    const ConstBytes piece = value;
    const std::vector<std::string> keys = {"b", "c", "d", "e", "f", "g"};
    std::vector<PutItem> items;
    for (const std::string& key : keys) items.push_back({key, std::span(&piece, 1)});
    for (const PutItem& item : items) futures.push_back(client_->put_future(std::span(&item, 1)));
    for (auto& future : futures) EXPECT_TRUE(future.get());
    restart();
    ASSERT_TRUE(nodes_.node);
    // Nothing survives in memory: a miss, never the bytes of before.
    const auto gone = client_->get("a");
    EXPECT_EQ(code_of(gone), Code::kNotFound) << words(gone);
    EXPECT_FALSE(client_->exists("b").value());
    put("a", other);
    expect_value("a", other);
    EXPECT_EQ(client_->info()->id, node().id());
    ASSERT_TRUE(client_->pin("a"));
    ASSERT_TRUE(client_->unpin("a"));
    ASSERT_TRUE(client_->remove("a"));
  }
}

TEST_P(ClientNodeTest, SharedBuffersOfBeforeStillCarryPuts) {
  auto buffer = client_->alloc_buffer(1 << 20);
  ASSERT_TRUE(buffer) << words(buffer);
  const Bytes value = make_value(1, buffer->bytes().size());
  std::copy(value.begin(), value.end(), buffer->bytes().begin());
  put("a", buffer->bytes());
  restart();
  ASSERT_TRUE(nodes_.node);
  put("a", buffer->bytes());
  expect_value("a", value);
}

TEST_P(ClientNodeTest, WithoutANodeErrorsAreClearAndQuick) {
  put("a", make_value(1, 1000));
  nodes_.options.listen = {node().tcp_addresses().front().substr(4)};
  nodes_.node.reset();
  const env::Nanos before = env::monotonic_now();
  const auto got = client_->get("a");
  EXPECT_EQ(code_of(got), Code::kUnavailable) << words(got);
  EXPECT_NE(words(got).find("larder node"), std::string::npos) << words(got);
  EXPECT_EQ(code_of(client_->put("b", make_value(1, 100'000))), Code::kUnavailable);
  EXPECT_EQ(code_of(client_->exists("a")), Code::kUnavailable);
  EXPECT_EQ(code_of(client_->pin("a")), Code::kUnavailable);
  EXPECT_EQ(code_of(client_->info()), Code::kUnavailable);
  EXPECT_LT(env::monotonic_now() - before, 5 * env::kSecond);
  nodes_.start();
  ASSERT_TRUE(nodes_.node);
  EXPECT_EQ(code_of(client_->get("a")), Code::kNotFound);
}

class ClientViewTest : public ClientNodeTest {};
INSTANTIATE_TEST_SUITE_P(Local, ClientViewTest, testing::Values(Path::kSharedMemory),
                         path_test_name);

TEST_P(ClientViewTest, ViewsAreInvalidAfterARestart) {
  const Bytes value = make_value(1, 50'000);
  put("a", value);
  auto view = client_->view("a");
  ASSERT_TRUE(view) << words(view);
  restart();
  ASSERT_TRUE(nodes_.node);
  EXPECT_FALSE(view->valid());
  EXPECT_TRUE(same(view->bytes(), value));  // the memory is still there, for who looks too late
  put("a", value);
  auto again = client_->view("a");
  ASSERT_TRUE(again) << words(again);
  EXPECT_TRUE(again->valid());
  EXPECT_TRUE(same(again->bytes(), value));
}

// ---- paths ----

class ClientPathTest : public testing::Test {
 protected:
  void TearDown() override { nodes_.expect_clean(); }
  NodeFixture nodes_;
};

TEST_F(ClientPathTest, AutoTakesTheShortestThatWorks) {
  nodes_.start();
  ASSERT_TRUE(nodes_.node);
  ClientOptions options;
  options.address = nodes_.node->unix_address();
  EXPECT_EQ(NodeFixture::connect(options)->path(), Path::kSharedMemory);
  options.address = nodes_.node->tcp_addresses().front();
  EXPECT_EQ(NodeFixture::connect(options)->path(), Path::kSharedMemory);
  options.path = Path::kUnixSocket;
  EXPECT_EQ(code_of(Client::connect(options)), Code::kInvalidArgument);
  options.address = nodes_.node->unix_address();
  options.path = Path::kTcp;
  EXPECT_EQ(code_of(Client::connect(options)), Code::kInvalidArgument);
}

TEST_F(ClientPathTest, ANodeMayKeepItsMemoryToItself) {
  nodes_.options.share_memory = false;
  nodes_.start();
  ASSERT_TRUE(nodes_.node);
  ClientOptions options;
  options.address = nodes_.node->unix_address();
  const auto client = NodeFixture::connect(options);
  ASSERT_TRUE(client);
  EXPECT_EQ(client->path(), Path::kUnixSocket);
  const Bytes value = make_value(1, 300'000);
  ASSERT_TRUE(client->put("a", value));
  EXPECT_TRUE(same(client->get("a")->bytes(), value));
  options.path = Path::kSharedMemory;
  EXPECT_EQ(code_of(Client::connect(options)), Code::kUnsupported);
}

TEST_F(ClientPathTest, WrongOptionsAreToldApart) {
  nodes_.start();
  ASSERT_TRUE(nodes_.node);
  ClientOptions options;
  options.address = "unix:" + nodes_.dir + "/nobody.sock";
  auto refused = Client::connect(options);
  EXPECT_EQ(code_of(refused), Code::kUnavailable);
  EXPECT_NE(words(refused).find("nobody.sock"), std::string::npos) << words(refused);
  options.address = "nonsense";
  EXPECT_EQ(code_of(Client::connect(options)), Code::kInvalidArgument);
  options.address = nodes_.node->unix_address();
  options.timeout = std::chrono::milliseconds(0);
  EXPECT_EQ(code_of(Client::connect(options)), Code::kInvalidArgument);
}

TEST_F(ClientPathTest, ConnectionsHaveALimit) {
  nodes_.options.connections_max = 2;
  nodes_.start();
  ASSERT_TRUE(nodes_.node);
  const auto first = nodes_.connect(Path::kUnixSocket);
  const auto second = nodes_.connect(Path::kTcp);
  ASSERT_TRUE(first && second);
  const auto third = Client::connect(nodes_.client_options(Path::kUnixSocket));
  EXPECT_FALSE(third);
  EXPECT_GE(nodes_.node->refused(), 1U);
  EXPECT_TRUE(first->put("a", make_value(1, 1000)));
  EXPECT_TRUE(second->get("a"));
}

// ---- tokens ----

class ClientTokenTest : public ClientPathTest {
 protected:
  std::string token_file(const std::string& name, const std::string& token) const {
    const std::string path = nodes_.dir + "/" + name;
    std::ofstream(path) << token << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    return path;
  }
};

TEST_F(ClientTokenTest, RightWrongAndMissing) {
  const std::string right = token_file("right", "correct horse battery staple 4711");
  const std::string wrong = token_file("wrong", "incorrect horse battery staple 471");
  nodes_.options.token_file = right;
  nodes_.start();
  ASSERT_TRUE(nodes_.node);
  for (const Path path : {Path::kSharedMemory, Path::kUnixSocket, Path::kTcp}) {
    ClientOptions options = nodes_.client_options(path);
    options.token_file = right;
    const auto client = NodeFixture::connect(options);
    ASSERT_TRUE(client);
    const Bytes value = make_value(1, 100'000);
    ASSERT_TRUE(client->put("a", value));
    EXPECT_TRUE(same(client->get("a")->bytes(), value));
    const std::uint64_t refused = nodes_.node->refused();
    options.token_file = wrong;
    EXPECT_EQ(code_of(Client::connect(options)), Code::kPermissionDenied);
    EXPECT_EQ(nodes_.node->refused(), refused + 1);
    options.token_file.clear();
    const auto missing = Client::connect(options);
    EXPECT_EQ(code_of(missing), Code::kPermissionDenied);
    EXPECT_NE(words(missing).find("token"), std::string::npos) << words(missing);
    options.token_file = nodes_.dir + "/absent";
    EXPECT_FALSE(Client::connect(options));
  }
}

TEST_F(ClientTokenTest, AClientWithATokenTrustsNoNodeWithout) {
  nodes_.start();
  ASSERT_TRUE(nodes_.node);
  ClientOptions options = nodes_.client_options(Path::kTcp);
  options.token_file = token_file("token", "correct horse battery staple 4711");
  EXPECT_EQ(code_of(Client::connect(options)), Code::kPermissionDenied);
}

// ---- the route cache ----

TEST(RouteCacheTest, FindsWhatWasInsertedLast) {
  RouteCache cache(64);
  Route route;
  EXPECT_FALSE(cache.find("a", 1, route));
  Route first;
  first.version = 7;
  first.offset = 4096;
  cache.insert("a", 1, first);
  ASSERT_TRUE(cache.find("a", 1, route));
  EXPECT_EQ(route.offset, 4096U);
  EXPECT_FALSE(cache.find("b", 1, route));  // the same hash, another key
  first.version = 8;
  cache.insert("a", 1, first);
  ASSERT_TRUE(cache.find("a", 1, route));
  EXPECT_EQ(route.version, 8U);
  for (std::uint64_t i = 0; i < 1000; ++i) cache.insert("k" + std::to_string(i), i << 20, first);
  EXPECT_TRUE(cache.find("k999", 999ULL << 20, route));
  EXPECT_FALSE(cache.find("k0", 0, route));  // bounded: the old ones made room
  cache.clear();
  EXPECT_FALSE(cache.find("k999", 999ULL << 20, route));
}

TEST(RouteCacheTest, MayBeOff) {
  RouteCache cache(0);
  Route route;
  route.version = 1;
  cache.insert("a", 1, route);
  EXPECT_FALSE(cache.find("a", 1, route));
  cache.clear();
}

}  // namespace
}  // namespace larder::client
