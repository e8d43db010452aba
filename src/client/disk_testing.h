// SPDX-License-Identifier: Apache-2.0
// For tests of clients whose node has a disk.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "client/client_testing.h"

namespace larder::client {

inline constexpr std::size_t kValue = 200'000;
inline constexpr std::uint64_t kMore = 200;  // values: more than twice what DRAM holds
inline constexpr std::uint64_t kFirst = 20;
inline constexpr std::uint64_t kFillers = 1000;  // the first of those

// A node with little DRAM and a disk, and a client of it.
class DiskBed {
 public:
  explicit DiskBed(Path path) : path_(path) {}
  void start(const std::string& promotion = "on_hit") {
    start_on(nodes_.dir + "/disk:256MiB", promotion);
  }
  void start_on(const std::string& disk, const std::string& promotion = "on_hit") {
    nodes_.options.cold.disks = {disk};
    nodes_.options.cold.promotion = promotion;
    nodes_.start();
    ASSERT_TRUE(nodes_.node);
    client_ = nodes_.connect(path_);
    ASSERT_TRUE(client_);
  }
  void end() {
    client_.reset();
    nodes_.expect_clean();
  }
  static std::string key(std::uint64_t i) { return "key " + std::to_string(i); }
  void put_many(std::uint64_t from, std::uint64_t to) {
    for (; from < to; from += 20) {
      std::vector<std::string> names;
      std::vector<Bytes> values;
      std::vector<ConstBytes> pieces;
      for (std::uint64_t i = from; i < std::min(to, from + 20); ++i) {
        names.push_back(key(i));
        values.push_back(make_value(i, kValue + i));
      }
      for (const Bytes& value : values) pieces.emplace_back(value);
      std::vector<PutItem> items;
      for (std::size_t i = 0; i < names.size(); ++i) {
        items.push_back({names[i], std::span(&pieces[i], 1)});
      }
      const auto results = client_->put(items);
      ASSERT_TRUE(results) << words(results);
      for (const PutResult& result : *results) ASSERT_EQ(result.code, Code::kOk) << result.message;
    }
  }
  Tier tier_of(const std::string& name) {
    const std::string_view view = name;
    const auto stats = client_->stat(std::span(&view, 1));
    EXPECT_TRUE(stats) << words(stats);
    EXPECT_EQ(stats->front().code, Code::kOk) << name;
    return stats->front().info.tier;
  }
  // Of the node's only disk; -1: there is no such series.
  double count(const std::string& series) {
    const std::string text = nodes_.node->metrics();
    const auto at = text.find("\n" + series + "{");
    if (at == std::string::npos) return -1;
    return std::stod(text.substr(text.find("} ", at) + 2));
  }
  double direct() { return count("larder_disk_direct_total"); }
  double restored() { return count("larder_disk_restored_total"); }
  void expect_value(std::uint64_t i) {
    const auto got = client_->get(key(i));
    ASSERT_TRUE(got) << key(i) << ": " << words(got);
    ASSERT_TRUE(same(got->bytes(), make_value(i, kValue + i))) << key(i);
  }
  // One call for values of both tiers, into memory of any alignment, in several pieces, with ends
  // within a block.
  void get_all_into_odd_pieces() {
    std::vector<std::string> names;
    std::vector<Bytes> rooms;
    std::vector<std::vector<MutableBytes>> pieces;
    for (std::uint64_t i = 0; i < kMore; ++i) {
      names.push_back(key(i));
      rooms.emplace_back(kValue + 4096);
    }
    std::vector<GetItem> items;
    for (std::uint64_t i = 0; i < kMore; ++i) {
      const MutableBytes room = MutableBytes(rooms[i]).subspan(i % 7);
      const std::size_t first = 1 + (i * 7919) % kValue;
      pieces.push_back({room.first(first), room.subspan(first, 0), room.subspan(first)});
    }
    for (std::uint64_t i = 0; i < kMore; ++i) items.push_back({names[i], pieces[i]});
    const auto results = client_->get_into(items);
    ASSERT_TRUE(results) << words(results);
    for (std::uint64_t i = 0; i < kMore; ++i) {
      ASSERT_EQ((*results)[i].code, Code::kOk) << (*results)[i].message;
      ASSERT_EQ((*results)[i].size, kValue + i);
      const ConstBytes room = ConstBytes(rooms[i]).subspan(i % 7);
      ASSERT_TRUE(same(room.first(kValue + i), make_value(i, kValue + i))) << i;
    }
  }
  // Until everything has a record, and the first values are on disk alone: others are put until
  // they are, for the hand passes over what is not written yet.
  void settle(std::uint64_t count) {
    ASSERT_TRUE(soon([&] { return !any_is(Tier::kHot, 0, count); }));
    ASSERT_TRUE(soon([&] {
      if (!any_is(Tier::kHotAndCold, 0, std::min(count, kFirst))) return true;
      put_many(fillers_end_, fillers_end_ + 20);
      fillers_end_ += 20;
      return false;
    }));
    ASSERT_TRUE(soon([&] { return !any_is(Tier::kHot, kFillers, fillers_end_); }));
  }
  bool any_is(Tier tier, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      if (tier_of(key(i)) == tier) return true;
    }
    return false;
  }

  const Path path_;
  std::uint64_t fillers_end_ = kFillers;  // behind the last that was put
  NodeFixture nodes_;
  std::unique_ptr<Client> client_;
};

}  // namespace larder::client
