// SPDX-License-Identifier: Apache-2.0
#include "platform/sim.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "env/fd.h"
#include "env/random.h"
#include "platform/platform_testing.h"

namespace larder::platform {
namespace {

constexpr std::uint64_t kRate = 1'000'000'000;  // a byte takes a nanosecond

class SimTest : public testing::Test {
 protected:
  void open(const SimFaults& faults = {}) {
    SimOptions options;
    options.devices = 2;
    options.device_bytes = 1 << 20;
    options.in = {kRate, 100};
    options.out = {kRate / 2, 0};
    options.faults = faults;
    options.clock = &clock;
    sim = SimPlatform::create(options).value();
    engine = sim->create_copier({.depth = 256}).value();
    memory = sim->allocate(64 << 10, 0).value();
  }
  void SetUp() override { open(); }

  std::vector<CopyDone> poll() {
    std::vector<CopyDone> done(256);
    done.resize(engine->poll(done));
    return done;
  }
  bool submit(void* dst, const void* src, std::uint64_t bytes, std::uint64_t tag = 0) {
    return engine->submit({dst, src, bytes, tag}).has_value();
  }
  Bytes peek(const void* ptr, std::size_t bytes) {
    Bytes got(bytes);
    EXPECT_TRUE(sim->peek(ptr, got));
    return got;
  }

  env::ManualClock clock;
  std::unique_ptr<SimPlatform> sim;
  Bytes host = make_bytes(1, 64 << 10);  // goes after the engine, which may copy from it
  Allocation memory;
  std::unique_ptr<CopyEngine> engine;
};

using SimDeathTest = SimTest;

TEST_F(SimDeathTest, TheCpuCannotTouchDeviceMemory) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  volatile std::byte* at = memory.data();
  EXPECT_DEATH({ [[maybe_unused]] const std::byte b = *at; }, "");
  EXPECT_DEATH({ *at = std::byte{1}; }, "");
}

TEST_F(SimTest, NeitherCanTheKernel) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const env::Fd out(ends[0]);
  const env::Fd in(ends[1]);
  EXPECT_EQ(::write(in.get(), memory.data(), 16), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(SimTest, BandwidthAndLatencyTakeTheirTime) {
  ASSERT_TRUE(submit(memory.data(), host.data(), 1000));
  clock.advance(1099);
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(peek(memory.data(), 1000), Bytes(1000));
  clock.advance(1);
  EXPECT_EQ(poll().size(), 1U);
  EXPECT_EQ(peek(memory.data(), 1000), Bytes(host.begin(), host.begin() + 1000));
}

TEST_F(SimTest, BytesAreReadWhenTheCopyEndsNotWhenItBegins) {
  ASSERT_TRUE(submit(memory.data(), host.data(), 4));
  const Bytes later = make_bytes(2, 4);
  std::copy(later.begin(), later.end(), host.begin());
  clock.advance(104);
  EXPECT_EQ(poll().size(), 1U);
  EXPECT_EQ(peek(memory.data(), 4), later);
}

TEST_F(SimTest, CopiesOfOneDirectionQueue) {
  ASSERT_TRUE(submit(memory.data(), host.data(), 1000, 1));
  ASSERT_TRUE(submit(memory.data() + 4096, host.data(), 1000, 2));
  clock.advance(1100);
  const auto first = poll();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].tag, 1U);
  clock.advance(999);  // the second follows by its bytes: its latency runs beside the first's
  EXPECT_TRUE(poll().empty());
  clock.advance(1);
  EXPECT_EQ(poll().size(), 1U);
}

TEST_F(SimTest, DirectionsAndDevicesDoNotQueueBehindEachOther) {
  const Allocation other = sim->allocate(4096, 1).value();
  Bytes back(4096);
  ASSERT_TRUE(submit(memory.data(), host.data(), 60000, 1));
  ASSERT_TRUE(submit(back.data(), memory.data() + 61000, 1000, 2));
  ASSERT_TRUE(submit(other.data(), host.data(), 2000, 3));
  ASSERT_TRUE(submit(memory.data() + 61000, memory.data() + 63000, 1000, 4));  // no limit within
  const auto at_once = poll();
  ASSERT_EQ(at_once.size(), 1U);
  EXPECT_EQ(at_once[0].tag, 4U);
  clock.advance(2000);
  EXPECT_EQ(poll().at(0).tag, 2U);
  clock.advance(100);
  EXPECT_EQ(poll().at(0).tag, 3U);
}

TEST_F(SimTest, EnginesShareALink) {
  const auto second = sim->create_copier({}).value();
  ASSERT_TRUE(submit(memory.data(), host.data(), 1000));
  ASSERT_TRUE(second->submit({memory.data() + 4096, host.data(), 1000, 2}));
  clock.advance(1100);
  CopyDone done;
  EXPECT_EQ(second->poll({&done, 1}), 0U);
  clock.advance(1000);
  EXPECT_EQ(second->poll({&done, 1}), 1U);
}

TEST_F(SimTest, WaitingMovesAManualClockToTheEndOfTheCopy) {
  const env::Nanos start = clock.now();
  ASSERT_TRUE(submit(memory.data(), host.data(), 1000));
  CopyDone done;
  EXPECT_EQ(engine->wait({&done, 1}, start + 500), 0U);
  EXPECT_EQ(clock.now(), start + 500);
  EXPECT_EQ(engine->wait({&done, 1}, start + env::kSecond), 1U);
  EXPECT_EQ(clock.now(), start + 1100);
}

TEST_F(SimTest, TheMachinesClockWorksToo) {
  SimOptions options;
  options.in.latency = 200 * env::kMicro;
  sim = SimPlatform::create(options).value();
  engine = sim->create_copier({}).value();
  memory = sim->allocate(4096, 0).value();
  const env::Nanos start = env::system_clock().now();
  ASSERT_TRUE(submit(memory.data(), host.data(), 4096));
  CopyDone done;
  ASSERT_EQ(engine->wait({&done, 1}, start + 60 * env::kSecond), 1U);
  EXPECT_GE(env::system_clock().now(), start + 200 * env::kMicro);
  EXPECT_EQ(peek(memory.data(), 4096), Bytes(host.begin(), host.begin() + 4096));
}

TEST_F(SimTest, ErrorsLeaveAnythingInTheDestination) {
  ASSERT_TRUE(sim->set_faults({.seed = 7, .error = 1}));
  ASSERT_TRUE(submit(memory.data(), host.data(), 1000, 5));
  clock.advance(env::kSecond);
  const auto done = poll();
  ASSERT_EQ(done.size(), 1U);
  ASSERT_FALSE(done[0].result);
  EXPECT_EQ(done[0].result.error().code(), Code::kUnavailable);
  EXPECT_EQ(done[0].tag, 5U);
  EXPECT_NE(peek(memory.data(), 1000), Bytes(host.begin(), host.begin() + 1000));
}

TEST_F(SimTest, LateCopiesEndLater) {
  ASSERT_TRUE(sim->set_faults({.seed = 7, .late = 1, .late_by = 5000}));
  ASSERT_TRUE(submit(memory.data(), host.data(), 1000));
  clock.advance(6099);
  EXPECT_TRUE(poll().empty());
  clock.advance(1);
  const auto done = poll();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_TRUE(done[0].result);
}

TEST_F(SimTest, LostCopiesEndInQuiesceAndTouchTheirMemoryThen) {
  ASSERT_TRUE(sim->set_faults({.seed = 7, .lost = 1}));
  ASSERT_TRUE(submit(memory.data(), host.data(), 1000, 3));
  ASSERT_TRUE(sim->set_faults({}));
  clock.advance(env::kSecond);
  EXPECT_TRUE(poll().empty());
  CopyDone done;
  EXPECT_EQ(engine->wait({&done, 1}, clock.now() + 1000), 0U);
  EXPECT_EQ(engine->in_flight(), 1U);
  EXPECT_EQ(peek(memory.data(), 1000), Bytes(1000));
  ASSERT_TRUE(engine->quiesce(clock.now() + env::kSecond));
  EXPECT_EQ(peek(memory.data(), 1000), Bytes(host.begin(), host.begin() + 1000));
  EXPECT_EQ(engine->in_flight(), 0U);
  ASSERT_EQ(engine->poll({&done, 1}), 1U);
  ASSERT_FALSE(done.result);
  EXPECT_EQ(done.result.error().code(), Code::kUnavailable);
}

TEST_F(SimTest, LostCopiesCountAgainstTheDepth) {
  ASSERT_TRUE(sim->set_faults({.seed = 7, .lost = 1}));
  const auto shallow = sim->create_copier({.depth = 1}).value();
  ASSERT_TRUE(shallow->submit({memory.data(), host.data(), 8, 1}));
  clock.advance(env::kSecond);
  const auto second = shallow->submit({memory.data(), host.data(), 8, 2});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kBackpressure);
}

// What happens to copy after copy, as text.
std::string fates(std::uint64_t seed) {
  env::ManualClock clock;
  SimOptions options;
  options.clock = &clock;
  options.faults = {.seed = seed, .error = 0.2, .late = 0.2, .lost = 0.2, .late_by = 1000};
  const auto sim = SimPlatform::create(options).value();
  const Allocation memory = sim->allocate(4096, 0).value();
  const auto engine = sim->create_copier({}).value();
  const Bytes host(8);
  std::string text;
  std::vector<CopyDone> done(1);
  for (std::uint64_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(engine->submit({memory.data(), host.data(), 8, i}));
    if (engine->poll(done) == 1) {
      text += done[0].result ? '.' : 'E';
    } else {
      clock.advance(1000);
      text += engine->poll(done) == 1 ? 'L' : '?';
    }
  }
  return text;
}

TEST(SimFaultsTest, ComeFromTheSeed) {
  const std::uint64_t seed = env::random_u64();
  const std::string once = fates(seed);
  EXPECT_EQ(fates(seed), once) << "seed " << seed;
  const std::string known = fates(1);
  EXPECT_NE(known, fates(2));
  for (const char kind : {'.', 'E', 'L', '?'}) {
    EXPECT_NE(known.find(kind), std::string::npos) << kind;
  }
}

TEST_F(SimTest, RandomFaultsLoseNoCopy) {
  const std::uint64_t seed = env::random_u64();
  SCOPED_TRACE("seed " + std::to_string(seed));
  ASSERT_TRUE(sim->set_faults({.seed = seed, .error = 0.3, .late = 0.3, .lost = 0.3}));
  constexpr std::size_t kCopies = 200;
  std::vector<int> ended(kCopies);
  for (std::size_t i = 0; i < kCopies; ++i) {
    ASSERT_TRUE(submit(memory.data() + i * 64, host.data() + i * 64, 64, i));
    for (const CopyDone& done : poll()) ++ended[done.tag];
    clock.advance(50);
  }
  ASSERT_TRUE(engine->quiesce(clock.now() + env::kSecond));
  for (const CopyDone& done : poll()) ++ended[done.tag];
  EXPECT_EQ(ended, std::vector<int>(kCopies, 1));
}

TEST_F(SimTest, FreedMemoryIsFoundAndCounted) {
  ASSERT_TRUE(submit(memory.data(), host.data(), 64));
  const std::byte* data = memory.data();
  memory = Allocation();
  EXPECT_EQ(sim->freed_in_flight(), 1U);
  const auto dangling = sim->locate(data, 64);
  ASSERT_FALSE(dangling);
  EXPECT_EQ(dangling.error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(submit(const_cast<std::byte*>(data), host.data(), 64));
  clock.advance(env::kSecond);
  EXPECT_EQ(poll().size(), 1U);
  memory = sim->allocate(64 << 10, 0).value();
  memory = Allocation();
  EXPECT_EQ(sim->freed_in_flight(), 1U) << "nothing touched the second one";
}

TEST_F(SimTest, ADroppedEngineTouchesNothing) {
  ASSERT_TRUE(submit(memory.data(), host.data(), 64));
  engine.reset();
  memory = Allocation();
  EXPECT_EQ(sim->freed_in_flight(), 0U);
}

TEST_F(SimTest, HolesAreUsedAgainAndEmpty) {
  const Allocation first = sim->allocate(4096, 1).value();
  Allocation second = sim->allocate(8192, 1).value();
  const Allocation third = sim->allocate(4096, 1).value();
  std::byte* at = second.data();
  ASSERT_TRUE(sim->poke(at, make_bytes(3, 8192)));
  EXPECT_EQ(sim->used_bytes(1), 16384U);
  second = Allocation();
  EXPECT_EQ(sim->used_bytes(1), 8192U);
  const Allocation again = sim->allocate(4096, 1).value();
  EXPECT_EQ(again.data(), at);
  EXPECT_EQ(peek(at, 4096), Bytes(4096));
  EXPECT_EQ(sim->used_bytes(2), 0U);
}

TEST_F(SimTest, PeekAndPokeStayInOneAllocation) {
  Bytes bytes(16);
  for (std::byte* at : {memory.data() + memory.bytes() - 8, host.data()}) {
    EXPECT_EQ(sim->peek(at, bytes).error().code(), Code::kInvalidArgument);
    EXPECT_EQ(sim->poke(at, bytes).error().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(sim->poke(memory.data(), {}).error().code(), Code::kInvalidArgument);
}

TEST_F(SimTest, EnginesAndMemoryOutliveThePlatform) {
  ASSERT_TRUE(submit(memory.data(), host.data(), 64));
  sim.reset();
  clock.advance(env::kSecond);
  EXPECT_EQ(poll().size(), 1U);
  Bytes back(64);
  ASSERT_TRUE(submit(back.data(), memory.data(), 64));
  clock.advance(env::kSecond);
  EXPECT_EQ(poll().size(), 1U);
  EXPECT_TRUE(std::equal(back.begin(), back.end(), host.begin()));
}

TEST(Sim, Names) {
  SimOptions options;
  EXPECT_EQ(SimPlatform::create(options).value()->name(), "sim-npu");
  options.type = MemoryType::kCuda;
  options.devices = 3;
  const auto sim = SimPlatform::create(options).value();
  EXPECT_EQ(sim->name(), "sim-cuda");
  EXPECT_EQ(sim->type(), MemoryType::kCuda);
  EXPECT_EQ(sim->device_count(), 3);
}

TEST(Sim, DevicesThatNoAddressSpaceHoldsAreRefused) {
  SimOptions options;
  options.devices = kSimDevicesMax;
  options.device_bytes = kSimDeviceBytesMax;  // twice mapped: more than the 128 TiB of a process
  const auto made = SimPlatform::create(options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kExhausted);
}

TEST(Sim, OptionsAreChecked) {
  const auto refused = [](auto change) {
    SimOptions options;
    change(options);
    const auto made = SimPlatform::create(options);
    return !made && made.error().code() == Code::kInvalidArgument &&
           !made.error().message().empty();
  };
  EXPECT_FALSE(refused([](SimOptions&) {}));
  EXPECT_TRUE(refused([](SimOptions& o) { o.type = MemoryType::kCpu; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.type = MemoryType::kUnknown; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.devices = 0; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.devices = kSimDevicesMax + 1; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.device_bytes = 0; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.device_bytes = 4097; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.device_bytes = 2 * kSimDeviceBytesMax; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.clock = nullptr; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.in.latency = -1; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.out.latency = -1; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.within.latency = env::kSecond * 3601; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.faults.error = 1.5; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.faults.late = -0.1; }));
  EXPECT_TRUE(
      refused([](SimOptions& o) { o.faults.lost = std::numeric_limits<double>::quiet_NaN(); }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.faults.error = o.faults.lost = 0.6; }));
  EXPECT_TRUE(refused([](SimOptions& o) { o.faults.late_by = -1; }));
  const auto sim = SimPlatform::create({}).value();
  EXPECT_EQ(sim->set_faults({.error = 2}).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace larder::platform
