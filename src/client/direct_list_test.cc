// SPDX-License-Identifier: Apache-2.0
#include "client/direct_list.h"

#include <gtest/gtest.h>

#include <functional>

#include "larder.pb.h"

namespace larder::client {
namespace {

pb::GetReply good() {
  pb::GetReply reply;
  for (int i = 0; i < 3; ++i) {
    reply.add_codes(i == 1 ? 2 : 0);
    reply.add_sizes(i == 1 ? 0 : 5000);
  }
  pb::DirectReads& list = *reply.mutable_direct();
  for (const std::uint32_t item : {0U, 2U}) {
    list.add_items(item);
    list.add_files(0);
  }
  list.add_extents(1);
  list.add_extents(2);
  for (const std::uint64_t offset : {8192ULL, 16384ULL, 40960ULL}) list.add_offsets(offset);
  for (const std::uint64_t length : {8192ULL, 4096ULL, 4096ULL}) list.add_lengths(length);
  list.add_paths("/disk");
  list.add_devices(1);
  list.add_inodes(2);
  list.add_ids("");
  list.add_numbers(7);
  return reply;
}

TEST(DirectList, SaysWhereEachValueIs) {
  const auto list = direct_list(good());
  ASSERT_TRUE(list) << list.error().to_string();
  ASSERT_EQ(list->items.size(), 2U);
  EXPECT_EQ(list->items[1].item, 2U);
  ASSERT_EQ(list->items[1].extents.size(), 2U);
  EXPECT_EQ(list->items[1].extents[1].offset, 40960U);
  EXPECT_EQ(list->disks[0].path, "/disk");
  EXPECT_EQ(list->disks[0].identity, (fileio::FileIdentity{1, 2}));
  EXPECT_EQ(list->disks[0].number, 7U);
  EXPECT_FALSE(list->disks[0].is_remote());
}

TEST(DirectList, WhatContradictsItselfIsRefused) {
  using Change = std::function<void(pb::GetReply&, pb::DirectReads&)>;
  const Change changes[] = {
      [](auto&, auto& l) { l.set_items(1, 3); },                    // no such item
      [](auto&, auto& l) { l.set_items(1, 1); },                    // one that is not there
      [](auto&, auto& l) { l.set_items(1, 0); },                    // twice
      [](auto&, auto& l) { l.set_files(0, 1); },                    // no such file
      [](auto&, auto& l) { l.set_extents(0, 0); },                  // nowhere
      [](auto&, auto& l) { l.set_extents(1, 3); },                  // more than there are
      [](auto&, auto& l) { l.set_extents(1, 1); },                  // fewer
      [](auto&, auto& l) { l.set_extents(1, 4'000'000'000U); },     // far more
      [](auto&, auto& l) { l.set_lengths(0, 4096); },               // shorter than the value
      [](auto&, auto& l) { l.set_offsets(0, ~std::uint64_t{0}); },  // beyond all files
      [](auto&, auto& l) { l.set_lengths(0, ~std::uint64_t{0}); },
      [](auto&, auto& l) { l.set_offsets(0, (1ULL << 63U) - 4096); },
      [](auto&, auto& l) { l.add_offsets(0); },
      [](auto&, auto& l) { l.add_files(0); },
      [](auto&, auto& l) { l.add_extents(1); },
      [](auto&, auto& l) { l.add_paths("/other"); },
      [](auto&, auto& l) { l.add_devices(0); },
      [](auto&, auto& l) { l.add_ids("uuid"); },
      [](auto&, auto& l) { l.clear_ids(); },
      [](auto&, auto& l) { l.add_numbers(8); },
      [](auto&, auto& l) { l.set_numbers(0, 255); },
      [](auto& r, auto&) { r.clear_codes(); },
  };
  int number = 0;
  for (const Change& change : changes) {
    pb::GetReply reply = good();
    change(reply, *reply.mutable_direct());
    const auto list = direct_list(reply);
    EXPECT_FALSE(list) << number;
    if (!list) {
      EXPECT_EQ(list.error().code(), Code::kCorrupt) << number;
    }
    ++number;
  }
}

}  // namespace
}  // namespace larder::client
