// SPDX-License-Identifier: Apache-2.0
// What every copy engine must do, whatever the memory.
#include "platform/copy_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "env/random.h"
#include "platform/copy_route.h"
#include "platform/platform_testing.h"

namespace larder::platform {
namespace {

constexpr std::size_t kBlock = 64 << 10;
constexpr env::Nanos kLong = 10 * env::kSecond;

class CopyEngineTest : public BedTest {
 protected:
  void SetUp() override {
    BedTest::SetUp();
    if (platform == nullptr) return;
    engine = platform->create_copier({.depth = 8}).value();
    a = platform->allocate(kBlock, 0).value();
    b = platform->allocate(kBlock, 0).value();
    host = make_bytes(1, kBlock);
  }

  env::Nanos soon() { return bed->clock().now() + kLong; }

  // Lets copies end until `count` are handed back, or no more come.
  std::vector<CopyDone> collect(std::size_t count) {
    std::vector<CopyDone> all;
    std::array<CopyDone, 3> some;
    while (all.size() < count) {
      bed->let_copies_end();
      const std::size_t n = engine->wait(some, soon());
      if (n == 0) break;
      std::move(some.begin(), some.begin() + static_cast<long>(n), std::back_inserter(all));
    }
    return all;
  }

  void copy_now(const Copy& copy) {
    ASSERT_TRUE(engine->submit(copy));
    const auto done = collect(1);
    ASSERT_EQ(done.size(), 1U);
    ASSERT_TRUE(done[0].result) << done[0].result.error().to_string();
    ASSERT_EQ(done[0].tag, copy.tag);
    ASSERT_EQ(done[0].bytes, copy.bytes);
  }

  void expect_refused(const Copy& copy, Code code) {
    const auto result = engine->submit(copy);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), code) << result.error().to_string();
    EXPECT_FALSE(result.error().message().empty());
    EXPECT_EQ(engine->outstanding(), 0U);
    EXPECT_EQ(engine->in_flight(), 0U);
  }

  // After the engine: memory goes last.
  Allocation a, b;
  Bytes host;
  std::unique_ptr<CopyEngine> engine;
};

INSTANTIATE_TEST_SUITE_P(All, CopyEngineTest, testing::ValuesIn(all_beds()), bed_name);

TEST_P(CopyEngineTest, MovesTheseBytesAndNoOthers) {
  const Bytes before = make_bytes(2, kBlock);
  bed->fill(a.data(), before);
  copy_now({a.data() + 100, host.data() + 7, 5000, 11});
  Bytes expected = before;
  std::copy_n(host.begin() + 7, 5000, expected.begin() + 100);
  EXPECT_EQ(bed->read(a.data(), kBlock), expected) << "into the device";

  bed->fill(b.data(), before);
  copy_now({b.data() + 1, a.data() + 99, 5002, 12});
  Bytes within = before;
  std::copy_n(expected.begin() + 99, 5002, within.begin() + 1);
  EXPECT_EQ(bed->read(b.data(), kBlock), within) << "within the device";

  Bytes out(kBlock, std::byte{0x55});
  copy_now({out.data() + 3, b.data() + 1, 5002, 13});
  Bytes fetched(kBlock, std::byte{0x55});
  std::copy_n(within.begin() + 1, 5002, fetched.begin() + 3);
  EXPECT_EQ(out, fetched) << "out of the device";
}

TEST_P(CopyEngineTest, MovesOneByteAndAWholeAllocation) {
  copy_now({a.data() + kBlock - 1, host.data(), 1, 1});
  EXPECT_EQ(bed->read(a.data() + kBlock - 1, 1)[0], host[0]);
  copy_now({a.data(), host.data(), a.bytes(), 2});
  EXPECT_EQ(bed->read(a.data(), kBlock), host);
}

TEST_P(CopyEngineTest, MovesLargeRangesAtAnyAlignment) {
  constexpr std::size_t kLarge = (1 << 20) + 12345;
  const Allocation device = platform->allocate(kLarge + 64, 0).value();
  const Bytes from = make_bytes(3, kLarge + 64);
  Bytes back(kLarge + 64);
  for (const std::size_t shift : {0U, 1U, 17U, 63U}) {
    copy_now({device.data() + shift, from.data() + 5, kLarge, 1});
    copy_now({back.data() + 9, device.data() + shift, kLarge, 2});
    EXPECT_TRUE(std::equal(from.begin() + 5, from.begin() + 5 + kLarge, back.begin() + 9)) << shift;
  }
}

TEST_P(CopyEngineTest, WorksOnEachDevice) {
  for (int device = 0; device < platform->device_count(); ++device) {
    const Allocation there = platform->allocate(kBlock, device).value();
    copy_now({there.data(), host.data(), kBlock, 1});
    EXPECT_EQ(bed->read(there.data(), kBlock), host) << device;
  }
}

TEST_P(CopyEngineTest, NothingMovesBeforeItsTime) {
  if (!bed->holds_copies()) GTEST_SKIP() << "copies end when they like";
  bed->fill(a.data(), Bytes(kBlock));
  ASSERT_TRUE(engine->submit({a.data(), host.data(), kBlock, 1}));
  std::array<CopyDone, 2> done;
  EXPECT_EQ(engine->poll(done), 0U);
  EXPECT_EQ(engine->in_flight(), 1U);
  EXPECT_EQ(bed->read(a.data(), kBlock), Bytes(kBlock));
  bed->let_copies_end();
  EXPECT_EQ(engine->poll(done), 1U);
  EXPECT_EQ(bed->read(a.data(), kBlock), host);
  EXPECT_EQ(engine->poll(done), 0U) << "handed back twice";
}

TEST_P(CopyEngineTest, DepthIsABoundOnWhatIsNotFetched) {
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(engine->submit({a.data() + i * 64, host.data(), 64, i}));
  }
  const auto ninth = engine->submit({b.data(), host.data(), 64, 8});
  ASSERT_FALSE(ninth);
  EXPECT_EQ(ninth.error().code(), Code::kBackpressure);
  EXPECT_EQ(engine->outstanding(), 8U);
  bed->let_copies_end();
  ASSERT_TRUE(engine->quiesce(soon()));
  EXPECT_EQ(engine->in_flight(), 0U);
  EXPECT_FALSE(engine->submit({b.data(), host.data(), 64, 8})) << "ended is not fetched";
  EXPECT_EQ(collect(8).size(), 8U);
  EXPECT_TRUE(engine->submit({b.data(), host.data(), 64, 8}));
  EXPECT_EQ(collect(1).size(), 1U);
}

TEST_P(CopyEngineTest, RefusesWhatCannotBeACopy) {
  expect_refused({nullptr, host.data(), 8, 1}, Code::kInvalidArgument);
  expect_refused({a.data(), nullptr, 8, 1}, Code::kInvalidArgument);
  expect_refused({a.data(), host.data(), 0, 1}, Code::kInvalidArgument);
  expect_refused({a.data(), host.data(), UINT64_MAX, 1}, Code::kInvalidArgument);
  expect_refused({a.data(), a.data() + 10, 11, 1}, Code::kInvalidArgument);
  expect_refused({a.data() + 10, a.data(), 11, 1}, Code::kInvalidArgument);
  expect_refused({a.data(), a.data(), 1, 1}, Code::kInvalidArgument);
  copy_now({a.data(), a.data() + 10, 10, 2});  // side by side is no overlap
}

TEST_P(CopyEngineTest, RefusesARangeThatLeavesItsAllocation) {
  if (bed->takes_all()) GTEST_SKIP() << "host memory has no borders";
  const Bytes large = make_bytes(4, a.bytes() + 1);
  expect_refused({a.data(), large.data(), a.bytes() + 1, 1}, Code::kInvalidArgument);
  Bytes into(a.bytes() + 1);
  expect_refused({into.data(), a.data(), a.bytes() + 1, 1}, Code::kInvalidArgument);
  expect_refused({into.data(), a.data() + a.bytes() - 1, 2, 1}, Code::kInvalidArgument);
}

TEST_P(CopyEngineTest, RefusesACopyThatIsNotItsOwn) {
  if (bed->takes_all()) GTEST_SKIP() << "host memory is its own";
  Bytes other(64);
  expect_refused({other.data(), host.data(), 64, 1}, Code::kInvalidArgument);
}

TEST_P(CopyEngineTest, RefusesToCrossDevices) {
  if (bed->takes_all() || platform->device_count() < 2) GTEST_SKIP() << "one device";
  const Allocation there = platform->allocate(kBlock, 1).value();
  expect_refused({there.data(), a.data(), 64, 1}, Code::kUnsupported);
}

TEST_P(CopyEngineTest, PollTakesAsManyAsItHasRoomFor) {
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(engine->submit({a.data() + i * 64, host.data(), 64, i}));
  }
  bed->let_copies_end();
  EXPECT_EQ(engine->poll({}), 0U);
  EXPECT_EQ(engine->wait({}, soon()), 0U);
  EXPECT_EQ(engine->outstanding(), 5U);
  ASSERT_TRUE(engine->quiesce(soon()));
  std::array<CopyDone, 2> done;
  std::array<int, 5> seen{};
  for (const std::size_t expected : {2U, 2U, 1U, 0U}) {
    const std::size_t n = engine->poll(done);
    ASSERT_EQ(n, expected);
    for (std::size_t i = 0; i < n; ++i) ++seen[done[i].tag];
  }
  EXPECT_EQ(seen, (std::array<int, 5>{1, 1, 1, 1, 1}));
}

TEST_P(CopyEngineTest, WaitReturnsWithTheFirst) {
  bed->let_waits_end();
  ASSERT_TRUE(engine->submit({a.data(), host.data(), kBlock, 5}));
  std::array<CopyDone, 2> done;
  ASSERT_EQ(engine->wait(done, soon()), 1U);
  EXPECT_EQ(done[0].tag, 5U);
  EXPECT_EQ(bed->read(a.data(), kBlock), host);
}

TEST_P(CopyEngineTest, WaitForNothingIsShort) {
  std::array<CopyDone, 2> done;
  const env::Nanos before = bed->clock().now();
  EXPECT_EQ(engine->wait(done, before + 3600 * env::kSecond), 0U);
  EXPECT_LT(bed->clock().now(), before + 3600 * env::kSecond);
}

TEST_P(CopyEngineTest, ADeadlineSaysNothingAboutTheMemory) {
  if (!bed->holds_copies()) GTEST_SKIP() << "copies end when they like";
  ASSERT_TRUE(engine->submit({a.data(), host.data(), kBlock, 1}));
  std::array<CopyDone, 2> done;
  const env::Nanos deadline = bed->clock().now() + 500;
  EXPECT_EQ(engine->wait(done, deadline), 0U);
  EXPECT_GE(bed->clock().now(), deadline);
  const auto quiet = engine->quiesce(bed->clock().now() + 500);
  ASSERT_FALSE(quiet);
  EXPECT_EQ(quiet.error().code(), Code::kDeadlineExceeded);
  EXPECT_NE(quiet.error().message().find("1 copies"), std::string::npos);
  EXPECT_EQ(engine->in_flight(), 1U);
  EXPECT_EQ(collect(1).size(), 1U);
  EXPECT_EQ(bed->read(a.data(), kBlock), host);
}

TEST_P(CopyEngineTest, QuiesceEndsAllAndKeepsTheResults) {
  EXPECT_TRUE(engine->quiesce(0)) << "nothing to wait for";
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(engine->submit({a.data() + i * 64, host.data() + i * 64, 64, i}));
  }
  bed->let_waits_end();
  ASSERT_TRUE(engine->quiesce(soon()));
  EXPECT_EQ(engine->in_flight(), 0U);
  EXPECT_EQ(engine->outstanding(), 6U);
  EXPECT_EQ(bed->read(a.data(), 384), Bytes(host.begin(), host.begin() + 384));
  EXPECT_EQ(collect(6).size(), 6U);
  copy_now({b.data(), host.data(), 64, 7});
}

TEST_P(CopyEngineTest, NothingMovesOnceTheEngineIsGone) {
  bed->fill(a.data(), Bytes(kBlock));
  ASSERT_TRUE(engine->submit({a.data(), host.data(), kBlock, 1}));
  engine.reset();
  const Bytes after = bed->read(a.data(), kBlock);
  host = make_bytes(9, kBlock);
  bed->let_copies_end();
  EXPECT_EQ(bed->read(a.data(), kBlock), after);
}

TEST_P(CopyEngineTest, EnginesDoNotMixUpTheirCopies) {
  const auto other = platform->create_copier({.depth = 8}).value();
  ASSERT_TRUE(engine->submit({a.data(), host.data(), 64, 1}));
  ASSERT_TRUE(other->submit({b.data(), host.data(), 64, 2}));
  bed->let_copies_end();
  std::array<CopyDone, 4> done;
  ASSERT_EQ(other->wait(done, soon()), 1U);
  EXPECT_EQ(done[0].tag, 2U);
  ASSERT_EQ(engine->wait(done, soon()), 1U);
  EXPECT_EQ(done[0].tag, 1U);
}

TEST_P(CopyEngineTest, TheDepthIsChecked) {
  for (const std::size_t depth : {std::size_t{0}, kCopierDepthMax + 1}) {
    const auto made = platform->create_copier({.depth = depth});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Code::kInvalidArgument);
  }
  EXPECT_TRUE(platform->create_copier({.depth = 1}));
  EXPECT_TRUE(platform->create_copier({.depth = kCopierDepthMax}));
}

// Many copies in random order and of random sizes, each into a place of its own; the sources stay
// as they are. In the end every place holds what it must, and each copy was handed back once.
class RandomCopies {
 public:
  static constexpr std::size_t kPlaces = 64, kPlace = 1024;  // kBlock bytes in each memory

  RandomCopies(Bed& bed, std::uint64_t seed) : bed_(bed), random_(seed) {
    Platform& platform = *bed.platform();
    engine_ = platform.create_copier({.depth = 1 + draw(16)}).value();
    from_ = platform.allocate(kBlock, 0).value();
    into_ = platform.allocate(kBlock, 0).value();
    bed_.fill(from_.data(), pattern_);
    bed_.fill(into_.data(), expected_device_);
  }

  void run() {
    std::size_t next = 0;
    while (next < 2 * kPlaces || engine_->outstanding() > 0) {
      if (draw(3) > 0 && next < 2 * kPlaces) {
        if (submit(next)) ++next;
      } else if (draw(2) == 0) {
        fetch(/*wait=*/false);
      } else {
        bed_.let_copies_end();
        fetch(/*wait=*/true);
      }
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(ended_.size(), 2 * kPlaces);
    EXPECT_EQ(bed_.read(into_.data(), kBlock), expected_device_);
    EXPECT_EQ(host_into_, expected_host_);
    EXPECT_EQ(bed_.read(from_.data(), kBlock), pattern_);
  }

 private:
  std::size_t draw(std::size_t below) { return random_() % below; }

  // Copy `number` goes to a place of the device, or from kPlaces on to one of the host.
  bool submit(std::size_t number) {
    const bool to_host = number >= kPlaces;
    const bool from_host = !to_host && draw(2) == 0;
    const std::size_t bytes = 1 + draw(kPlace);
    const std::size_t source = draw(kBlock - bytes + 1);
    const std::size_t place = number % kPlaces * kPlace;
    std::byte* dst = to_host ? host_into_.data() + place : into_.data() + place;
    const std::byte* src = from_host ? pattern_.data() + source : from_.data() + source;
    const auto accepted = engine_->submit({dst, src, bytes, number});
    if (!accepted) {
      EXPECT_EQ(accepted.error().code(), Code::kBackpressure) << accepted.error().to_string();
      return false;
    }
    Bytes& expected = to_host ? expected_host_ : expected_device_;
    std::copy_n(pattern_.begin() + static_cast<long>(source), bytes,
                expected.begin() + static_cast<long>(place));
    sizes_[number] = bytes;
    return true;
  }

  void fetch(bool wait) {
    std::array<CopyDone, 5> done;
    const std::span room(done.data(), draw(done.size() + 1));
    const std::size_t n =
        wait ? engine_->wait(room, bed_.clock().now() + kLong) : engine_->poll(room);
    ASSERT_LE(n, room.size());
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_TRUE(done[i].result) << done[i].result.error().to_string();
      ASSERT_EQ(sizes_.at(done[i].tag), done[i].bytes);
      ASSERT_EQ(++ended_[done[i].tag], 1);
    }
  }

  Bed& bed_;
  std::mt19937_64 random_;
  const Bytes pattern_ = make_bytes(6, kBlock);
  Bytes expected_device_ = make_bytes(7, kBlock);
  Bytes host_into_ = make_bytes(8, kBlock);
  Bytes expected_host_ = host_into_;
  std::map<std::uint64_t, std::uint64_t> sizes_;
  std::map<std::uint64_t, int> ended_;
  Allocation from_, into_;
  std::unique_ptr<CopyEngine> engine_;
};

TEST_P(CopyEngineTest, RandomCopiesEndOnceAndRight) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t seed = env::random_u64();
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomCopies(*bed, seed).run();
    if (HasFailure()) return;
  }
}

TEST(CopyRoute, DirectionComesFromThePlaces) {
  const Location zero{MemoryType::kNpu, 0};
  const Location one{MemoryType::kNpu, 1};
  EXPECT_EQ(derive_route(zero, std::nullopt, "x")->direction, CopyDirection::kIn);
  EXPECT_EQ(derive_route(std::nullopt, one, "x")->direction, CopyDirection::kOut);
  EXPECT_EQ(derive_route(std::nullopt, one, "x")->device, 1);
  EXPECT_EQ(derive_route(one, one, "x")->direction, CopyDirection::kWithin);
  EXPECT_EQ(derive_route(zero, one, "x").error().code(), Code::kUnsupported);
  EXPECT_EQ(derive_route(std::nullopt, std::nullopt, "x").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(direction_name(CopyDirection::kIn), "in");
  EXPECT_EQ(direction_name(CopyDirection::kOut), "out");
  EXPECT_EQ(direction_name(CopyDirection::kWithin), "within");
}

}  // namespace
}  // namespace larder::platform
