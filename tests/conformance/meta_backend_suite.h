// SPDX-License-Identifier: Apache-2.0
// What every metadata backend must do. A test binary includes this and instantiates MetaBackend
// with one BackendUnderTest per backend.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "meta/backend.h"

namespace larder::meta {

struct BackendUnderTest {
  std::string name;  // letters and digits
  // A backend with nothing in it, new for each test.
  std::function<Result<std::shared_ptr<MetadataBackend>>()> open_empty;
};

class MetaBackend : public testing::TestWithParam<BackendUnderTest> {
 protected:
  static constexpr Micros kTtl = 1'000'000;
  static constexpr Micros kNow = 50'000'000;

  void SetUp() override {
    auto opened = GetParam().open_empty();
    ASSERT_TRUE(opened) << opened.error().to_string();
    backend_ = std::move(*opened);
  }

  static Lease lease_of(const std::string& id, std::uint64_t epoch = 0) {
    Lease lease;
    lease.stable_id = id;
    lease.epoch = epoch;
    lease.state = NodeState::kActive;
    lease.endpoints = {"tcp:127.0.0.1:7411", "unix:/run/larder/node.sock"};
    lease.labels = {{"route", "true"}, {"rack", ""}};
    lease.capacity_bytes = 1ULL << 40;
    return lease;
  }
  std::uint64_t allocate(const std::string& id, Micros now = kNow) {
    const auto lease = backend_->allocate_lease(lease_of(id), now, kTtl);
    EXPECT_TRUE(lease) << lease.error().to_string();
    return lease ? lease->epoch : 0;
  }
  Code upsert(const std::string& id, std::uint64_t epoch, Micros now = kNow) {
    const auto lease = backend_->upsert_lease(lease_of(id, epoch), now, kTtl);
    return lease ? Code::kOk : lease.error().code();
  }

  std::shared_ptr<MetadataBackend> backend_;
};

template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}

TEST_P(MetaBackend, AllocationNumbersIncarnations) {
  const auto first = backend_->allocate_lease(lease_of("a", 77), kNow, kTtl);
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_EQ(first->epoch, 1U);  // the template's epoch counts for nothing
  EXPECT_EQ(first->expires_at, kNow + kTtl);
  Lease expected = lease_of("a", 1);
  expected.expires_at = kNow + kTtl;
  EXPECT_EQ(*first, expected);
  EXPECT_EQ(allocate("a"), 2U);
  EXPECT_EQ(allocate("b"), 1U);
  EXPECT_EQ(*backend_->get_lease("a", 1, kNow), expected);
  EXPECT_EQ(backend_->get_newest_lease("a", kNow)->epoch, 2U);
}

TEST_P(MetaBackend, TheMarkOutlivesTheLeases) {
  EXPECT_EQ(allocate("a"), 1U);
  EXPECT_EQ(allocate("a"), 2U);
  EXPECT_EQ(allocate("a", kNow + 100 * kTtl), 3U);
  EXPECT_TRUE(backend_->release_lease("a", 3));
  EXPECT_EQ(code_of(backend_->release_lease("a", 3)), Code::kNotFound);
  EXPECT_EQ(allocate("a", kNow + 100 * kTtl), 4U);
}

TEST_P(MetaBackend, ALeaseEndsAtItsTime) {
  allocate("a");
  EXPECT_TRUE(backend_->get_lease("a", 1, kNow + kTtl - 1));
  EXPECT_EQ(code_of(backend_->get_lease("a", 1, kNow + kTtl)), Code::kNotFound);
  EXPECT_EQ(code_of(backend_->get_newest_lease("a", kNow + kTtl)), Code::kNotFound);
  EXPECT_TRUE(backend_->list_live(kNow + kTtl)->empty());
  EXPECT_EQ(code_of(backend_->get_lease("nobody", 1, kNow)), Code::kNotFound);
  EXPECT_EQ(code_of(backend_->set_state("a", 1, NodeState::kDraining, kNow + kTtl)),
            Code::kNotFound);
}

TEST_P(MetaBackend, ARefreshExtendsAndReplaces) {
  allocate("a");
  Lease changed = lease_of("a", 1);
  changed.endpoints = {"tcp:127.0.0.1:9"};
  changed.state = NodeState::kDraining;
  const auto stored = backend_->upsert_lease(changed, kNow + kTtl / 2, kTtl);
  ASSERT_TRUE(stored) << stored.error().to_string();
  EXPECT_EQ(stored->expires_at, kNow + kTtl / 2 + kTtl);
  EXPECT_EQ(*backend_->get_lease("a", 1, kNow + kTtl), *stored);
  EXPECT_EQ(stored->endpoints, changed.endpoints);
}

TEST_P(MetaBackend, AnOldIncarnationCannotComeBack) {
  EXPECT_EQ(upsert("a", 5), Code::kOk);  // nothing was seen yet: any epoch exceeds it
  EXPECT_EQ(allocate("a"), 6U);
  EXPECT_EQ(upsert("a", 5), Code::kOk);  // still there: a refresh
  EXPECT_EQ(upsert("a", 4), Code::kConflict);
  const Micros later = kNow + 2 * kTtl;
  EXPECT_EQ(upsert("a", 6, kNow + kTtl / 2), Code::kOk);
  const auto stale = backend_->upsert_lease(lease_of("a", 5), later, kTtl);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code(), Code::kConflict);
  EXPECT_NE(stale.error().message().find("stale epoch"), std::string::npos);
  EXPECT_EQ(upsert("a", 9, later), Code::kOk);  // exceeds every epoch seen
  EXPECT_EQ(upsert("a", 8, later), Code::kConflict);
  EXPECT_EQ(allocate("a", later), 10U);
}

TEST_P(MetaBackend, TheNewestMayReclaimItsEpochAfterAGap) {
  allocate("a");
  const Micros later = kNow + 10 * kTtl;
  EXPECT_EQ(upsert("a", 1, later), Code::kOk);
  EXPECT_EQ(backend_->get_newest_lease("a", later)->epoch, 1U);
  allocate("a", later);
  // Epoch 1 expires; 2 has been seen, so 1 may not come back, whether 2 is live or not.
  EXPECT_EQ(upsert("a", 2, later + kTtl - 1), Code::kOk);
  EXPECT_EQ(upsert("a", 1, later + kTtl + 1), Code::kConflict);
  EXPECT_EQ(upsert("a", 1, later + 10 * kTtl), Code::kConflict);
  EXPECT_EQ(upsert("a", 2, later + 10 * kTtl), Code::kOk);
}

TEST_P(MetaBackend, StatesChangeUntilOffline) {
  allocate("a");
  for (const NodeState state : {NodeState::kStandby, NodeState::kActive, NodeState::kDraining,
                                NodeState::kSealed, NodeState::kOffline}) {
    const auto lease = backend_->set_state("a", 1, state, kNow + 5);
    ASSERT_TRUE(lease) << lease.error().to_string();
    EXPECT_EQ(lease->state, state);
    EXPECT_EQ(lease->expires_at, kNow + kTtl);
  }
  EXPECT_EQ(code_of(backend_->set_state("a", 1, NodeState::kActive, kNow)), Code::kConflict);
  EXPECT_EQ(upsert("a", 1), Code::kConflict);
  EXPECT_EQ(upsert("a", 1, kNow + 5 * kTtl), Code::kConflict);  // nor by way of a reclaim
  EXPECT_EQ(code_of(backend_->set_state("a", 1, static_cast<NodeState>(9), kNow)),
            Code::kInvalidArgument);
  EXPECT_EQ(allocate("a"), 2U);
}

TEST_P(MetaBackend, ListsWhatIsLiveInOrder) {
  allocate("b");
  allocate("a");
  allocate("a");
  allocate("c", kNow - kTtl);
  const auto live = backend_->list_live(kNow);
  ASSERT_TRUE(live);
  std::vector<std::string> names;
  for (const Lease& lease : *live) {
    names.push_back(lease.stable_id + ":" + std::to_string(lease.epoch));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a:1", "a:2", "b:1"}));
}

TEST_P(MetaBackend, BadLeasesAreRefused) {
  const auto refused = [&](const Lease& lease, Micros now = kNow, Micros ttl = kTtl) {
    return code_of(backend_->allocate_lease(lease, now, ttl)) == Code::kInvalidArgument &&
           code_of(backend_->upsert_lease(lease, now, ttl)) == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused(lease_of("", 1)));
  EXPECT_TRUE(refused(lease_of(std::string(256, 'x'), 1)));
  EXPECT_TRUE(refused(lease_of("a\nb", 1)));
  EXPECT_TRUE(refused(lease_of("a", kEpochMax + 1)));
  EXPECT_TRUE(refused(lease_of("a", 1), -1));
  EXPECT_TRUE(refused(lease_of("a", 1), kTimeMax + 1));
  EXPECT_TRUE(refused(lease_of("a", 1), kNow, 0));
  EXPECT_TRUE(refused(lease_of("a", 1), kNow, kTtlMax + 1));
  EXPECT_EQ(upsert("a", 0), Code::kInvalidArgument);
  Lease lease = lease_of("a", 1);
  lease.state = static_cast<NodeState>(5);
  EXPECT_TRUE(refused(lease));
  lease = lease_of("a", 1);
  lease.endpoints.assign(kEndpointsMax + 1, "tcp:x:1");
  EXPECT_TRUE(refused(lease));
  lease.endpoints = {std::string(kEndpointBytesMax + 1, 'x')};
  EXPECT_TRUE(refused(lease));
  lease = lease_of("a", 1);
  for (std::size_t i = 0; i <= kLabelsMax; ++i) lease.labels["k" + std::to_string(i)] = "v";
  EXPECT_TRUE(refused(lease));
  lease.labels = {{std::string(kLabelKeyBytesMax + 1, 'k'), "v"}};
  EXPECT_TRUE(refused(lease));
  EXPECT_TRUE(backend_->list_live(kNow)->empty());
}

TEST_P(MetaBackend, EpochsDoNotWrap) {
  EXPECT_EQ(upsert("a", kEpochMax), Code::kOk);
  EXPECT_EQ(code_of(backend_->allocate_lease(lease_of("a"), kNow, kTtl)), Code::kExhausted);
}

TEST_P(MetaBackend, DevicesChangeByCompareAndSet) {
  EXPECT_EQ(code_of(backend_->get_device("d")), Code::kNotFound);
  EXPECT_EQ(code_of(backend_->update_device("d", "x", 1)), Code::kNotFound);
  const std::string binary("\0\xff\n", 3);
  const auto made = backend_->put_device_if_absent("d", binary);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_GT(made->revision, 0U);
  EXPECT_EQ(*backend_->get_device("d"), *made);
  EXPECT_EQ(made->value, binary);
  EXPECT_EQ(code_of(backend_->put_device_if_absent("d", "two")), Code::kAlreadyExists);

  const auto changed = backend_->update_device("d", "two", made->revision);
  ASSERT_TRUE(changed);
  EXPECT_GT(changed->revision, made->revision);
  const auto late = backend_->update_device("d", "three", made->revision);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kConflict);
  EXPECT_NE(late.error().message().find(std::to_string(changed->revision)), std::string::npos);
  EXPECT_EQ(backend_->get_device("d")->value, "two");
}

TEST_P(MetaBackend, ADeviceMadeAgainIsAnotherOne) {
  const auto first = backend_->put_device_if_absent("d", "same");
  ASSERT_TRUE(first);
  EXPECT_EQ(code_of(backend_->delete_device("d", first->revision + 1)), Code::kConflict);
  EXPECT_TRUE(backend_->delete_device("d", first->revision));
  EXPECT_EQ(code_of(backend_->delete_device("d", first->revision)), Code::kNotFound);
  const auto second = backend_->put_device_if_absent("d", "same");
  ASSERT_TRUE(second);
  EXPECT_GT(second->revision, first->revision);
  EXPECT_EQ(code_of(backend_->update_device("d", "stale", first->revision)), Code::kConflict);
}

TEST_P(MetaBackend, DevicesAreListedAndBounded) {
  for (const char* id : {"b", "a", "c"}) ASSERT_TRUE(backend_->put_device_if_absent(id, id));
  const auto all = backend_->list_devices();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3U);
  EXPECT_EQ((*all)[0].key, "a");
  EXPECT_EQ((*all)[2].key, "c");
  EXPECT_EQ(code_of(backend_->put_device_if_absent("", "x")), Code::kInvalidArgument);
  EXPECT_EQ(code_of(backend_->get_device(std::string(256, 'x'))), Code::kInvalidArgument);
  const std::string big(kRecordBytesMax, 'x');
  EXPECT_TRUE(backend_->put_device_if_absent("big", big));
  EXPECT_EQ(code_of(backend_->put_device_if_absent("bigger", big + "x")), Code::kTooLarge);
}

TEST_P(MetaBackend, PoliciesExpectARevision) {
  EXPECT_EQ(code_of(backend_->put_policy("p/a", "x", 3)), Code::kConflict);
  const auto made = backend_->put_policy("p/a", "one", 0);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(code_of(backend_->put_policy("p/a", "two", 0)), Code::kConflict);
  const auto changed = backend_->put_policy("p/a", "two", made->revision);
  ASSERT_TRUE(changed);
  EXPECT_EQ(code_of(backend_->put_policy("p/a", "three", made->revision)), Code::kConflict);
  EXPECT_EQ(*backend_->get_policy("p/a"), *changed);
  EXPECT_EQ(code_of(backend_->delete_policy("p/a", made->revision)), Code::kConflict);
  EXPECT_TRUE(backend_->delete_policy("p/a", changed->revision));
  EXPECT_EQ(code_of(backend_->get_policy("p/a")), Code::kNotFound);
  EXPECT_EQ(code_of(backend_->delete_policy("p/a", changed->revision)), Code::kConflict);
  EXPECT_EQ(code_of(backend_->put_policy("p/a", "back", changed->revision)), Code::kConflict);
}

TEST_P(MetaBackend, PoliciesAreListedByPrefix) {
  for (const char* key : {"t/a", "t/b", "t/b/c", "u/a"}) {
    ASSERT_TRUE(backend_->put_policy(key, key, 0));
  }
  EXPECT_EQ(backend_->list_policies("")->size(), 4U);
  EXPECT_EQ(backend_->list_policies("t/b")->size(), 2U);
  EXPECT_EQ(backend_->list_policies("t/")->front().key, "t/a");
  EXPECT_TRUE(backend_->list_policies("x")->empty());
  EXPECT_EQ(code_of(backend_->put_policy("p", std::string(kRecordBytesMax + 1, 'x'), 0)),
            Code::kTooLarge);
  // Devices and policies are different spaces.
  EXPECT_EQ(code_of(backend_->get_device("t/a")), Code::kNotFound);
}

}  // namespace larder::meta
