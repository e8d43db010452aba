// SPDX-License-Identifier: Apache-2.0
// A node that is told to stop, that is frozen, and that runs out of descriptors.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "base/checksum.h"
#include "larder.pb.h"
#include "node_process.h"
#include "rpc/channel.h"
#include "wire/keys.h"
#include "wire/message.h"

namespace larder::integration {
namespace {

using std::chrono::milliseconds;

env::Nanos later() {
  return env::monotonic_now() + 10 * env::kSecond;
}

// A put of one value by hand, in two halves.
class SlowPut {
 public:
  SlowPut(const ClientOptions& options, std::string_view key, std::size_t bytes) {
    rpc::ChannelOptions channel;
    channel.address = env::SocketAddress::parse(options.address).value();
    fd_ = std::move(rpc::connect_and_shake(channel, wire::Purpose::kCalls).value().fd);
    const Bytes value = make_value(1, bytes);
    pb::PutRequest request;
    wire::pack_keys(KeySpace{}, std::span(&key, 1), *request.mutable_keys());
    request.add_lengths(bytes);
    frame_ = wire::frame_with(request);
    wire::FrameHeader header;
    header.op = wire::Op::kPut;
    header.call_id = 1;
    header.payload_bytes = bytes + sizeof(std::uint64_t);
    wire::seal_frame(header, frame_);
    frame_.append(reinterpret_cast<const char*>(value.data()), value.size());
    const std::uint64_t sum = checksum64(value);
    frame_.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  }
  Result<void> first_half() { return send(0, frame_.size() / 2); }
  Result<void> second_half() { return send(frame_.size() / 2, frame_.size()); }
  // The answer's code for the one item.
  Result<Code> answer() {
    std::array<std::byte, wire::kHeaderBytes> raw{};
    LARDER_TRY(env::receive_all(fd_.get(), raw, later()));
    LARDER_ASSIGN(const wire::FrameHeader header, wire::decode_header(raw));
    std::string body(header.body_bytes, '\0');
    LARDER_TRY(env::receive_all(fd_.get(), std::as_writable_bytes(std::span(body)), later()));
    pb::PutReply reply;
    LARDER_TRY(wire::parse_body(body, wire::Op::kPut, reply));
    return static_cast<Code>(reply.codes(0));
  }

 private:
  Result<void> send(std::size_t from, std::size_t to) {
    return env::send_all(fd_.get(), std::as_bytes(std::span(frame_)).subspan(from, to - from),
                         later());
  }
  env::Fd fd_;
  std::string frame_;
};

// ---- SIGTERM ----

TEST(Terminate, FinishesWhatIsInFlight) {
  NodeProcess node;
  ASSERT_TRUE(node.start()) << node.log();
  for (const Path path : {Path::kUnixSocket, Path::kTcp}) {
    ASSERT_TRUE(node.running() || node.start()) << node.log();
    SlowPut put(node.options(path), "slow", 1 << 20);
    ASSERT_TRUE(put.first_half());
    ASSERT_TRUE(within(5 * env::kSecond,
                       [&] { return node.metric("larder_hot_reserved_bytes") == 1 << 20; }));
    node.signal(SIGTERM);
    // It takes nobody new, but waits for what it began.
    EXPECT_TRUE(within(5 * env::kSecond, [&] {
      return !Client::connect(node.options(Path::kUnixSocket)).has_value();
    }));
    EXPECT_TRUE(node.running());
    ASSERT_TRUE(put.second_half());
    const auto answer = put.answer();
    ASSERT_TRUE(answer) << words(answer);
    EXPECT_EQ(*answer, Code::kOk);
    EXPECT_EQ(node.wait_exit(5 * env::kSecond), 0) << node.log();
  }
}

TEST(Terminate, DoesNotWaitForEver) {
  NodeProcess node("node.stop_timeout: 300ms\n");
  ASSERT_TRUE(node.start()) << node.log();
  SlowPut put(node.options(Path::kUnixSocket), "slow", 1 << 20);
  ASSERT_TRUE(put.first_half());
  ASSERT_TRUE(within(5 * env::kSecond,
                     [&] { return node.metric("larder_hot_reserved_bytes") == 1 << 20; }));
  const env::Nanos before = env::monotonic_now();
  node.signal(SIGTERM);
  EXPECT_EQ(node.wait_exit(5 * env::kSecond), 0) << node.log();
  EXPECT_LT(env::monotonic_now() - before, 3 * env::kSecond);
}

TEST(Terminate, UnderLoadEveryCallEnds) {
  NodeProcess node;
  ASSERT_TRUE(node.start()) << node.log();
  std::atomic<bool> stop{false};
  std::atomic<int> hits{0};
  std::vector<std::thread> threads;
  for (const Path path : kPaths) {
    threads.emplace_back([&, path, client = std::shared_ptr<Client>(node.connect(path))] {
      for (std::uint64_t i = 0; !stop; ++i) {
        const std::uint64_t seed = i % 7;
        const Bytes value = make_value(seed, 50'000 + seed);
        const auto stored = client->put(std::to_string(seed), value);
        EXPECT_TRUE(stored || code_of(stored) == Code::kUnavailable) << words(stored);
        const auto got = client->get(std::to_string(seed));
        if (got) {
          EXPECT_TRUE(same(got->bytes(), value));
          ++hits;
        } else {
          EXPECT_EQ(code_of(got), Code::kUnavailable) << words(got);
        }
      }
    });
  }
  EXPECT_TRUE(within(10 * env::kSecond, [&] { return hits > 50; }));
  node.signal(SIGTERM);
  EXPECT_EQ(node.wait_exit(12 * env::kSecond), 0) << node.log();
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// ---- a frozen node ----

constexpr milliseconds kShort{300};
constexpr env::Nanos kLate = 700 * env::kMilli;  // what a loaded machine may add

class FrozenTest : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(node_.start()) << node_.log();
    client_ = node_.connect(GetParam(), kShort);
    ASSERT_TRUE(client_);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(client_->put("k" + std::to_string(i), make_value(1, 20'000)));
    }
  }
  void TearDown() override { node_.thaw(); }

  void expect_deadline(const char* what, const std::function<Code()>& call) {
    const env::Nanos before = env::monotonic_now();
    const Code code = call();
    const env::Nanos took = env::monotonic_now() - before;
    EXPECT_EQ(code, Code::kDeadlineExceeded) << what;
    EXPECT_LT(took, kShort.count() * env::kMilli + kLate) << what << " took " << took;
    EXPECT_GT(took, kShort.count() * env::kMilli / 2) << what << " took " << took;
  }
  void expect_works() {
    CallOptions patient;
    patient.timeout = milliseconds(10'000);
    PutOptions patient_put;
    patient_put.timeout = patient.timeout;
    const Bytes value = make_value(77, 400'000);
    const auto stored = client_->put("after", value, patient_put);
    ASSERT_TRUE(stored) << words(stored);
    const auto got = client_->get("after", patient);
    ASSERT_TRUE(got) << words(got);
    EXPECT_TRUE(same(got->bytes(), value));
    const auto present = client_->exists("after", patient);
    EXPECT_TRUE(present && *present) << words(present);
  }

  NodeProcess node_;
  std::unique_ptr<Client> client_;
};
INSTANTIATE_TEST_SUITE_P(Paths, FrozenTest, testing::ValuesIn(kPaths), path_test_name);

TEST_P(FrozenTest, EveryCallEndsAtItsDeadline) {
  const Bytes small = make_value(2, 100);
  const Bytes large = make_value(3, 4 << 20);
  const std::vector<std::string_view> keys = {"k0", "x", "k1"};
  node_.freeze();
  expect_deadline("info", [&] { return code_of(client_->info()); });
  expect_deadline("get", [&] { return code_of(client_->get("k1")); });
  expect_deadline("exists", [&] { return code_of(client_->exists(keys)); });
  expect_deadline("match", [&] { return code_of(client_->match_prefix(keys)); });
  expect_deadline("put", [&] { return code_of(client_->put("small", small)); });
  expect_deadline("large put", [&] { return code_of(client_->put("large", large)); });
  expect_deadline("stat", [&] { return code_of(client_->stat(keys)); });
  expect_deadline("remove", [&] { return code_of(client_->remove("k0")); });
  expect_deadline("list", [&] { return code_of(client_->list("")); });
  expect_deadline("pin", [&] { return code_of(client_->pin("k1")); });
  node_.thaw();
  expect_works();
}

TEST_P(FrozenTest, ManyThreadsEachWithItsOwnDeadline) {
  node_.freeze();
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([this, i] {
      const Bytes value = make_value(3, i % 2 == 0 ? 2 << 20 : 100);
      PutOptions options;
      options.timeout = kShort * (1 + i % 3);
      const env::Nanos before = env::monotonic_now();
      const auto stored = client_->put("t" + std::to_string(i), value, options);
      const env::Nanos took = env::monotonic_now() - before;
      // A neighbour that ran out of time in the middle of sending ends the connection for all.
      EXPECT_TRUE(code_of(stored) == Code::kDeadlineExceeded ||
                  code_of(stored) == Code::kUnavailable)
          << words(stored);
      EXPECT_LT(took, options.timeout.count() * env::kMilli + kLate) << i;
    });
  }
  for (std::thread& thread : threads) thread.join();
  node_.thaw();
  expect_works();
}

TEST_P(FrozenTest, AShortCallDoesNotWaitForALongOne) {
  ClientOptions options = node_.options(GetParam());
  options.connections_max = 1;
  client_ = NodeProcess::connect(options);
  ASSERT_TRUE(client_);
  node_.freeze();
  std::thread patient([this] {
    const Bytes value = make_value(3, 8 << 20);  // more than sockets and windows hold
    PutOptions long_put;
    long_put.timeout = kShort * 10;
    EXPECT_FALSE(client_->put("long", value, long_put));
  });
  env::system_clock().sleep(100 * env::kMilli);  // so that it is sending by now
  CallOptions quick;
  quick.timeout = kShort;
  expect_deadline("exists", [&] { return code_of(client_->exists("k2", quick)); });
  patient.join();
  node_.thaw();
  expect_works();
}

TEST_P(FrozenTest, AsynchronousCallsToo) {
  const Bytes value = make_value(3, 30'000);
  const ConstBytes piece = value;
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) keys.push_back("a" + std::to_string(i));
  std::vector<PutItem> items;
  for (const std::string& key : keys) items.push_back({key, std::span(&piece, 1)});
  node_.freeze();
  const env::Nanos before = env::monotonic_now();
  std::vector<std::future<Result<std::vector<PutResult>>>> futures;
  for (const PutItem& item : items) futures.push_back(client_->put_future(std::span(&item, 1)));
  for (auto& future : futures) {
    const auto result = future.get();
    EXPECT_TRUE(code_of(result) == Code::kDeadlineExceeded || code_of(result) == Code::kUnavailable)
        << words(result);
  }
  // Those that needed a connection of their own waited for it one after the other.
  EXPECT_LT(env::monotonic_now() - before, 10 * kShort.count() * env::kMilli + kLate);
  node_.thaw();
  expect_works();
}

TEST_P(FrozenTest, ConnectingEndsAtItsTimeout) {
  node_.freeze();
  ClientOptions options = node_.options(GetParam());
  options.connect_timeout = kShort;
  expect_deadline("connect", [&] { return code_of(Client::connect(options)); });
}

// ---- no descriptors left ----

TEST(Descriptors, AFullTableRefusesTheNewAndServesTheOld) {
  NodeProcess node;
  ASSERT_TRUE(node.start()) << node.log();
  std::vector<std::unique_ptr<Client>> old;
  for (const Path path : kPaths) old.push_back(node.connect(path));
  const auto open_now = std::distance(
      std::filesystem::directory_iterator("/proc/" + std::to_string(node.pid()) + "/fd"),
      std::filesystem::directory_iterator());
  rlimit before{};
  ASSERT_EQ(::prlimit(node.pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  rlimit full = before;
  full.rlim_cur = static_cast<rlim_t>(open_now) + 2;
  ASSERT_EQ(::prlimit(node.pid(), RLIMIT_NOFILE, &full, nullptr), 0);
  std::vector<std::unique_ptr<Client>> more;
  std::optional<Error> refused;
  for (int i = 0; i < 10 && !refused; ++i) {
    auto client = Client::connect(node.options(i % 2 == 0 ? Path::kUnixSocket : Path::kTcp));
    if (client) {
      more.push_back(std::move(*client));
    } else {
      refused = client.error();
    }
  }
  ASSERT_TRUE(refused);
  EXPECT_TRUE(is_retryable(refused->code())) << refused->to_string();
  EXPECT_NE(refused->message().find("node"), std::string::npos) << refused->to_string();
  std::cerr << "refused with: " << refused->to_string() << "\n";
  for (const auto& client : old) {
    // Also what would like a window or another connection of its own.
    const Bytes value = make_value(static_cast<std::uint64_t>(client->path()), 300'000);
    const auto stored = client->put("k", value);
    ASSERT_TRUE(stored) << words(stored) << "\n" << node.log();
    const auto got = client->get("k");
    ASSERT_TRUE(got) << words(got);
    EXPECT_TRUE(same(got->bytes(), value));
  }
  EXPECT_TRUE(node.running());
  ASSERT_EQ(::prlimit(node.pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_TRUE(node.connect(Path::kSharedMemory));
  EXPECT_GE(node.metric("larder_refused_limit_total"), 1);
}

}  // namespace
}  // namespace larder::integration
