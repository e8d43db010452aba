// SPDX-License-Identifier: Apache-2.0
// A batch of values, byte by byte, without a network: what is kept, what is refused, and that no
// reservation is lost.
#include "node/put_call.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "node/node_testing.h"
#include "wire/message.h"

namespace larder::node {
namespace {

struct Part {
  std::string key;
  Bytes value;
  bool damaged = false;
};

class PutCallTest : public testing::Test {
 protected:
  wire::KeyList keys_of(const std::vector<Part>& parts) {
    wire::KeyList keys{"t", "d", "o", {}};
    for (const Part& part : parts) keys.keys.emplace_back(part.key);
    return keys;
  }
  static pb::PutRequest request_of(const std::vector<Part>& parts) {
    pb::PutRequest request;
    for (const Part& part : parts) request.add_lengths(part.value.size());
    return request;
  }
  static Bytes payload_of(const std::vector<Part>& parts) {
    Bytes payload;
    for (const Part& part : parts) {
      payload.insert(payload.end(), part.value.begin(), part.value.end());
      std::uint64_t sum = checksum64(part.value);
      if (part.damaged) sum ^= 1;
      const auto* bytes = reinterpret_cast<const std::byte*>(&sum);
      payload.insert(payload.end(), bytes, bytes + sizeof(sum));
    }
    return payload;
  }
  // Hands the bytes over as a socket would: at most `step` at a time, into the places asked for.
  static void feed(PutCall& call, ConstBytes bytes, std::size_t step, std::size_t places = 16) {
    std::vector<iovec> into(places);
    while (!bytes.empty()) {
      const std::size_t count = call.next(into);
      ASSERT_GT(count, 0U);
      std::size_t taken = 0;
      const std::size_t limit = std::min(step, bytes.size());
      for (std::size_t i = 0; i < count && taken < limit; ++i) {
        const std::size_t n = std::min(into[i].iov_len, limit - taken);
        std::memcpy(into[i].iov_base, bytes.data() + taken, n);
        taken += n;
      }
      ASSERT_GT(taken, 0U);
      call.advance(taken);
      bytes = bytes.subspan(taken);
    }
  }
  static pb::PutReply finish(PutCall& call) {
    const rpc::Reply reply = call.finish();
    pb::PutReply body;
    EXPECT_EQ(reply.code, Code::kOk);
    EXPECT_TRUE(body.ParseFromString(reply.frame.substr(wire::kHeaderBytes)));
    return body;
  }
  pb::PutReply put(const std::vector<Part>& parts, pb::PutRequest request, std::size_t step) {
    PutCall call(store_.core, {});
    const Bytes payload = payload_of(parts);
    const auto begun = call.begin(request, keys_of(parts), payload.size(), true);
    EXPECT_TRUE(begun) << begun.error().to_string();
    feed(call, payload, step);
    return finish(call);
  }
  pb::PutReply put(const std::vector<Part>& parts, std::size_t step = 1 << 20) {
    return put(parts, request_of(parts), step);
  }

  TestStore store_;
};

TEST_F(PutCallTest, EveryCutOfTheStreamGivesTheSame) {
  for (const std::size_t step : {1UL, 7UL, 8UL, 9UL, 1000UL, 1UL << 20}) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < 40; ++i) {
      parts.push_back({"k" + std::to_string(step) + "/" + std::to_string(i),
                       make_value(i, 1 + (i * 131) % 700)});
    }
    const pb::PutReply reply = put(parts, step);
    ASSERT_EQ(reply.codes_size(), 40);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(reply.codes(static_cast<int>(i)), 0U);
      EXPECT_TRUE(store_.holds(parts[i].key, parts[i].value)) << parts[i].key;
    }
  }
  EXPECT_TRUE(store_.adds_up());
}

TEST_F(PutCallTest, OnePlaceAtATimeIsEnough) {
  const std::vector<Part> parts = {{"a", make_value(1, 300)}, {"b", make_value(2, 300)}};
  store_.store("b", make_value(2, 300));
  PutCall call(store_.core, {});
  const Bytes payload = payload_of(parts);
  ASSERT_TRUE(call.begin(request_of(parts), keys_of(parts), payload.size(), true));
  feed(call, payload, 50, 1);
  const pb::PutReply reply = finish(call);
  EXPECT_EQ(reply.flags(1), wire::kPutAlreadyStored);
  EXPECT_TRUE(store_.holds("a", parts[0].value));
}

TEST_F(PutCallTest, ADamagedValueIsRefusedAlone) {
  std::vector<Part> parts = {{"a", make_value(1, 300)},
                             {"b", make_value(2, 90'000)},
                             {"c", make_value(3, 300)},
                             {"d", make_value(4, 200)}};
  store_.store("d", parts[3].value);
  parts[1].damaged = true;
  parts[3].damaged = true;  // compared, not stored: also no reason to say yes
  const pb::PutReply reply = put(parts);
  EXPECT_EQ(reply.codes(0), 0U);
  EXPECT_EQ(static_cast<Code>(reply.codes(1)), Code::kCorrupt);
  EXPECT_EQ(reply.codes(2), 0U);
  EXPECT_EQ(static_cast<Code>(reply.codes(3)), Code::kCorrupt);
  EXPECT_FALSE(store_.find("b"));
  EXPECT_TRUE(store_.holds("c", parts[2].value));
  ASSERT_EQ(reply.errors_size(), 2);
  EXPECT_EQ(reply.errors(0).item(), 1U);
  EXPECT_TRUE(store_.adds_up());
}

TEST_F(PutCallTest, OtherBytesOfTheSameLengthReplaceAtOnceWhereThereIsSpace) {
  const std::vector<Part> first = {{"a", make_value(1, 500)}};
  const std::vector<Part> other = {{"a", make_value(2, 500)}};
  const std::uint64_t version = put(first).versions(0);
  const pb::PutReply reply = put(other);
  EXPECT_EQ(reply.codes(0), 0U);
  EXPECT_EQ(reply.flags(0), 0U);
  EXPECT_GT(reply.versions(0), version);
  EXPECT_TRUE(store_.holds("a", other[0].value));
  EXPECT_TRUE(store_.adds_up());
}

TEST_F(PutCallTest, OtherBytesOfTheSameLengthAreAskedForAgainWhereThereIsNone) {
  const std::vector<Part> first = {{"a", make_value(1, 500)}};
  const std::vector<Part> other = {{"a", make_value(2, 500)}};
  put(first);
  store_.store("filler", make_value(3, store_.core.hot->capacity() / 10 * 9));
  pb::PutReply reply = put(other);
  EXPECT_EQ(reply.flags(0), wire::kPutResend);
  EXPECT_TRUE(store_.holds("a", first[0].value));
  pb::PutRequest request = request_of(other);
  request.set_force(true);
  reply = put(other, request, 1 << 20);
  EXPECT_EQ(reply.codes(0), 0U);
  EXPECT_TRUE(store_.holds("a", other[0].value));
  EXPECT_EQ(put(other).flags(0), wire::kPutAlreadyStored);
  EXPECT_TRUE(store_.adds_up());
}

TEST_F(PutCallTest, IfAbsentReplacesNothingEvenByForce) {
  const std::vector<Part> first = {{"a", make_value(1, 500)}};
  const std::vector<Part> other = {{"a", make_value(2, 500)}};
  put(first);
  pb::PutRequest request = request_of(other);
  request.set_mode(1);
  for (const bool force : {false, true}) {
    request.set_force(force);
    const pb::PutReply reply = put(other, request, 1 << 20);
    EXPECT_EQ(static_cast<Code>(reply.codes(0)), Code::kAlreadyExists) << force;
    EXPECT_TRUE(store_.holds("a", first[0].value)) << force;
  }
  pb::PutRequest again = request_of(first);
  again.set_mode(1);
  again.set_force(true);
  EXPECT_EQ(put(first, again, 1 << 20).flags(0), wire::kPutAlreadyStored);
  EXPECT_TRUE(store_.adds_up());
}

TEST_F(PutCallTest, AnAbandonedCallGivesEverythingBack) {
  const std::vector<Part> parts = {
      {"a", make_value(1, 5000)}, {"b", make_value(2, 90'000)}, {"c", make_value(3, 700)}};
  const Bytes payload = payload_of(parts);
  for (const std::size_t cut : {0UL, 1UL, 4999UL, 5000UL, 5007UL, 5008UL, 60'000UL, 95'700UL}) {
    {
      PutCall call(store_.core, {});
      ASSERT_TRUE(call.begin(request_of(parts), keys_of(parts), payload.size(), true));
      feed(call, std::span(payload).first(cut), 4096);
    }
    EXPECT_TRUE(store_.adds_up()) << cut;
  }
  EXPECT_TRUE(store_.holds("a", parts[0].value));  // complete before the cut: stored
  EXPECT_FALSE(store_.find("c"));
}

TEST_F(PutCallTest, RequestsThatContradictThemselves) {
  const std::vector<Part> parts = {{"a", make_value(1, 100)}};
  const wire::KeyList keys = keys_of(parts);
  const auto refuse = [&](const pb::PutRequest& request, std::uint64_t bytes, bool local = true) {
    PutCall call(store_.core, {});
    const auto begun = call.begin(request, keys, bytes, local);
    return begun ? Code::kOk : begun.error().code();
  };
  pb::PutRequest request = request_of(parts);
  EXPECT_EQ(refuse(request, 108), Code::kOk);
  EXPECT_EQ(refuse(request, 107), Code::kInvalidArgument);
  EXPECT_EQ(refuse(request, 109), Code::kInvalidArgument);
  request.set_mode(2);
  EXPECT_EQ(refuse(request, 108), Code::kInvalidArgument);
  request.set_mode(0);
  request.set_buffer_id(4711);
  EXPECT_EQ(refuse(request, 16), Code::kConflict);
  EXPECT_EQ(refuse(request, 16, false), Code::kConflict);
  request.set_buffer_id(0);
  request.set_lengths(0, ~0ULL);
  EXPECT_EQ(refuse(request, 7), Code::kInvalidArgument);
  request.add_lengths(1);
  EXPECT_EQ(refuse(request, 117), Code::kInvalidArgument);
  EXPECT_TRUE(store_.adds_up());
}

// ---- values in shared memory ----

class DescriptorTest : public PutCallTest {
 protected:
  static constexpr std::uint64_t kBytes = wire::kWindowDataAt + (1 << 20);

  void SetUp() override {
    env::Fd fd(::memfd_create("test-window", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
    ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    ASSERT_NE(memory_, MAP_FAILED);
    new (memory_) wire::WindowHeader();
    auto adopted = store_.core.buffers.adopt(std::move(fd), kBytes);
    ASSERT_TRUE(adopted) << adopted.error().to_string();
    id_ = adopted->first;
    keeper_ = std::move(adopted->second);
  }
  void TearDown() override { ::munmap(memory_, kBytes); }

  pb::PutReply put(const std::vector<Part>& parts, const std::vector<wire::Descriptor>& list) {
    PutCall call(store_.core, {});
    pb::PutRequest request = request_of(parts);
    request.set_buffer_id(id_);
    const auto bytes = std::as_bytes(std::span(list));
    EXPECT_TRUE(call.begin(request, keys_of(parts), bytes.size(), true));
    feed(call, bytes, 5);
    return finish(call);
  }
  std::uint64_t consumed() const {
    return reinterpret_cast<wire::WindowHeader*>(memory_)->consumed.load();
  }
  std::byte* data() { return memory_ + wire::kWindowDataAt; }

  std::byte* memory_ = nullptr;
  std::uint64_t id_ = 0;
  std::shared_ptr<void> keeper_;
};

TEST_F(DescriptorTest, ValuesAreCopiedFromWhereTheyLie) {
  const std::vector<Part> parts = {{"a", make_value(1, 1000)}, {"b", make_value(2, 300'000)}};
  std::memcpy(data(), parts[0].value.data(), 1000);
  std::memcpy(data() + 5000, parts[1].value.data(), 300'000);
  const std::uint64_t at = wire::kWindowDataAt;
  const pb::PutReply reply = put(
      parts, {{at, 1000, 0}, {at + 5000, 262'144, 1}, {at + 5000 + 262'144, 300'000 - 262'144, 1}});
  EXPECT_EQ(reply.codes(0), 0U);
  EXPECT_EQ(reply.codes(1), 0U);
  EXPECT_TRUE(store_.holds("a", parts[0].value));
  EXPECT_TRUE(store_.holds("b", parts[1].value));
  EXPECT_EQ(consumed(), 3U);
}

TEST_F(DescriptorTest, WhatMakesNoSenseIsRefusedFromThereOn) {
  const std::vector<Part> parts = {
      {"a", make_value(1, 1000)}, {"b", make_value(2, 1000)}, {"", make_value(3, 10)}};
  std::memcpy(data(), parts[0].value.data(), 1000);
  const std::uint64_t at = wire::kWindowDataAt;
  const std::vector<wire::Descriptor> wrong = {
      {at, 1000, 0},           // the first item's again
      {at, 1000, 7},           // no such item
      {at - 1, 1000, 1},       // the header
      {0, 1000, 1},            //
      {kBytes - 10, 1000, 1},  // beyond the end
      {~0ULL - 5, 1000, 1},    // wraps around
      {at, 0, 1},              // empty
      {at, 1001, 1},           // more than the value
      {at, 300'000, 1},        // more than one may name
  };
  for (const wire::Descriptor& bad : wrong) {
    const pb::PutReply reply = put(parts, {{at, 1000, 0}, bad, {at, 1000, 1}});
    ASSERT_EQ(reply.codes_size(), 3);
    EXPECT_EQ(reply.codes(0), 0U);
    EXPECT_EQ(static_cast<Code>(reply.codes(1)), Code::kInvalidArgument) << bad.offset;
    EXPECT_EQ(static_cast<Code>(reply.codes(2)), Code::kInvalidArgument);
    EXPECT_FALSE(store_.find("b"));
    EXPECT_TRUE(store_.adds_up());
  }
  EXPECT_EQ(consumed(), 3 * wrong.size());  // each is dealt with, or the client would wait for ever
}

TEST_F(DescriptorTest, BuffersEndWithTheirKeeper) {
  EXPECT_EQ(store_.core.buffers.size(), 1U);
  EXPECT_TRUE(store_.core.buffers.find(id_));
  EXPECT_FALSE(store_.core.buffers.find(id_ + 1));
  keeper_.reset();
  EXPECT_EQ(store_.core.buffers.size(), 0U);
  EXPECT_FALSE(store_.core.buffers.find(id_));
}

TEST_F(DescriptorTest, MemoryThatIsNotAWindowIsRefused) {
  ClientBuffers& buffers = store_.core.buffers;
  const auto adopt = [&](env::Fd fd, std::uint64_t bytes) {
    const auto adopted = buffers.adopt(std::move(fd), bytes);
    return adopted ? Code::kOk : adopted.error().code();
  };
  const auto make = [](std::uint64_t bytes, bool sealed) {
    env::Fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    EXPECT_TRUE(!sealed || ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
  };
  EXPECT_NE(adopt(make(kBytes, true), kBytes), Code::kOk);   // no magic
  EXPECT_NE(adopt(make(kBytes, false), kBytes), Code::kOk);  // could shrink under us
  EXPECT_NE(adopt(make(4096, true), kBytes), Code::kOk);     // smaller than told
  EXPECT_NE(adopt(make(kBytes, true), 0), Code::kOk);        //
  EXPECT_NE(adopt(make(kBytes, true), ~0ULL), Code::kOk);    //
  EXPECT_NE(adopt(env::Fd(::open("/dev/null", O_RDWR)), kBytes), Code::kOk);
  EXPECT_NE(adopt(env::Fd(), kBytes), Code::kOk);
  EXPECT_EQ(buffers.size(), 1U);
}

TEST_F(DescriptorTest, HintsOfAnyKindAreHarmless) {
  auto& ring = *reinterpret_cast<wire::TouchRing*>(memory_ + wire::kTouchRingAt);
  std::vector<std::uint32_t> seen;
  const auto drain = [&] {
    seen.clear();
    store_.core.buffers.drain_hints([&](std::uint32_t slot) {
      seen.push_back(slot);
      store_.core.hot->touch(slot);
    });
  };
  ring.slots[0] = 5;
  ring.slots[1] = ~0U;
  ring.head = 2;
  drain();
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{5, ~0U}));
  drain();
  EXPECT_TRUE(seen.empty());
  ring.head = ~0ULL;  // jumps: at most a ringful is looked at
  drain();
  EXPECT_EQ(seen.size(), wire::kTouchSlots);
  ring.head = 1;  // and back
  drain();
  EXPECT_LE(seen.size(), wire::kTouchSlots);
}

}  // namespace
}  // namespace larder::node
