// SPDX-License-Identifier: Apache-2.0
// Values in and out, by every path: sizes, pieces, replacement, and what is refused.
#include "larder/client.h"

#include <algorithm>
#include <array>

#include "client/client_testing.h"

namespace larder::client {
namespace {

INSTANTIATE_TEST_SUITE_P(Paths, ClientTest, kEveryPath, path_test_name);

TEST_P(ClientTest, ValuesOfEverySizeComeBack) {
  const std::array<std::size_t, 8> sizes = {1,      4095,        8192,    8193,
                                            65'537, (256 << 10), 1 << 20, 5 << 20};
  for (const std::size_t size : sizes) {
    const Bytes value = make_value(size, size);
    const std::string key = "size-" + std::to_string(size);
    put(key, value);
    expect_value(key, value);
    expect_value(key, value);  // from the route cache, where there is one
    Bytes room(size + 10, std::byte{0x5a});
    const auto got = client_->get_into(key, room);
    ASSERT_TRUE(got) << words(got);
    EXPECT_EQ(*got, size);
    EXPECT_TRUE(same(std::span(room).first(size), value));
    EXPECT_EQ(room[size], std::byte{0x5a});  // not one byte beyond the value
  }
}

TEST_P(ClientTest, PiecesAreGatheredAndScattered) {
  const Bytes value = make_value(7, 200'000);
  const ConstBytes all = value;
  const std::array<ConstBytes, 7> pieces = {
      ConstBytes{},         all.first(1), ConstBytes{}, all.subspan(1, 99'999),
      all.subspan(100'000), all.first(0), ConstBytes{}};
  const PutItem item{"pieces", pieces};
  const auto stored = client_->put(std::span(&item, 1));
  ASSERT_TRUE(stored) << words(stored);
  EXPECT_EQ((*stored)[0].code, Code::kOk) << (*stored)[0].message;
  expect_value("pieces", value);

  Bytes room(250'000, std::byte{1});
  const MutableBytes into = room;
  const std::array<MutableBytes, 6> places = {MutableBytes{},        into.subspan(10, 3),
                                              MutableBytes{},        into.subspan(20, 100'000),
                                              into.subspan(130'000), MutableBytes{}};
  const GetItem wanted{"pieces", places};
  for (int round = 0; round < 2; ++round) {
    std::fill(room.begin(), room.end(), std::byte{1});
    const auto got = client_->get_into(std::span(&wanted, 1));
    ASSERT_TRUE(got) << words(got);
    ASSERT_EQ((*got)[0].code, Code::kOk) << (*got)[0].message;
    EXPECT_EQ((*got)[0].size, value.size());
    EXPECT_TRUE(same(into.subspan(10, 3), all.first(3)));
    EXPECT_EQ(into[13], std::byte{1});
    EXPECT_TRUE(same(into.subspan(20, 100'000), all.subspan(3, 100'000)));
    EXPECT_TRUE(same(into.subspan(130'000, 99'997), all.subspan(100'003)));
    EXPECT_EQ(into[130'000 + 99'997], std::byte{1});
  }
}

TEST_P(ClientTest, ABatchAnswersPerItem) {
  constexpr std::size_t kItems = 200;
  std::vector<Bytes> values;
  std::vector<std::string> keys;
  std::vector<ConstBytes> pieces;
  for (std::size_t i = 0; i < kItems; ++i) {
    values.push_back(make_value(i, 1 + (i * 397) % 30'000));
    keys.push_back("batch-" + std::to_string(i));
  }
  for (const Bytes& value : values) pieces.emplace_back(value);
  std::vector<PutItem> items;
  for (std::size_t i = 0; i < kItems; ++i) items.push_back({keys[i], std::span(&pieces[i], 1)});
  const auto stored = client_->put(items);
  ASSERT_TRUE(stored) << words(stored);
  ASSERT_EQ(stored->size(), kItems);
  for (const PutResult& result : *stored) EXPECT_EQ(result.code, Code::kOk) << result.message;

  std::vector<std::string_view> asked(keys.begin(), keys.end());
  asked.insert(asked.begin() + 50, "absent");
  const auto got = client_->get(asked);
  ASSERT_TRUE(got) << words(got);
  ASSERT_EQ(got->size(), kItems + 1);
  EXPECT_EQ(code_of((*got)[50]), Code::kNotFound);
  for (std::size_t i = 0; i < kItems; ++i) {
    const auto& value = (*got)[i < 50 ? i : i + 1];
    ASSERT_TRUE(value) << words(value);
    EXPECT_TRUE(same(value->bytes(), values[i])) << keys[i];
  }
  const auto present = client_->exists(asked);
  ASSERT_TRUE(present);
  EXPECT_EQ(std::count(present->begin(), present->end(), true), static_cast<long>(kItems));
  EXPECT_FALSE((*present)[50]);
}

TEST_P(ClientTest, TheSameBytesAgainMoveNothing) {
  for (const std::size_t size : {100UL, 100'000UL}) {
    const std::string key = "same-" + std::to_string(size);
    const Bytes value = make_value(1, size);
    const auto first = client_->put(key, value);
    ASSERT_TRUE(first) << words(first);
    EXPECT_FALSE(first->already_stored);
    const std::uint64_t used = node().used_bytes();
    const auto second = client_->put(key, value);
    ASSERT_TRUE(second) << words(second);
    EXPECT_TRUE(second->already_stored);
    EXPECT_EQ(second->version, first->version);
    EXPECT_EQ(node().used_bytes(), used);
    PutOptions if_absent;
    if_absent.mode = PutMode::kIfAbsent;
    const auto third = client_->put(key, value, if_absent);
    ASSERT_TRUE(third) << words(third);
    EXPECT_TRUE(third->already_stored);
    expect_value(key, value);
  }
}

TEST_P(ClientTest, OtherBytesReplaceOrAreKept) {
  PutOptions if_absent;
  if_absent.mode = PutMode::kIfAbsent;
  for (const std::size_t size : {100UL, 100'000UL}) {
    const std::string key = "other-" + std::to_string(size);
    const Bytes first = make_value(1, size);
    put(key, first);
    const std::uint64_t version = client_->stat(key)->version;
    for (const std::size_t other_size : {size, size / 2, size * 2}) {
      const Bytes other = make_value(2, other_size);
      const auto refused = client_->put(key, other, if_absent);
      EXPECT_EQ(code_of(refused), Code::kAlreadyExists);
    }
    expect_value(key, first);
    EXPECT_EQ(client_->stat(key)->version, version);
    std::uint64_t last = version;
    for (const std::size_t other_size : {size, size / 2, size * 2}) {
      const Bytes other = make_value(other_size + 3, other_size);
      const auto replaced = client_->put(key, other);
      ASSERT_TRUE(replaced) << words(replaced);
      EXPECT_FALSE(replaced->already_stored);
      EXPECT_GT(replaced->version, last);
      last = replaced->version;
      expect_value(key, other);
      EXPECT_EQ(client_->stat(key)->size, other_size);
    }
    EXPECT_TRUE(client_->put(key + "-new", first, if_absent));
  }
  EXPECT_EQ(node().objects(), 4U);
}

TEST_P(ClientTest, KeysHaveOneByteToOneKibibyte) {
  const Bytes value = make_value(3, 10);
  const std::string longest(1024, 'k');
  const std::string longer(1025, 'k');
  for (const std::string& key : {std::string("k"), longest, std::string("\0\n\xff", 3)}) {
    put(key, value);
    expect_value(key, value);
    EXPECT_TRUE(client_->exists(key).value());
    EXPECT_EQ(client_->stat(key)->size, 10U);
  }
  for (const std::string& key : {std::string(), longer}) {
    Bytes room(10);
    const auto refused = client_->put(key, value);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument);
    EXPECT_NE(words(refused).find("1024"), std::string::npos) << words(refused);
    EXPECT_EQ(code_of(client_->get(key)), Code::kInvalidArgument);
    const auto got = client_->get_into(key, room);
    EXPECT_EQ(code_of(got), Code::kInvalidArgument);
    EXPECT_NE(words(got).find("1024"), std::string::npos) << words(got);
    EXPECT_EQ(code_of(client_->stat(key)), Code::kInvalidArgument);
    EXPECT_FALSE(client_->exists(key).value());
    EXPECT_EQ(code_of(client_->remove(key)), Code::kNotFound);
    EXPECT_EQ(code_of(client_->pin(key)), Code::kNotFound);
  }
}

TEST_P(ClientTest, OneBadItemOfEachKindHarmsNoNeighbour) {
  const Bytes small = make_value(1, 500);
  const Bytes large = make_value(2, 90'000);
  const Bytes huge(NodeFixture::kCapacity + 1);
  const std::string longer(1025, 'k');
  const ConstBytes small_piece = small;
  const ConstBytes large_piece = large;
  const ConstBytes huge_piece = huge;
  const auto one = [](const ConstBytes& piece) { return std::span(&piece, 1); };
  const std::vector<PutItem> items = {{"good-1", one(large_piece)},
                                      {"", one(small_piece)},
                                      {"good-2", one(small_piece)},
                                      {longer, one(large_piece)},
                                      {"empty", {}},
                                      {"huge", one(huge_piece)},
                                      {"good-3", one(large_piece)},
                                      {"good-4", one(small_piece)}};
  const std::vector<Code> expected = {Code::kOk,
                                      Code::kInvalidArgument,
                                      Code::kOk,
                                      Code::kInvalidArgument,
                                      Code::kInvalidArgument,
                                      Code::kTooLarge,
                                      Code::kOk,
                                      Code::kOk};
  const auto stored = client_->put(items);
  ASSERT_TRUE(stored) << words(stored);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PutResult& result = (*stored)[i];
    EXPECT_EQ(result.code, expected[i]) << i << ": " << result.message;
    EXPECT_EQ(result.message.empty(), expected[i] == Code::kOk) << i << ": " << result.message;
  }
  EXPECT_NE((*stored)[5].message.find(std::to_string(NodeFixture::kCapacity)), std::string::npos)
      << (*stored)[5].message;
  expect_value("good-1", large);
  expect_value("good-2", small);
  expect_value("good-3", large);
  expect_value("good-4", small);
  EXPECT_EQ(node().objects(), 4U);
}

TEST_P(ClientTest, ADestinationTooSmallIsToldTheSize) {
  const Bytes value = make_value(9, 70'000);
  put("a", value);
  put("b", value);
  Bytes first(70'000);
  Bytes small(69'999, std::byte{7});
  Bytes last(70'001);
  const MutableBytes places[] = {first, small, last};
  const std::vector<GetItem> items = {{"a", std::span(&places[0], 1)},
                                      {"b", std::span(&places[1], 1)},
                                      {"b", std::span(&places[2], 1)},
                                      {"c", std::span(&places[1], 1)},
                                      {"a", {}}};
  for (int round = 0; round < 2; ++round) {
    const auto got = client_->get_into(items);
    ASSERT_TRUE(got) << words(got);
    EXPECT_EQ((*got)[0].code, Code::kOk);
    EXPECT_EQ((*got)[1].code, Code::kInvalidArgument);
    EXPECT_EQ((*got)[1].size, 70'000U);
    EXPECT_NE((*got)[1].message.find("70000"), std::string::npos) << (*got)[1].message;
    EXPECT_NE((*got)[1].message.find("69999"), std::string::npos) << (*got)[1].message;
    EXPECT_EQ((*got)[2].code, Code::kOk);
    EXPECT_EQ((*got)[3].code, Code::kNotFound);
    EXPECT_EQ((*got)[4].code, Code::kInvalidArgument);
    EXPECT_EQ((*got)[4].size, 70'000U);
    EXPECT_TRUE(same(first, value));
    EXPECT_TRUE(same(std::span(last).first(70'000), value));
    EXPECT_EQ(std::count(small.begin(), small.end(), std::byte{7}), 69'999);
  }
}

TEST_P(ClientTest, DuplicateKeysInOneBatch) {
  const Bytes one = make_value(1, 30'000);
  const Bytes two = make_value(2, 30'000);
  const Bytes three = make_value(3, 12'345);
  const ConstBytes pieces[] = {one, two, three};
  for (const bool present : {false, true}) {
    const std::string key = present ? "present" : "fresh";
    if (present) put(key, one);
    const std::vector<PutItem> items = {{key, std::span(&pieces[2], 1)},
                                        {key, std::span(&pieces[0], 1)},
                                        {key, std::span(&pieces[0], 1)},
                                        {key, std::span(&pieces[1], 1)}};
    const auto stored = client_->put(items);
    ASSERT_TRUE(stored) << words(stored);
    for (const PutResult& result : *stored) EXPECT_EQ(result.code, Code::kOk) << result.message;
    const auto got = client_->get(key);
    ASSERT_TRUE(got) << words(got);
    EXPECT_TRUE(same(got->bytes(), one) || same(got->bytes(), two) || same(got->bytes(), three));
  }
  const std::vector<std::string_view> keys = {"fresh", "fresh", "absent", "fresh"};
  const auto got = client_->get(keys);
  ASSERT_TRUE(got) << words(got);
  EXPECT_TRUE(same((*got)[0]->bytes(), (*got)[3]->bytes()));
  EXPECT_EQ(code_of((*got)[2]), Code::kNotFound);
  const auto removed = client_->remove(keys);
  ASSERT_TRUE(removed) << words(removed);
  EXPECT_EQ((*removed)[0].code, Code::kOk);
  EXPECT_EQ((*removed)[1].code, Code::kNotFound);
  EXPECT_EQ(node().objects(), 1U);
}

TEST_P(ClientTest, AValueBeyondTheCapacityNamesTheLimit) {
  const Bytes value(NodeFixture::kCapacity + 1);
  const auto refused = client_->put("huge", value);
  EXPECT_EQ(code_of(refused), Code::kTooLarge);
  EXPECT_NE(words(refused).find(std::to_string(NodeFixture::kCapacity)), std::string::npos)
      << words(refused);
  EXPECT_EQ(node().reserved_bytes(), 0U);
  put("after", make_value(1, 1000));
}

TEST_P(ClientTest, ManyKeysInOneCallAndOneTooMany) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kBatchItemsMax + 1; ++i) names.push_back("n" + std::to_string(i));
  put("n77", make_value(1, 10));
  put("n65535", make_value(2, 10));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  const auto most = std::span(keys).first(kBatchItemsMax);
  for (int round = 0; round < 2; ++round) {
    const auto present = client_->exists(most);
    ASSERT_TRUE(present) << words(present);
    EXPECT_EQ(std::count(present->begin(), present->end(), true), 2);
    EXPECT_TRUE((*present)[77] && (*present)[65'535]);
  }
  const auto refused = client_->exists(keys);
  EXPECT_EQ(code_of(refused), Code::kInvalidArgument);
  EXPECT_NE(words(refused).find("65536"), std::string::npos) << words(refused);
  EXPECT_EQ(code_of(client_->match_prefix(keys)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->remove(keys)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->stat(keys)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->get(keys)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->pin(keys)), Code::kInvalidArgument);
  EXPECT_TRUE(client_->exists(std::span<const std::string_view>())->empty());
  EXPECT_TRUE(client_->put(std::span<const PutItem>())->empty());
}

TEST_P(ClientTest, RemoveAndStatPerItem) {
  const Bytes value = make_value(4, 4096);
  put("a", value);
  put("b", value);
  const std::vector<std::string_view> keys = {"a", "x", "b"};
  const auto stats = client_->stat(keys);
  ASSERT_TRUE(stats) << words(stats);
  EXPECT_EQ((*stats)[0].code, Code::kOk);
  EXPECT_EQ((*stats)[0].info.size, 4096U);
  EXPECT_EQ((*stats)[0].info.tier, Tier::kHot);
  EXPECT_EQ((*stats)[0].info.path, GetParam());
  EXPECT_EQ((*stats)[0].info.checksum, (*stats)[2].info.checksum);
  EXPECT_NE((*stats)[0].info.version, (*stats)[2].info.version);
  EXPECT_EQ((*stats)[1].code, Code::kNotFound);
  ASSERT_TRUE(client_->get("a"));  // now the client knows where it lies
  const auto removed = client_->remove(keys);
  ASSERT_TRUE(removed) << words(removed);
  EXPECT_EQ((*removed)[0].code, Code::kOk);
  EXPECT_EQ((*removed)[1].code, Code::kNotFound);
  EXPECT_EQ((*removed)[2].code, Code::kOk);
  EXPECT_EQ(code_of(client_->get("a")), Code::kNotFound);
  EXPECT_FALSE(client_->exists("a").value());
  EXPECT_EQ(client_->match_prefix(keys)->keys, 0U);
  EXPECT_EQ(node().used_bytes(), 0U);
}

TEST_P(ClientTest, MatchPrefixIsTheLongestRunFromTheFront) {
  put("p0", make_value(0, 100));
  put("p1", make_value(1, 200));
  put("p2", make_value(2, 300));
  put("p4", make_value(4, 500));
  const std::vector<std::string_view> keys = {"p0", "p1", "p2", "p3", "p4"};
  for (int round = 0; round < 2; ++round) {
    const auto match = client_->match_prefix(keys);
    ASSERT_TRUE(match) << words(match);
    EXPECT_EQ(match->keys, 3U);
    EXPECT_EQ(match->bytes, 600U);
    EXPECT_EQ(match->sizes, (std::vector<std::uint64_t>{100, 200, 300}));
  }
  ASSERT_TRUE(client_->remove("p1"));
  EXPECT_EQ(client_->match_prefix(keys)->keys, 1U);
  put("p1", make_value(1, 200));
  put("p3", make_value(3, 400));
  EXPECT_EQ(client_->match_prefix(keys)->keys, 5U);
  EXPECT_EQ(client_->match_prefix(keys)->bytes, 1500U);
  ASSERT_TRUE(client_->remove("p0"));
  EXPECT_EQ(client_->match_prefix(keys)->keys, 0U);
  EXPECT_EQ(client_->match_prefix({})->keys, 0U);
}

TEST_P(ClientTest, ListGoesByPages) {
  constexpr std::size_t kKeys = 500;
  for (std::size_t i = 0; i < kKeys; ++i) put("list/" + std::to_string(i), make_value(i, i + 1));
  put("other", make_value(1, 1));
  std::vector<std::string> seen;
  std::string cursor;
  std::size_t pages = 0;
  do {
    const auto page = client_->list("list/", cursor, 64);
    ASSERT_TRUE(page) << words(page);
    EXPECT_LE(page->entries.size(), 64U);
    for (const ListEntry& entry : page->entries) {
      seen.push_back(entry.key);
      EXPECT_EQ(entry.key, "list/" + std::to_string(entry.size - 1));
      EXPECT_GT(entry.version, 0U);
    }
    cursor = page->next;
    ++pages;
  } while (!cursor.empty() && pages < 100);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen.size(), kKeys);
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(client_->list("")->entries.size(), kKeys + 1);
  EXPECT_TRUE(client_->list("nothing/")->entries.empty());
  EXPECT_EQ(code_of(client_->list("", "not a cursor")), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->list("", "", 0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->list("", "", 65'537)), Code::kInvalidArgument);
  EXPECT_TRUE(client_->list("", "18446744073709551615"));  // past the end is the end
}

TEST_P(ClientTest, InfoTellsWhatTheNodeHolds) {
  put("a", make_value(1, 100'000));
  const auto info = client_->info();
  ASSERT_TRUE(info) << words(info);
  EXPECT_EQ(info->id, node().id());
  EXPECT_EQ(info->path, GetParam());
  EXPECT_EQ(info->capacity_bytes, NodeFixture::kCapacity);
  EXPECT_EQ(info->used_bytes, node().used_bytes());
  EXPECT_EQ(info->objects, 1U);
  EXPECT_EQ(info->pins, 0U);
  EXPECT_GE(info->connections, 1U);
  EXPECT_EQ(info->segment_pages, "4KiB");
  EXPECT_FALSE(info->version.empty());
}

TEST_P(ClientTest, KeySpacesAreSeparate) {
  put("k", make_value(1, 100));
  const KeySpace spaces[] = {
      {"t2", "default", "default"}, {"default", "d2", "default"}, {"default", "default", "o2"}};
  std::uint64_t seed = 2;
  for (const KeySpace& space : spaces) {
    ClientOptions options = nodes_.client_options(GetParam());
    options.space = space;
    const auto other = NodeFixture::connect(options);
    ASSERT_TRUE(other);
    EXPECT_EQ(code_of(other->get("k")), Code::kNotFound);
    EXPECT_FALSE(other->exists("k").value());
    EXPECT_EQ(code_of(other->remove("k")), Code::kNotFound);
    EXPECT_TRUE(other->list("")->entries.empty());
    const Bytes value = make_value(++seed, 100);
    ASSERT_TRUE(other->put("k", value));
    EXPECT_TRUE(same(other->get("k")->bytes(), value));
    EXPECT_EQ(other->list("")->entries.size(), 1U);
  }
  expect_value("k", make_value(1, 100));
  EXPECT_EQ(node().objects(), 4U);
  for (const std::string& bad : {std::string(), std::string(256, 't')}) {
    ClientOptions options = nodes_.client_options(GetParam());
    options.space.tenant = bad;
    EXPECT_EQ(code_of(Client::connect(options)), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace larder::client
