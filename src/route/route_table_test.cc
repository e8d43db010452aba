// SPDX-License-Identifier: Apache-2.0
#include "route/route_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"

namespace larder::route {
namespace {

// Counts what the table tells the owner of the bytes.
class CountingOwner final : public ReplicaOwner {
 public:
  void on_unlink(const Entry& entry) noexcept override {
    EXPECT_EQ(released_.count(entry.version()), 0U);
    unlinked_.insert(entry.version());
  }
  void on_release(const Entry& entry) noexcept override {
    EXPECT_EQ(entry.references(), 0U);
    EXPECT_TRUE(released_.insert(entry.version()).second) << "released twice";
  }
  bool unlinked(std::uint64_t version) const { return unlinked_.count(version) != 0; }
  bool released(std::uint64_t version) const { return released_.count(version) != 0; }
  std::size_t released() const { return released_.size(); }

 private:
  std::set<std::uint64_t> unlinked_;
  std::set<std::uint64_t> released_;
};

KeyRef key_of(std::string_view text, std::uint32_t space = 1) {
  return {space, text, hash64(text, space)};
}

class RouteTableTest : public testing::Test {
 protected:
  // Publishes under `key`; gives the version, or 0 when it was refused.
  std::uint64_t publish(const KeyRef& key, std::uint64_t expected) {
    EntryFields fields;
    fields.key = key;
    fields.version = table_.next_version();
    fields.length = 100;
    fields.owner = &owner_;
    const CasResult result = table_.publish(expected, fields.make());
    return result.applied ? fields.version : 0;
  }
  std::uint64_t version_of(const KeyRef& key) {
    const EntryRef found = table_.find(key);
    return found ? found->version() : 0;
  }

  // Every key that the model could have, in one batch.
  void look_up_all(const std::map<std::string, std::uint64_t>& model) {
    std::vector<std::string> names;
    for (int i = 0; i < 3000; ++i) names.push_back("k" + std::to_string(i));
    std::vector<KeyRef> keys;
    for (const std::string& name : names) keys.push_back(key_of(name));
    std::vector<RouteView> views(keys.size());
    table_.look_up(keys, views);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = model.find(names[i]);
      ASSERT_EQ(views[i].version, found == model.end() ? 0 : found->second) << names[i];
      if (views[i].version != 0) {
        ASSERT_EQ(views[i].length, 100U);
      }
    }
  }

  CountingOwner owner_;
  RouteTable table_{7};
};

TEST_F(RouteTableTest, FindsWhatWasPublished) {
  const KeyRef key = key_of("a");
  EXPECT_FALSE(table_.find(key));
  table_.prefetch(key.hash);
  const std::uint64_t version = publish(key, 0);
  ASSERT_NE(version, 0U);
  const EntryRef found = table_.find(key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->key(), "a");
  EXPECT_EQ(found->space(), 1U);
  EXPECT_EQ(found->version(), version);
  EXPECT_EQ(found->references(), 2U);
  EXPECT_TRUE(found->linked());
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_FALSE(table_.find(key_of("b")));
  EXPECT_FALSE(table_.find({2, key.key, key.hash}));  // the same key of another space
}

TEST_F(RouteTableTest, PublishComparesVersions) {
  const KeyRef key = key_of("a");
  EXPECT_EQ(publish(key, 5), 0U);  // there is none yet
  const std::uint64_t first = publish(key, 0);
  EntryFields fields{.key = key, .version = table_.next_version(), .owner = &owner_};
  const CasResult refused = table_.publish(0, fields.make());
  EXPECT_FALSE(refused.applied);
  ASSERT_TRUE(refused.current);
  EXPECT_EQ(refused.current->version(), first);
  EXPECT_TRUE(owner_.released(fields.version));  // nobody wanted it

  const EntryRef reader = table_.find(key);
  const std::uint64_t second = publish(key, first);
  EXPECT_GT(second, first);
  EXPECT_EQ(version_of(key), second);
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_TRUE(owner_.unlinked(first));
  EXPECT_FALSE(reader->linked());
  EXPECT_FALSE(owner_.released(first));  // somebody reads it
}

TEST_F(RouteTableTest, ReleasesWithTheLastReference) {
  const KeyRef key = key_of("a");
  const std::uint64_t version = publish(key, 0);
  {
    const EntryRef one = table_.find(key);
    const EntryRef two = one;
    ASSERT_TRUE(table_.remove(key, {}));
    EXPECT_TRUE(owner_.unlinked(version));
    EXPECT_FALSE(owner_.released(version));
  }
  EXPECT_TRUE(owner_.released(version));
  EXPECT_EQ(table_.remove(key, {}).error().code(), Code::kNotFound);
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(RouteTableTest, AFailedRemoveStaysDeletingUntilItIsRetried) {
  const KeyRef key = key_of("a");
  const std::uint64_t version = publish(key, 0);
  const auto failed = table_.remove(key, [&](const Entry& entry) -> Result<void> {
    EXPECT_EQ(entry.state(), RouteState::kDeleting);
    EXPECT_TRUE(owner_.unlinked(version));
    EXPECT_FALSE(table_.find(key));  // no lock is held meanwhile
    return fail(Code::kUnavailable, "the disk is away");
  });
  EXPECT_EQ(failed.error().code(), Code::kUnavailable);
  EXPECT_FALSE(table_.find(key));
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_EQ(publish(key, 0), 0U);
  EXPECT_EQ(publish(key, version), 0U);  // not even by its version
  std::uint64_t seen = 0;
  EXPECT_EQ(table_.scan(0, [&](const Entry&) { return ++seen != 0; }), RouteTable::kEnd);
  EXPECT_EQ(seen, 0U);
  EXPECT_FALSE(owner_.released(version));
  EXPECT_TRUE(table_.remove(key, {}));
  EXPECT_TRUE(owner_.released(version));
  EXPECT_NE(publish(key, 0), 0U);
}

TEST_F(RouteTableTest, ARemoveTakesOnlyWhatItBeganWith) {
  const KeyRef key = key_of("a");
  publish(key, 0);
  std::uint64_t newer = 0;
  const auto removed = table_.remove(key, [&](const Entry&) -> Result<void> {
    LARDER_TRY(table_.remove(key, {}));  // a second remover is faster, and a put follows
    newer = publish(key, 0);
    return {};
  });
  EXPECT_TRUE(removed);
  EXPECT_NE(newer, 0U);
  EXPECT_EQ(version_of(key), newer);
}

TEST_F(RouteTableTest, LooksUpWhatIsActiveWithoutReferences) {
  EntryFields fields;
  fields.key = key_of("a");
  fields.version = table_.next_version();
  fields.length = std::uint64_t{4} << 30;
  fields.hot = {123456789, 7, 11, 65535, 3};
  ASSERT_TRUE(table_.publish(0, fields.make()).applied);
  ASSERT_NE(publish(key_of("b"), 0), 0U);
  const auto not_now = [](const Entry&) -> Result<void> {
    return fail(Code::kUnavailable, "not now");
  };
  ASSERT_FALSE(table_.remove(key_of("b"), not_now));
  const std::vector<KeyRef> keys = {key_of("b"), key_of("a"), key_of("c"), key_of("a", 2)};
  std::vector<RouteView> views(keys.size());
  table_.look_up(keys, views);
  EXPECT_EQ(views[0].version, 0U);  // being deleted
  EXPECT_EQ(views[1].version, fields.version);
  EXPECT_EQ(views[1].length, fields.length);
  EXPECT_EQ(views[1].hot.offset, 123456789U);
  EXPECT_EQ(views[1].hot.node, 7U);
  EXPECT_EQ(views[1].hot.slot, 11U);
  EXPECT_EQ(views[1].hot.tag, 65535U);
  EXPECT_EQ(views[1].hot.segment, 3U);
  EXPECT_EQ(views[2].version, 0U);
  EXPECT_EQ(views[3].version, 0U);
  EXPECT_EQ(table_.find(key_of("a"))->references(), 2U);
}

TEST_F(RouteTableTest, EvictsOnlyWhatNobodyHolds) {
  const KeyRef key = key_of("a");
  const std::uint64_t version = publish(key, 0);
  EntryRef mine = table_.find(key);
  {
    const EntryRef reader = table_.find(key);
    EXPECT_FALSE(table_.evict(mine));
  }
  EXPECT_TRUE(table_.evict(mine));
  EXPECT_FALSE(table_.evict(mine));  // gone already
  EXPECT_FALSE(table_.find(key));
  EXPECT_FALSE(owner_.released(version));
  mine = {};
  EXPECT_TRUE(owner_.released(version));

  publish(key, 0);
  const EntryRef old = table_.find(key);
  const std::uint64_t newer = publish(key, old->version());
  EXPECT_FALSE(table_.evict(old));  // it is not the route any more
  EXPECT_EQ(version_of(key), newer);
}

TEST(EntryRef, ADyingEntryCannotBeShared) {
  struct Owner final : ReplicaOwner {
    void on_unlink(const Entry&) noexcept override {}
    void on_release(const Entry& entry) noexcept override {
      shared = static_cast<bool>(EntryRef::try_share(const_cast<Entry*>(&entry)));
      ++releases;
    }
    bool shared = true;
    int releases = 0;
  } owner;
  EntryFields fields{.key = key_of("a"), .version = 1, .owner = &owner};
  EntryRef only = fields.make();
  EXPECT_TRUE(EntryRef::try_share(only.get()));
  EntryRef& alias = only;
  only = alias;  // assigning to itself drops nothing
  EXPECT_EQ(only->references(), 1U);
  only = {};
  EXPECT_EQ(owner.releases, 1);
  EXPECT_FALSE(owner.shared);
}

TEST_F(RouteTableTest, VersionsGrowAcrossIncarnations) {
  std::uint64_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t version = table_.next_version();
    EXPECT_GT(version, before);
    before = version;
  }
  RouteTable later(8);
  EXPECT_GT(later.next_version(), before);
  RouteTable first(0);
  EXPECT_NE(first.next_version(), 0U);  // 0 means "no route"
}

// Equal hashes: one run of the probe, told apart by key and space alone.
TEST_F(RouteTableTest, TellsKeysOfOneHashApart) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("key" + std::to_string(i));
  constexpr std::uint64_t kHash = 0xfedcba9876543210;
  std::map<std::string, std::uint64_t> versions;
  for (const std::string& name : names) versions[name] = publish({1, name, kHash}, 0);
  const std::uint64_t other = publish({2, names[3], kHash}, 0);
  EXPECT_EQ(version_of({2, names[3], kHash}), other);
  for (std::size_t i = 0; i < names.size(); i += 2) {
    ASSERT_TRUE(table_.remove({1, names[i], kHash}, {}));
    for (std::size_t j = 0; j < names.size(); ++j) {
      const bool there = j > i || j % 2 == 1;
      ASSERT_EQ(version_of({1, names[j], kHash}), there ? versions[names[j]] : 0) << i << " " << j;
    }
  }
  EXPECT_EQ(table_.size(), 21U);
}

// Runs that overlap and wrap around the end of the array, with gaps closed in every order.
TEST_F(RouteTableTest, ClosesGapsInOverlappingRuns) {
  constexpr std::uint64_t kSeed = 20260705;
  std::mt19937_64 random(kSeed);
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::map<std::string, std::uint64_t> homes;  // name -> hash; one shard, the first 64 buckets
  for (int i = 0; i < 40; ++i) homes["k" + std::to_string(i)] = (56 + random() % 16) % 64;
  std::map<std::string, std::uint64_t> model;
  for (int step = 0; step < 20000; ++step) {
    const auto at = std::next(homes.begin(), static_cast<long>(random() % homes.size()));
    const KeyRef key{1, at->first, at->second};
    if (random() % 2 == 0) {
      const std::uint64_t version = publish(key, model.count(at->first) ? model[at->first] : 0);
      ASSERT_NE(version, 0U);
      model[at->first] = version;
    } else {
      ASSERT_EQ(table_.remove(key, {}).has_value(), model.erase(at->first) == 1);
    }
    for (const auto& [name, hash] : homes) {
      const auto want = model.find(name);
      ASSERT_EQ(version_of({1, name, hash}), want == model.end() ? 0 : want->second) << step;
    }
  }
}

TEST_F(RouteTableTest, AgreesWithAMap) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  std::mt19937_64 random(seed);
  std::map<std::string, std::uint64_t> model;
  for (int step = 0; step < 50000; ++step) {
    const std::string name = "k" + std::to_string(random() % 3000);
    const KeyRef key = key_of(name);
    const std::uint64_t have = model.count(name) != 0 ? model[name] : 0;
    switch (random() % 5) {
      case 0:
      case 1: {
        const std::uint64_t expected = random() % 4 == 0 ? have + 1 : have;
        const std::uint64_t version = publish(key, expected);
        ASSERT_EQ(version != 0, expected == have);
        if (version != 0) model[name] = version;
        break;
      }
      case 2:
        ASSERT_EQ(table_.remove(key, {}).has_value(), model.erase(name) == 1);
        break;
      case 3: {
        const EntryRef held = table_.find(key);
        ASSERT_EQ(static_cast<bool>(held), have != 0);
        ASSERT_EQ(held && table_.evict(held), have != 0);
        model.erase(name);
        break;
      }
      default:
        ASSERT_EQ(version_of(key), have);
    }
    ASSERT_EQ(table_.size(), model.size());
  }
  look_up_all(model);
  std::map<std::string, std::uint64_t> scanned;
  EXPECT_EQ(table_.scan(0,
                        [&](const Entry& entry) {
                          return scanned.emplace(entry.key(), entry.version()).second;
                        }),
            RouteTable::kEnd);
  EXPECT_EQ(scanned, model);
}

TEST_F(RouteTableTest, GrowsAndScansInPages) {
  constexpr int kKeys = 100'000;
  for (int i = 0; i < kKeys; ++i) ASSERT_NE(publish(key_of(std::to_string(i)), 0), 0U);
  EXPECT_EQ(table_.size(), static_cast<std::uint64_t>(kKeys));
  for (int i = 0; i < kKeys; ++i) ASSERT_NE(version_of(key_of(std::to_string(i))), 0U);
  std::set<std::string> seen;
  std::uint64_t cursor = 0;
  while (cursor != RouteTable::kEnd) {
    int page = 0;
    cursor = table_.scan(cursor, [&](const Entry& entry) {
      if (page == 1000) return false;  // comes again as the first of the next page
      ++page;
      EXPECT_TRUE(seen.emplace(entry.key()).second);
      return true;
    });
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kKeys));
  const auto never = [](const Entry&) { return false; };
  EXPECT_EQ(table_.scan(1ULL << 60, never), RouteTable::kEnd);  // cursors come from outside
  EXPECT_EQ(table_.scan((63ULL << 32) | 0xffffffffU, never), RouteTable::kEnd);
  EXPECT_EQ(table_.scan(RouteTable::kEnd, never), RouteTable::kEnd);
  EXPECT_LT(table_.memory_bytes() / kKeys, 24U);
}

TEST(RouteTableEnd, GivesEverythingBack) {
  CountingOwner owner;
  EntryRef held;
  {
    RouteTable table(1);
    for (int i = 0; i < 1000; ++i) {
      const std::string name = std::to_string(i);
      const EntryFields fields{
          .key = key_of(name), .version = table.next_version(), .owner = &owner};
      ASSERT_TRUE(table.publish(0, fields.make()).applied);
    }
    held = table.find(key_of("17"));
  }
  EXPECT_EQ(owner.released(), 999U);
  EXPECT_FALSE(held->linked());
  EXPECT_TRUE(owner.unlinked(held->version()));
  held = {};
  EXPECT_EQ(owner.released(), 1000U);
}

}  // namespace
}  // namespace larder::route
