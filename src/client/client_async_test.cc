// SPDX-License-Identifier: Apache-2.0
// The asynchronous forms: every callback runs exactly once, whatever happens.
#include <array>
#include <atomic>
#include <future>

#include "client/client_testing.h"

namespace larder::client {
namespace {

class ClientAsyncTest : public ClientTest {};
INSTANTIATE_TEST_SUITE_P(Paths, ClientAsyncTest, kEveryPath, path_test_name);

// Keys, values and places of a run of calls, alive until the last of them ended.
struct Load {
  explicit Load(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      keys.push_back("load-" + std::to_string(i));
      values.push_back(make_value(i, 1 + (i * 7919) % 60'000));
      rooms.emplace_back(60'001);
    }
    for (std::size_t i = 0; i < count; ++i) {
      pieces.emplace_back(values[i]);
      places.emplace_back(rooms[i]);
      names.emplace_back(keys[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      puts.push_back({names[i], std::span(&pieces[i], 1)});
      gets.push_back({names[i], std::span(&places[i], 1)});
    }
  }
  std::vector<std::string> keys;
  std::vector<std::string_view> names;
  std::vector<Bytes> values;
  std::vector<Bytes> rooms;
  std::vector<ConstBytes> pieces;
  std::vector<MutableBytes> places;
  std::vector<PutItem> puts;
  std::vector<GetItem> gets;
};

TEST_P(ClientAsyncTest, ManyInFlightEachEndsOnce) {
  constexpr std::size_t kCalls = 100;
  Load load(kCalls);
  std::array<std::atomic<int>, kCalls> ends{};
  std::atomic<std::size_t> good{0};
  for (std::size_t i = 0; i < kCalls; ++i) {
    client_->put_async(std::span(&load.puts[i], 1), {}, [&, i](auto result) {
      if (result && (*result)[0].code == Code::kOk) ++good;
      ++ends[i];
    });
  }
  EXPECT_TRUE(soon([&] { return good == kCalls; }));
  for (auto& count : ends) EXPECT_EQ(count.exchange(0), 1);
  good = 0;
  for (std::size_t i = 0; i < kCalls; ++i) {
    client_->get_into_async(std::span(&load.gets[i], 1), {}, [&, i](auto result) {
      if (result && (*result)[0].code == Code::kOk &&
          same(std::span(load.rooms[i]).first((*result)[0].size), load.values[i])) {
        ++good;
      }
      ++ends[i];
    });
  }
  EXPECT_TRUE(soon([&] { return good == kCalls; }));
  for (auto& count : ends) EXPECT_EQ(count, 1);
}

TEST_P(ClientAsyncTest, EveryOperationHasItsForm) {
  Load load(4);
  const auto stored = client_->put_future(load.puts).get();
  ASSERT_TRUE(stored) << words(stored);
  const auto got = client_->get_into_future(load.gets).get();
  ASSERT_TRUE(got) << words(got);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*got)[i].size, load.values[i].size());
    EXPECT_TRUE(same(std::span(load.rooms[i]).first((*got)[i].size), load.values[i]));
  }
  std::promise<Result<std::vector<bool>>> present;
  client_->exists_async(load.names, {}, [&](auto result) { present.set_value(std::move(result)); });
  EXPECT_EQ(present.get_future().get().value(), std::vector<bool>(4, true));
  std::promise<Result<PrefixMatch>> match;
  client_->match_prefix_async(load.names, {}, [&](auto r) { match.set_value(std::move(r)); });
  EXPECT_EQ(match.get_future().get().value().keys, 4U);
  std::promise<Result<std::vector<StatResult>>> stats;
  client_->stat_async(load.names, {}, [&](auto result) { stats.set_value(std::move(result)); });
  EXPECT_EQ(stats.get_future().get().value()[3].info.size, load.values[3].size());
  std::promise<Result<std::vector<RemoveResult>>> removed;
  client_->remove_async(load.names, {}, [&](auto result) { removed.set_value(std::move(result)); });
  EXPECT_EQ(removed.get_future().get().value()[0].code, Code::kOk);
  EXPECT_EQ(node().objects(), 0U);
}

TEST_P(ClientAsyncTest, WhatCannotWorkAlsoEndsOnce) {
  int ends = 0;
  const std::vector<std::string_view> many(kBatchItemsMax + 1, "k");
  client_->exists_async(many, {}, [&](auto result) {
    EXPECT_EQ(code_of(result), Code::kInvalidArgument);
    ++ends;
  });
  client_->exists_async({}, {}, [&](auto result) {
    EXPECT_TRUE(result && result->empty());
    ++ends;
  });
  const PutItem empty{"k", {}};
  client_->put_async(std::span(&empty, 1), {}, [&](auto result) {
    EXPECT_EQ((*result)[0].code, Code::kInvalidArgument);
    ++ends;
  });
  EXPECT_EQ(ends, 3);  // nothing had to be asked: they ran in place
}

TEST_P(ClientAsyncTest, CallsMayStartFromCallbacks) {
  Load load(30);
  std::atomic<std::size_t> done{0};
  std::function<void(std::size_t)> next = [&](std::size_t i) {
    client_->put_async(std::span(&load.puts[i], 1), {}, [&, i](auto result) {
      EXPECT_TRUE(result) << words(result);
      if (i + 1 < load.puts.size()) next(i + 1);
      ++done;
    });
  };
  next(0);
  EXPECT_TRUE(soon([&] { return done == load.puts.size(); }));
  EXPECT_EQ(node().objects(), load.puts.size());
}

// The result of each is right or an error; what matters is that each ends, and that no buffer is
// touched after that (the address sanitizer looks).
TEST_P(ClientAsyncTest, ClosingEndsTheCallsInFlight) {
  for (int round = 0; round < 20; ++round) {
    constexpr std::size_t kCalls = 40;
    auto load = std::make_unique<Load>(kCalls);
    std::atomic<std::size_t> ends{0};
    auto client = nodes_.connect(GetParam());
    ASSERT_TRUE(client);
    for (std::size_t i = 0; i < kCalls; ++i) {
      if (i % 2 == 0) {
        client->put_async(std::span(&load->puts[i], 1), {}, [&](auto) { ++ends; });
      } else {
        client->get_into_async(std::span(&load->gets[i - 1], 1), {}, [&](auto) { ++ends; });
      }
    }
    client.reset();
    EXPECT_EQ(ends, kCalls);
    load.reset();
  }
}

TEST_P(ClientAsyncTest, StoppingTheNodeEndsTheCallsInFlight) {
  constexpr std::size_t kCalls = 60;
  Load load(kCalls);
  std::atomic<std::size_t> ends{0};
  for (std::size_t i = 0; i < kCalls; ++i) {
    client_->put_async(std::span(&load.puts[i], 1), {}, [&](auto result) {
      const Code code = code_of(result);
      EXPECT_TRUE(code == Code::kOk || code == Code::kUnavailable) << words(result);
      ++ends;
    });
    if (i == kCalls / 2) nodes_.node->stop(std::chrono::seconds(5));
  }
  EXPECT_TRUE(soon([&] { return ends == kCalls; }));
  EXPECT_EQ(node().reserved_bytes(), 0U);
}

}  // namespace
}  // namespace larder::client
