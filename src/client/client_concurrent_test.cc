// SPDX-License-Identifier: Apache-2.0
// Many threads, one client: readers see one value or another, never a mix.
#include <algorithm>
#include <atomic>

#include "client/client_testing.h"

namespace larder::client {
namespace {

class ClientConcurrentTest : public ClientTest {
 protected:
  ClientConcurrentTest() {
    nodes_.options.hot_high_watermark = 0.9;
    nodes_.options.hot_low_watermark = 0.8;
  }
  // Runs `work(thread)` on so many threads until all are done.
  static void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  }
};
INSTANTIATE_TEST_SUITE_P(Paths, ClientConcurrentTest, kEveryPath, path_test_name);

TEST_P(ClientConcurrentTest, ReadersSeeOldOrNewNeverAMix) {
  constexpr int kRounds = 150;
  const Bytes values[] = {make_value(1, 150'000), make_value(2, 150'000), make_value(3, 60'000)};
  put("k", values[0]);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> reads{0};
  on_threads(4, [&](std::size_t thread) {
    if (thread == 0) {
      for (int i = 0; i < kRounds; ++i) {
        const auto stored = client_->put("k", values[i % 3]);
        EXPECT_TRUE(stored) << words(stored);
      }
      EXPECT_TRUE(soon([&] { return reads > 50; }));
      stop = true;
      return;
    }
    Bytes room(150'000);
    while (!stop) {
      const auto got = client_->get_into("k", room);
      ++reads;
      ASSERT_TRUE(got) << words(got);
      const ConstBytes seen = std::span(room).first(*got);
      ASSERT_TRUE(std::any_of(std::begin(values), std::end(values),
                              [&](const Bytes& value) { return same(seen, value); }));
    }
  });
}

TEST_P(ClientConcurrentTest, EvictionAndRemovalNeverLeakOtherBytes) {
  constexpr std::size_t kKeys = 60;
  constexpr int kRounds = 150;
  const auto size_of = [](std::size_t key) { return 100'000 + key * 7001; };
  on_threads(4, [&](std::size_t thread) {
    std::uint64_t state = thread + 1;
    for (int i = 0; i < kRounds; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const std::size_t key = (state >> 33) % kKeys;
      const std::string name = "k" + std::to_string(key);
      if (state >> 62 == 0) {
        const auto removed = client_->remove(name);
        EXPECT_TRUE(removed || code_of(removed) == Code::kNotFound) << words(removed);
        continue;
      }
      const auto got = client_->get(name);
      if (got) {
        ASSERT_TRUE(same(got->bytes(), make_value(key, size_of(key)))) << name;
        continue;
      }
      ASSERT_EQ(code_of(got), Code::kNotFound) << words(got);
      const auto stored = client_->put(name, make_value(key, size_of(key)));
      const Code code = code_of(stored);
      ASSERT_TRUE(code == Code::kOk || code == Code::kBackpressure || code == Code::kConflict)
          << words(stored);
    }
  });
  EXPECT_EQ(node().reserved_bytes(), 0U);
}

TEST_P(ClientConcurrentTest, AsynchronousCallsFromSeveralThreads) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kCalls = 60;
  std::atomic<std::size_t> ends{0};
  std::vector<Bytes> values;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kThreads * kCalls; ++i) {
    values.push_back(make_value(i, 1 + (i * 7919) % 20'000));
    keys.push_back("async-" + std::to_string(i));
  }
  std::vector<ConstBytes> pieces(values.begin(), values.end());
  std::vector<PutItem> items;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    items.push_back({keys[i], std::span(&pieces[i], 1)});
  }
  on_threads(kThreads, [&](std::size_t thread) {
    for (std::size_t i = thread * kCalls; i < (thread + 1) * kCalls; ++i) {
      client_->put_async(std::span(&items[i], 1), {}, [&](auto result) {
        EXPECT_TRUE(result && (*result)[0].code == Code::kOk) << words(result);
        ++ends;
      });
      EXPECT_TRUE(i % 7 != 0 || client_->exists(keys[i]));
    }
  });
  EXPECT_TRUE(soon([&] { return ends == kThreads * kCalls; }));
  for (std::size_t i = 0; i < values.size(); ++i) expect_value(keys[i], values[i]);
}

TEST_P(ClientConcurrentTest, PinsFromManyThreads) {
  constexpr std::size_t kThreads = 4;
  for (std::size_t i = 0; i < 8; ++i) put("p" + std::to_string(i), make_value(i, 5000));
  on_threads(kThreads, [&](std::size_t thread) {
    for (std::size_t i = 0; i < 60; ++i) {
      const std::string key = "p" + std::to_string((i + thread) % 8);
      EXPECT_TRUE(client_->pin(key));
      if (GetParam() == Path::kSharedMemory) {
        const auto view = client_->view(key);
        EXPECT_TRUE(view) << words(view);
        EXPECT_TRUE(view && same(view->bytes(), make_value((i + thread) % 8, 5000)));
      }
      EXPECT_TRUE(client_->unpin(key));
    }
  });
  EXPECT_EQ(node().pins(), 0U);
}

// Restarts under load: each call ends with the right bytes, a miss or a clear error.
TEST_P(ClientConcurrentTest, RestartsUnderLoad) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> good{0};
  on_threads(4, [&](std::size_t thread) {
    if (thread == 0) {
      nodes_.options.listen = {nodes_.node->tcp_addresses().front().substr(4)};
      for (int round = 0; round < 5; ++round) {
        const std::uint64_t before = good;
        EXPECT_TRUE(soon([&] { return good > before + 20; }));
        nodes_.node.reset();
        nodes_.start();
      }
      const std::uint64_t before = good;
      EXPECT_TRUE(soon([&] { return good > before + 20; }));
      stop = true;
      return;
    }
    for (std::uint64_t i = 0; !stop; ++i) {
      const std::uint64_t seed = thread * 100 + i % 10;
      const std::string key = std::to_string(seed);
      const Bytes value = make_value(seed, 1000 + seed * 97);
      const auto stored = client_->put(key, value);
      ASSERT_TRUE(stored || code_of(stored) == Code::kUnavailable) << words(stored);
      const auto got = client_->get(key);
      if (got) {
        ASSERT_TRUE(same(got->bytes(), value)) << key;
        ++good;
      } else {
        const Code code = code_of(got);
        ASSERT_TRUE(code == Code::kUnavailable || code == Code::kNotFound) << words(got);
      }
    }
  });
}

}  // namespace
}  // namespace larder::client
