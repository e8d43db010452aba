// SPDX-License-Identifier: Apache-2.0
// A node with a disk is killed in the middle of puts, gets and removes and started again on the
// same directory, fifty times. What was removed stays away, what was replaced does not come back,
// and what a client saw on disk is there after each kill.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include "node_process.h"

namespace larder::integration {
namespace {

constexpr int kKills = 50;
constexpr std::chrono::milliseconds kTimeout{5000};
constexpr std::uint64_t kKeys = 48;
constexpr std::size_t kBytesMax = 300'000;

// Seeds say which key and generation a value is of: key << 32 | generation.
std::size_t size_of(std::uint64_t seed) {
  constexpr std::array<std::size_t, 5> kSizes = {100, 4096, 70'001, 131'072, kBytesMax};
  return kSizes[(seed * 0x9e3779b97f4a7c15ULL >> 40) % kSizes.size()];
}

// Works on keys that nobody else touches, and remembers what it was told of them.
class Worker {
 public:
  Worker(std::unique_ptr<Client> client, std::uint64_t number)
      : client_(std::move(client)), number_(number), random_(number + 1), room_(kBytesMax) {}

  void run(const std::atomic<bool>& stop) {
    while (!stop && complaint().empty()) {
      const std::uint64_t dice = next();
      const std::uint64_t key = dice / 16 % kKeys;
      if (dice % 16 < 6) {
        put(key);
      } else if (dice % 16 < 14) {
        get(key);
      } else {
        remove(key);
      }
    }
  }
  std::uint64_t hits() const { return hits_.load(); }
  std::string complaint() {
    const std::lock_guard lock(mutex_);
    return complaint_;
  }

 private:
  struct Key {
    std::uint64_t oldest = 0;     // older generations are gone for good
    std::uint64_t attempted = 0;  // the last one tried
  };
  std::uint64_t next() {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return random_ >> 24;
  }
  std::string name(std::uint64_t key) const {
    return std::to_string(number_) + "/" + std::to_string(key);
  }
  std::uint64_t seed(std::uint64_t key, std::uint64_t generation) const {
    return (1000 * (number_ + 1) + key) << 32U | generation;
  }
  void complain(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (complaint_.empty()) complaint_ = what;
  }
  void judge(const std::string& what, Code code, const std::string& text) {
    const bool clear = code == Code::kOk || code == Code::kNotFound || code == Code::kUnavailable ||
                       code == Code::kDeadlineExceeded || code == Code::kBackpressure ||
                       code == Code::kConflict;
    if (!clear) complain(what + ": " + text);
  }
  void put(std::uint64_t key) {
    Key& mine = keys_[key];
    const std::uint64_t generation = ++mine.attempted;
    const std::uint64_t of = seed(key, generation);
    const auto stored = client_->put(name(key), make_value(of, size_of(of)));
    judge("put", code_of(stored), words(stored));
    if (stored) mine.oldest = generation;
  }
  void get(std::uint64_t key) {
    Key& mine = keys_[key];
    const auto got = client_->get_into(name(key), room_);
    judge("get", code_of(got), words(got));
    if (!got) return;
    std::uint64_t of = 0;
    std::memcpy(&of, room_.data(), sizeof(of));
    const std::uint64_t generation = of & 0xffffffff;
    if (of != seed(key, generation) || *got != size_of(of) ||
        !same(std::span(room_).first(*got), make_value(of, *got))) {
      return complain("wrong bytes under key " + name(key));
    }
    if (generation < mine.oldest || generation > mine.attempted) {
      return complain("generation " + std::to_string(generation) + " of key " + name(key) +
                      " came back; gone are those below " + std::to_string(mine.oldest) +
                      ", tried were those up to " + std::to_string(mine.attempted));
    }
    ++hits_;
  }
  void remove(std::uint64_t key) {
    Key& mine = keys_[key];
    const auto removed = client_->remove(name(key));
    judge("remove", code_of(removed), words(removed));
    if (removed) mine.oldest = mine.attempted + 1;
  }

  std::unique_ptr<Client> client_;
  const std::uint64_t number_;
  std::uint64_t random_;
  Bytes room_;
  std::map<std::uint64_t, Key> keys_;
  std::atomic<std::uint64_t> hits_{0};
  std::mutex mutex_;
  std::string complaint_;
};

// Values that nobody changes, seen on disk before the first kill: there after each.
class Witness {
 public:
  explicit Witness(const NodeProcess& node) : client_(node.connect(Path::kUnixSocket, kTimeout)) {}

  void store() {
    for (std::uint64_t i = 0; i < kValues; ++i) {
      ASSERT_TRUE(client_->put(name(i), make_value(i, 200'000)));
    }
    ASSERT_TRUE(within(30 * env::kSecond, [&] {
      for (std::uint64_t i = 0; i < kValues; ++i) {
        const std::string key = name(i);
        const std::string_view view = key;
        const auto stats = client_->stat(std::span(&view, 1));
        if (!stats || (*stats)[0].code != Code::kOk || (*stats)[0].info.tier == Tier::kHot) {
          return false;
        }
      }
      return true;
    }));
  }
  void check() {
    for (std::uint64_t i = 0; i < kValues; ++i) {
      const auto value = client_->get(name(i));
      ASSERT_TRUE(value) << name(i) << ": " << value.error().to_string();
      ASSERT_TRUE(same(value->bytes(), make_value(i, 200'000))) << name(i);
    }
  }

 private:
  static constexpr std::uint64_t kValues = 40;
  static std::string name(std::uint64_t i) { return "witness/" + std::to_string(i); }
  std::unique_ptr<Client> client_;
};

TEST(DiskKill, TheNodeDiesFiftyTimes) {
  const Directory disk;
  NodeProcess node("cold.disks: [\"" + disk.path() + "/d:256MiB\"]\n");
  ASSERT_TRUE(node.start()) << node.log();
  Witness witness(node);
  witness.store();
  std::vector<std::unique_ptr<Worker>> workers;
  for (const Path path : kPaths) {
    auto client = node.connect(path, kTimeout);
    ASSERT_TRUE(client);
    workers.push_back(std::make_unique<Worker>(std::move(client), workers.size()));
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (auto& worker : workers) threads.emplace_back([&] { worker->run(stop); });
  const auto content = [&] {
    return std::all_of(workers.begin(), workers.end(),
                       [](const auto& worker) { return worker->complaint().empty(); });
  };
  std::uint64_t random = 4711;
  int kills = 0;
  for (; kills < kKills && content() && !testing::Test::HasFailure(); ++kills) {
    std::vector<std::uint64_t> before;
    for (const auto& worker : workers) before.push_back(worker->hits());
    EXPECT_TRUE(within(30 * env::kSecond,
                       [&] {
                         for (std::size_t i = 0; i < workers.size(); ++i) {
                           if (workers[i]->hits() < before[i] + 5 &&
                               workers[i]->complaint().empty())
                             return false;
                         }
                         return true;
                       }))
        << "a client does not work again after " << kills << " kills\n"
        << node.log();
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    env::system_clock().sleep(static_cast<env::Nanos>(random >> 33) % (50 * env::kMilli));
    node.kill();
    ASSERT_TRUE(node.start()) << node.log();
    ASSERT_TRUE(
        within(30 * env::kSecond, [&] { return node.metric("larder_cold_scanning") == 0; }));
    witness.check();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kills, kKills);
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->complaint(), "");
    std::cerr << "hits " << worker->hits() << "\n";
  }
  EXPECT_EQ(node.metric("larder_hot_reserved_bytes"), 0);
  EXPECT_EQ(node.metric("larder_disk_corrupt_total{disk=\"" + disk.path() + "/d\"}"), 0);
}

}  // namespace
}  // namespace larder::integration
