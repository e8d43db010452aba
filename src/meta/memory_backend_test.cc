// SPDX-License-Identifier: Apache-2.0
// What is special about memory://. What every backend must do: tests/conformance.
#include "meta/memory_backend.h"

#include <gtest/gtest.h>

#include <string>

namespace larder::meta {
namespace {

constexpr Micros kTtl = 1'000'000;

Lease node(const std::string& id) {
  Lease lease;
  lease.stable_id = id;
  return lease;
}

TEST(OpenBackend, AMemoryNameIsSharedWhileHeld) {
  auto a = open_backend("memory://shared-1");
  auto b = open_backend("memory://shared-1");
  auto other = open_backend("memory://shared-2");
  ASSERT_TRUE(a && b && other);
  ASSERT_TRUE((*a)->put_device_if_absent("disk", "one"));
  EXPECT_EQ((*b)->get_device("disk")->value, "one");
  EXPECT_FALSE((*other)->get_device("disk"));
  a->reset();
  EXPECT_TRUE((*b)->get_device("disk"));
  b->reset();
  EXPECT_FALSE((*open_backend("memory://shared-1"))->get_device("disk"));
}

TEST(OpenBackend, WithoutANameItIsPrivate) {
  auto a = open_backend("memory://");
  auto b = open_backend("memory://");
  ASSERT_TRUE(a && b);
  ASSERT_TRUE((*a)->put_policy("p", "v", 0));
  EXPECT_FALSE((*b)->get_policy("p"));
}

TEST(OpenBackend, SaysWhatItCannotOpenAndKeepsSecrets) {
  for (const char* url : {"redis://:secret@host:6379/0", "etcd://user:secret@host:2379"}) {
    const auto opened = open_backend(url);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), Code::kUnsupported);
    EXPECT_NE(opened.error().message().find("memory:// only"), std::string::npos);
    EXPECT_EQ(opened.error().message().find("secret"), std::string::npos);
  }
  for (const std::string& url : {std::string(), std::string("memory"), std::string("memory://a/b"),
                                 "memory://" + std::string(65, 'x'), std::string("http://x")}) {
    EXPECT_EQ(open_backend(url).error().code(), Code::kInvalidArgument) << url;
  }
}

TEST(MemoryBackend, CountsAreBounded) {
  const auto backend =
      make_memory_backend({.stable_ids = 3, .leases = 2, .devices = 1, .policies = 1});
  ASSERT_TRUE(backend->allocate_lease(node("a"), 0, kTtl));
  ASSERT_TRUE(backend->allocate_lease(node("b"), 0, kTtl));
  EXPECT_EQ(backend->allocate_lease(node("c"), 0, kTtl).error().code(), Code::kExhausted);
  // Expired leases make room; stable ids stay, since their marks must. Refused ones left no trace.
  EXPECT_TRUE(backend->allocate_lease(node("d"), kTtl, kTtl));
  EXPECT_EQ(backend->allocate_lease(node("e"), kTtl, kTtl).error().code(), Code::kExhausted);
  EXPECT_TRUE(backend->release_lease("d", 1));
  EXPECT_EQ(backend->allocate_lease(node("a"), kTtl, kTtl)->epoch, 2U);
  // A full backend still refreshes.
  EXPECT_TRUE(backend->allocate_lease(node("b"), kTtl, kTtl));
  EXPECT_EQ(backend->allocate_lease(node("d"), kTtl, kTtl).error().code(), Code::kExhausted);
  Lease again = node("a");
  again.epoch = 2;
  EXPECT_TRUE(backend->upsert_lease(again, kTtl, kTtl));

  ASSERT_TRUE(backend->put_device_if_absent("one", ""));
  EXPECT_EQ(backend->put_device_if_absent("two", "").error().code(), Code::kExhausted);
  ASSERT_TRUE(backend->put_policy("one", "", 0));
  EXPECT_EQ(backend->put_policy("two", "", 0).error().code(), Code::kExhausted);
}

}  // namespace
}  // namespace larder::meta
