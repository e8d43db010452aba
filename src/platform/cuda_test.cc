// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda.h"

#include <gtest/gtest.h>

#include <array>

#include "platform/cuda_testing.h"
#include "platform/platform_testing.h"

namespace larder::platform {
namespace {

class CudaTest : public testing::Test {
 protected:
  Result<std::unique_ptr<CudaPlatform>> create(std::uint64_t limit = UINT64_MAX) {
    CudaOptions options;
    options.driver = fake.driver();
    options.clock = &clock;
    options.device_limit = limit;
    return CudaPlatform::create(options);
  }
  void open() {
    cuda = create().value();
    engine = cuda->create_copier({.depth = 16}).value();
    memory = cuda->allocate(8192, 0).value();
  }
  std::vector<CopyDone> poll() {
    std::vector<CopyDone> done(16);
    done.resize(engine->poll(done));
    return done;
  }
  // Everything that was pushed was popped, and every context given back that was taken.
  void expect_nothing_left() {
    EXPECT_TRUE(fake.current.empty());
    EXPECT_TRUE(fake.streams.empty());
    EXPECT_TRUE(fake.events.empty());
    EXPECT_TRUE(fake.orphans.empty());
    for (const FakeCuda::Device& device : fake.devices) {
      EXPECT_EQ(device.retained, 0);
      EXPECT_TRUE(device.spans.empty());
    }
  }

  FakeCuda fake;
  env::ManualClock clock;
  std::unique_ptr<CudaPlatform> cuda;
  Bytes host = make_bytes(1, 8192);  // goes after the engine, which may copy from it
  Allocation memory;
  std::unique_ptr<CopyEngine> engine;
};

void expect_text(const Error& error, Code code, std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(error.code(), code) << error.to_string();
  for (const std::string_view part : parts) {
    EXPECT_NE(error.message().find(part), std::string::npos) << part << " in " << error.message();
  }
}

TEST(CudaDriverTable, NoLibraryIsUnsupported) {
  const auto none = load_cuda_driver("liblarder-no-such-driver.so.1");
  ASSERT_FALSE(none);
  expect_text(none.error(), Code::kUnsupported, {"liblarder-no-such-driver.so.1"});
}

TEST(CudaDriverTable, AnotherLibraryIsUnsupported) {
  const auto other = load_cuda_driver("libc.so.6");
  ASSERT_FALSE(other);
  expect_text(other.error(), Code::kUnsupported, {"libc.so.6", "cuInit"});
}

TEST(CudaDriverTable, ErrorsNameTheCallAndCudasOwnName) {
  FakeCuda fake;
  const auto driver = fake.driver();
  expect_text(cuda_error(*driver, kCuOutOfMemory, "cuMemAlloc", "12 bytes"), Code::kExhausted,
              {"cuMemAlloc", "12 bytes", "CUDA_ERROR_OUT_OF_MEMORY", "2", "out of memory"});
  expect_text(cuda_error(*driver, kCuIllegalAddress, "cuEventQuery"), Code::kUnavailable,
              {"cuEventQuery: ", "700", "no text"});
  EXPECT_EQ(cuda_error(*driver, kCuInvalidValue, "x").code(), Code::kInvalidArgument);
  EXPECT_EQ(cuda_error(*driver, kCuNoDevice, "x").code(), Code::kUnsupported);
  EXPECT_EQ(cuda_error(*driver, kCuHostMemoryAlreadyRegistered, "x").code(), Code::kAlreadyExists);
}

TEST_F(CudaTest, CreateSaysWhyThereIsNoCuda) {
  fake.fail_next("cuInit", kCuNoDevice);
  expect_text(create().error(), Code::kUnsupported, {"cuInit", "100"});
  fake.version = 10020;
  expect_text(create().error(), Code::kUnsupported, {"10020", "11000"});
  fake.version = 12040;
  fake.fail_next("cuDriverGetVersion", kCuIllegalAddress);
  expect_text(create().error(), Code::kUnavailable, {"cuDriverGetVersion"});
  fake.fail_next("cuDeviceGetCount", kCuIllegalAddress);
  expect_text(create().error(), Code::kUnavailable, {"cuDeviceGetCount"});
  fake.fail_next("cuDeviceGet", kCuIllegalAddress, 1);
  expect_text(create().error(), Code::kUnavailable, {"cuDeviceGet", "cuda:1"});
  CudaOptions options;
  options.clock = nullptr;
  EXPECT_EQ(CudaPlatform::create(options).error().code(), Code::kInvalidArgument);
}

TEST(CudaWithoutDevices, IsUnsupported) {
  FakeCuda fake(0);
  CudaOptions options;
  options.driver = fake.driver();
  const auto made = CudaPlatform::create(options);
  ASSERT_FALSE(made);
  expect_text(made.error(), Code::kUnsupported, {"CUDA_VISIBLE_DEVICES"});
}

TEST_F(CudaTest, LookingMakesNoContext) {
  fake.attributes_need_context = true;
  cuda = create().value();
  engine = cuda->create_copier({}).value();
  EXPECT_EQ(cuda->locate(host.data(), host.size()).value(), std::nullopt);
  EXPECT_FALSE(cuda->probe(host.data(), host.size()));
  EXPECT_FALSE(engine->submit({host.data(), host.data() + 64, 64, 1}));
  EXPECT_EQ(fake.calls("cuDevicePrimaryCtxRetain"), 0);
  EXPECT_EQ(fake.calls("cuCtxPushCurrent"), 0);
}

TEST_F(CudaTest, OnlyTheDeviceThatIsUsedGetsAContext) {
  cuda = create().value();
  memory = cuda->allocate(4096, 1).value();
  engine = cuda->create_copier({}).value();
  ASSERT_TRUE(engine->submit({memory.data(), host.data(), 4096, 1}));
  fake.complete();
  EXPECT_EQ(poll().size(), 1U);
  EXPECT_EQ(fake.devices[0].contexts, 0);
  EXPECT_EQ(fake.devices[1].contexts, 1);
  ASSERT_EQ(fake.streams.size(), 1U);
  EXPECT_EQ(fake.streams[0]->device, 1);
  cuda.reset();
  EXPECT_EQ(fake.devices[1].retained, 1) << "memory and engine still need it";
  engine.reset();
  memory = Allocation();
  expect_nothing_left();
}

TEST_F(CudaTest, ADriverThatCannotSayIsAnError) {
  open();
  fake.fail_next("cuPointerGetAttributes", kCuIllegalAddress);
  expect_text(cuda->locate(host.data(), 1).error(), Code::kUnavailable,
              {"cuPointerGetAttributes", "700"});
  fake.fail_next("cuPointerGetAttributes", kCuInvalidValue);
  EXPECT_EQ(cuda->locate(host.data(), 1).value(), std::nullopt);
}

TEST_F(CudaTest, ADeviceThatWeDoNotHaveIsAnError) {
  cuda = create().value();
  fake.devices.emplace_back();
  const std::uintptr_t there = 1ULL << 46;
  fake.devices[2].spans[there] = {4096, true};
  expect_text(cuda->locate(reinterpret_cast<void*>(there), 1).error(), Code::kUnavailable,
              {"device 2", "2 devices"});
  fake.devices[0].spans[there] = {0, true};
}

TEST_F(CudaTest, NeighboursAreNotOneRange) {
  cuda = create().value();
  memory = cuda->allocate(4096, 0).value();
  const Allocation next = cuda->allocate(4096, 0).value();
  ASSERT_EQ(next.data(), memory.data() + 4096);
  EXPECT_EQ(cuda->locate(memory.data(), 4097).error().code(), Code::kInvalidArgument);
}

TEST_F(CudaTest, MemoryThatGrewByPiecesIsOneRange) {
  cuda = create().value();
  const auto* first = reinterpret_cast<const std::byte*>(fake.map_piece(1, 2048));
  fake.map_piece(1, 2048);
  fake.map_piece(1, 2048);
  const Location there{MemoryType::kCuda, 1};
  EXPECT_EQ(cuda->locate(first, 3 * 2048).value(), there);
  EXPECT_EQ(cuda->probe(first + 1, 3 * 2048 - 1).value(),
            (std::vector<Region>{{0, 3 * 2048 - 1, there}}));
  EXPECT_EQ(cuda->locate(first, 3 * 2048 + 1).error().code(), Code::kInvalidArgument);
  memory = cuda->allocate(512, 1).value();  // lies behind, but is an allocation of its own
  EXPECT_EQ(cuda->locate(first, 3 * 2048 + 1).error().code(), Code::kInvalidArgument);
}

TEST_F(CudaTest, SmallAllocationsAreAlignedToPagesAllTheSame) {
  cuda = create().value();
  fake.map_piece(0, 512);  // the next one begins inside a page
  memory = cuda->allocate(4096, 0).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % kPageBytes, 0U);
  EXPECT_EQ(fake.calls("cuMemAlloc"), 2);
  EXPECT_EQ(fake.calls("cuMemFree"), 1);
  memory = Allocation();
  EXPECT_EQ(fake.devices[0].spans.size(), 1U);
}

TEST_F(CudaTest, AllocationErrorsLeaveNothing) {
  cuda = create(4096).value();
  fake.fail_next("cuMemAlloc", kCuOutOfMemory);
  expect_text(cuda->allocate(4096, 0).error(), Code::kExhausted,
              {"cuMemAlloc", "4096 bytes on cuda:0", "CUDA_ERROR_OUT_OF_MEMORY"});
  fake.fail_next("cuDevicePrimaryCtxRetain", kCuIllegalAddress);
  expect_text(cuda->allocate(4096, 1).error(), Code::kUnavailable,
              {"cuDevicePrimaryCtxRetain", "cuda:1"});
  fake.fail_next("cuCtxPushCurrent", kCuInvalidContext);
  expect_text(cuda->allocate(4096, 0).error(), Code::kUnavailable, {"cuCtxPushCurrent"});
  EXPECT_TRUE(cuda->allocate(4096, 0)) << "the budget was given back";
  EXPECT_TRUE(cuda->allocate(4096, 1));
  cuda.reset();
  expect_nothing_left();
}

TEST_F(CudaTest, SubmitErrorsStartNothing) {
  open();
  for (const char* call :
       {"cuStreamCreate", "cuEventCreate", "cuMemcpyAsync", "cuCtxPushCurrent"}) {
    fake.fail_next(call, kCuIllegalAddress);
    const auto refused = engine->submit({memory.data(), host.data(), 64, 1});
    ASSERT_FALSE(refused) << call;
    expect_text(refused.error(), Code::kUnavailable, {call, "CUDA_ERROR_FAKE"});
    EXPECT_EQ(engine->outstanding(), 0U);
  }
  EXPECT_TRUE(engine->submit({memory.data(), host.data(), 64, 1}));
}

TEST_F(CudaTest, ACopyWithoutAnEventIsWaitedFor) {
  open();
  fake.fail_next("cuEventRecord", kCuIllegalAddress);
  const auto refused = engine->submit({memory.data(), host.data(), 64, 1});
  ASSERT_FALSE(refused);
  expect_text(refused.error(), Code::kUnavailable, {"cuEventRecord"});
  EXPECT_EQ(fake.calls("cuStreamSynchronize"), 1);
  EXPECT_TRUE(fake.streams[0]->ops.empty()) << "the caller may free the memory now";
}

TEST_F(CudaTest, AFailedQueryEndsTheCopyOnceNothingRuns) {
  open();
  ASSERT_TRUE(engine->submit({memory.data(), host.data(), 64, 1}));
  ASSERT_TRUE(engine->submit({memory.data() + 64, host.data(), 64, 2}));
  fake.fail_next("cuEventQuery", kCuIllegalAddress);
  const auto done = poll();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].tag, 1U);
  ASSERT_FALSE(done[0].result);
  expect_text(done[0].result.error(), Code::kUnavailable, {"cuEventQuery", "64 bytes"});
  EXPECT_TRUE(fake.streams[0]->ops.empty());
  EXPECT_TRUE(done[1].result);
}

TEST_F(CudaTest, CopiesEndOneByOneAndDirectionsApart) {
  open();
  Bytes back(64);
  ASSERT_TRUE(engine->submit({memory.data(), host.data(), 64, 1}));
  ASSERT_TRUE(engine->submit({memory.data() + 64, host.data(), 64, 2}));
  ASSERT_TRUE(engine->submit({back.data(), memory.data() + 4096, 64, 3}));
  EXPECT_EQ(fake.streams.size(), 2U);
  fake.complete(1);
  std::array<int, 4> seen{};
  for (const CopyDone& done : poll()) ++seen[done.tag];
  EXPECT_EQ(seen, (std::array<int, 4>{0, 1, 0, 1}));
  EXPECT_EQ(engine->in_flight(), 1U);
  fake.complete();
  EXPECT_EQ(poll().at(0).tag, 2U);
}

TEST_F(CudaTest, NoDirectionStarvesAnother) {
  open();
  Bytes back(64);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine->submit({memory.data() + i * 64, host.data(), 64, 1}));
    ASSERT_TRUE(engine->submit({memory.data() + 4096 + i * 64, memory.data() + 2048, 64, 2}));
  }
  fake.complete();
  std::array<int, 3> seen{};
  CopyDone done;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(engine->poll({&done, 1}), 1U);
    ++seen[done.tag];
  }
  EXPECT_GE(seen[1], 1);
  EXPECT_GE(seen[2], 1);
}

TEST_F(CudaTest, EventsAreUsedAgain) {
  open();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(engine->submit({memory.data(), host.data(), 64, 1}));
    fake.complete();
    ASSERT_EQ(poll().size(), 1U);
  }
  EXPECT_EQ(fake.calls("cuEventCreate"), 1);
  EXPECT_EQ(fake.calls("cuStreamCreate"), 1);
  EXPECT_TRUE(fake.current.empty());
}

TEST_F(CudaTest, AnEngineIsNotGoneBeforeItsCopiesAre) {
  open();
  ASSERT_TRUE(engine->submit({memory.data(), host.data(), 8192, 1}));
  engine.reset();
  EXPECT_EQ(fake.calls("cuStreamSynchronize"), 1);
  EXPECT_TRUE(fake.orphans.empty());
  memory = Allocation();
  cuda.reset();
  expect_nothing_left();
}

TEST_F(CudaTest, PinsAreUndone) {
  open();
  {
    const auto pin = cuda->pin(host, 1);
    ASSERT_TRUE(pin);
    EXPECT_EQ(fake.pinned.size(), 1U);
    EXPECT_EQ(cuda->pin(host, 0).error().code(), Code::kAlreadyExists);
  }
  EXPECT_TRUE(fake.pinned.empty());
  fake.fail_next("cuMemHostRegister", kCuOutOfMemory);
  expect_text(cuda->pin(host, 0).error(), Code::kExhausted, {"cuMemHostRegister", "8192 bytes"});
}

}  // namespace
}  // namespace larder::platform
