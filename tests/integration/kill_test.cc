// SPDX-License-Identifier: Apache-2.0
// A node is killed in the middle of puts and gets and started again, a hundred times: no call
// hangs, no byte is wrong, and the clients work again by themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <mutex>
#include <thread>

#include "node_process.h"

namespace larder::integration {
namespace {

constexpr int kKills = 100;
constexpr std::chrono::milliseconds kTimeout{2000};
constexpr env::Nanos kGrace = env::kSecond;
constexpr std::uint64_t kSharedKeys = 12;
constexpr std::uint64_t kOwnKeys = 6;

// Seeds say which key and generation a value is of: key << 32 | generation.
std::size_t size_of(std::uint64_t seed) {
  constexpr std::array<std::size_t, 5> kSizes = {100, 4096, 20'000, 70'001, 300'000};
  return kSizes[(seed * 0x9e3779b97f4a7c15ULL >> 40) % kSizes.size()];
}

class Worker {
 public:
  Worker(std::unique_ptr<Client> client, std::uint64_t number)
      : client_(std::move(client)), number_(number), random_(number + 1), room_(300'000) {}

  void run(const std::atomic<bool>& stop) {
    while (!stop && complaint().empty()) {
      const std::uint64_t dice = next();
      if (dice % 2 == 0) {
        own(dice / 2 % kOwnKeys, dice >> 8 & 1);
      } else {
        shared(dice / 2 % kSharedKeys, dice >> 8 & 1);
      }
    }
  }
  std::uint64_t hits() const { return hits_.load(); }
  std::uint64_t failures() const { return failures_.load(); }
  std::string complaint() {
    const std::lock_guard lock(mutex_);
    return complaint_;
  }

 private:
  struct Own {
    std::uint64_t stored = 0;     // the generation whose put last succeeded
    std::uint64_t attempted = 0;  // the last one tried
    std::uint64_t late = ~0ULL;   // one that timed out: it may still arrive after later ones
  };

  std::uint64_t next() {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return random_ >> 24;
  }
  void complain(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (complaint_.empty()) complaint_ = what;
  }
  // Keys that nobody else writes: what comes back is never older than what was acknowledged.
  void own(std::uint64_t index, bool put_first) {
    Own& mine = own_[index];
    const std::uint64_t key = 1000 * (number_ + 1) + index;
    if (put_first) {
      ++mine.attempted;
      const Code code = put(key, mine.attempted);
      if (code == Code::kOk) mine.stored = mine.attempted;
      if (code == Code::kDeadlineExceeded) mine.late = std::min(mine.late, mine.attempted);
      return;
    }
    const std::optional<std::uint64_t> generation = get(key);
    const std::uint64_t oldest = std::min(mine.stored, mine.late);
    if (generation && (*generation < oldest || *generation > mine.attempted)) {
      complain("generation " + std::to_string(*generation) + " came back, stored was " +
               std::to_string(mine.stored) + ", tried " + std::to_string(mine.attempted));
    }
  }
  void shared(std::uint64_t index, bool put_first) {
    if (put_first) {
      put(index, next() & 0xffffffff);
    } else {
      get(index);
    }
  }
  Code put(std::uint64_t key, std::uint64_t generation) {
    const std::uint64_t seed = key << 32 | generation;
    const Bytes value = make_value(seed, size_of(seed));
    const env::Nanos begin = env::monotonic_now();
    const auto stored = client_->put(std::to_string(key), value);
    judge("put", begin, code_of(stored), words(stored));
    return code_of(stored);
  }
  std::optional<std::uint64_t> get(std::uint64_t key) {
    const env::Nanos begin = env::monotonic_now();
    const auto got = client_->get_into(std::to_string(key), room_);
    if (!judge("get", begin, code_of(got), words(got))) return std::nullopt;
    std::uint64_t seed = 0;
    std::memcpy(&seed, room_.data(), sizeof(seed));
    if (seed >> 32 != key || *got != size_of(seed) ||
        !same(std::span(room_).first(*got), make_value(seed, *got))) {
      complain("wrong bytes under key " + std::to_string(key));
      return std::nullopt;
    }
    ++hits_;
    return seed & 0xffffffff;
  }
  bool judge(const std::string& what, env::Nanos begin, Code code, const std::string& text) {
    const env::Nanos took = env::monotonic_now() - begin;
    if (took > kTimeout.count() * env::kMilli + kGrace) {
      complain(what + " took " + std::to_string(took / env::kMilli) + " ms: " + text);
    }
    if (code == Code::kOk) return true;
    const bool clear = code == Code::kNotFound || code == Code::kUnavailable ||
                       code == Code::kDeadlineExceeded || code == Code::kBackpressure ||
                       code == Code::kConflict;
    if (!clear) complain(what + ": " + text);
    if (code != Code::kNotFound) ++failures_;
    return false;
  }

  std::unique_ptr<Client> client_;
  const std::uint64_t number_;
  std::uint64_t random_;
  Bytes room_;
  std::array<Own, kOwnKeys> own_{};
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::mutex mutex_;
  std::string complaint_;
};

TEST(Kill, TheNodeDiesAHundredTimes) {
  NodeProcess node;
  ASSERT_TRUE(node.start()) << node.log();
  std::vector<std::unique_ptr<Worker>> workers;
  for (const Path path : kPaths) {
    auto client = node.connect(path, kTimeout);
    ASSERT_TRUE(client);
    ASSERT_EQ(client->path(), path);
    workers.push_back(std::make_unique<Worker>(std::move(client), workers.size()));
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (auto& worker : workers) threads.emplace_back([&] { worker->run(stop); });
  const auto content = [&] {
    return std::all_of(workers.begin(), workers.end(),
                       [](const auto& worker) { return worker->complaint().empty(); });
  };
  // Every client gets right bytes from this incarnation.
  const auto all_work = [&] {
    std::vector<std::uint64_t> before;
    for (const auto& worker : workers) before.push_back(worker->hits());
    return within(20 * env::kSecond, [&] {
      for (std::size_t i = 0; i < workers.size(); ++i) {
        if (workers[i]->hits() < before[i] + 2 && workers[i]->complaint().empty()) return false;
      }
      return true;
    });
  };
  std::uint64_t random = 4711;
  int kills = 0;
  for (; kills < kKills && content(); ++kills) {
    if (!all_work()) {
      ADD_FAILURE() << "a client does not work again after " << kills << " kills\n" << node.log();
      break;
    }
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    env::system_clock().sleep(static_cast<env::Nanos>(random >> 33) % (10 * env::kMilli));
    node.kill();
    if (!node.start()) {
      ADD_FAILURE() << "the node does not start again: " << node.log();
      break;
    }
  }
  EXPECT_TRUE(all_work());
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kills, kKills);
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->complaint(), "");
    EXPECT_GT(worker->hits(), 2U * kKills);
    std::cerr << "hits " << worker->hits() << ", calls without an answer " << worker->failures()
              << "\n";
  }
  workers.clear();
  auto last = node.connect(Path::kUnixSocket);
  ASSERT_TRUE(last);
  EXPECT_TRUE(within(5 * env::kSecond, [&] { return last->info()->connections == 1; }));
  EXPECT_EQ(node.metric("larder_hot_reserved_bytes"), 0);
  EXPECT_EQ(node.metric("larder_pins"), 0);
}

}  // namespace
}  // namespace larder::integration
