// SPDX-License-Identifier: Apache-2.0
// Opening, refusing, memory and the limits of the driver. The rest is in
// tests/conformance/spdk_device_test.cc.
#include "nvmf/spdk/device.h"

#include <sys/mman.h>

#include <thread>

#include "nvmf/spdk/spdk_testing.h"

namespace larder::nvmf {
namespace {

using block::code_of;

class SpdkDeviceTest : public FakeSpdkTest {
 protected:
  static Code open_code(const SpdkDeviceOptions& options) {
    return code_of(SpdkDevice::open(options));
  }
};

// Two whole 2 MiB pages, and a little beside them on both sides.
class Pages {
 public:
  Pages()
      : memory_(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
    const auto at = reinterpret_cast<std::uintptr_t>(memory_);
    first_ = (at + 2 * kSpdkPageBytes - 1) / kSpdkPageBytes * kSpdkPageBytes - at;
  }
  ~Pages() { ::munmap(memory_, kBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::span<std::byte> span() {
    return all().subspan(first_ - kBeside, 2 * kSpdkPageBytes + 2 * kBeside);
  }
  std::span<std::byte> page() { return all().subspan(first_, kSpdkPageBytes); }

 private:
  static constexpr std::size_t kBytes = 5 * kSpdkPageBytes;
  static constexpr std::size_t kBeside = 8192;
  std::span<std::byte> all() { return {static_cast<std::byte*>(memory_), kBytes}; }

  void* memory_;
  std::size_t first_ = 0;
};

TEST_F(SpdkDeviceTest, SaysWhatItIs) {
  SpdkUser user;
  const auto& geometry = user.device->geometry();
  EXPECT_EQ(geometry.block_bytes, kFakeBlockBytes);
  EXPECT_EQ(geometry.blocks, kFakeNamespaceBlocks);
  EXPECT_FALSE(geometry.volatile_cache);
  EXPECT_TRUE(geometry.discard_zeroes);
  EXPECT_EQ(user.device->identity().kind, "spdk-tcp");
  EXPECT_EQ(user.device->identity().name, std::string("spdk+tcp://10.0.0.7:4420/") + kFakeNqn);
  EXPECT_EQ(user.device->identity().id, "uuid.01000000-0000-0000-0000-000000000000");
  EXPECT_EQ(user.device->nsid(), 1U);
  EXPECT_EQ(fake_spdk().transport_id, std::string("trtype:TCP adrfam:IPv4 traddr:10.0.0.7 "
                                                  "trsvcid:4420 subnqn:") +
                                          kFakeNqn);
  EXPECT_EQ(fake_spdk().host_nqn, fake_options().remote.host.nqn);
}

TEST_F(SpdkDeviceTest, RefusesWhatItCannotBe) {
  SpdkDeviceOptions options = fake_options();
  options.remote.url.nqn.clear();
  EXPECT_EQ(open_code(options), Code::kInvalidArgument);
  options = fake_options();
  options.remote.url.nqn += " x";
  EXPECT_EQ(open_code(options), Code::kInvalidArgument);
  options = fake_options(SpdkTransport::kRdma);
  options.remote.url.data_digest = true;
  EXPECT_EQ(open_code(options), Code::kInvalidArgument);
  options = fake_options(SpdkTransport::kRdma);
  options.bounce_bytes = 4096;
  EXPECT_EQ(open_code(options), Code::kInvalidArgument);
  options = fake_options();
  options.remote.url.nsid = 7;
  EXPECT_EQ(open_code(options), Code::kNotFound);
  options = fake_options();
  options.remote.expected_id = "uuid.02";
  EXPECT_EQ(open_code(options), Code::kConflict);
}

TEST_F(SpdkDeviceTest, RefusesWhatIsThere) {
  with_fake([](FakeSpdk& fake) { fake.connect_failures = 1; });
  EXPECT_EQ(open_code(fake_options()), Code::kUnavailable);
  with_fake([](FakeSpdk& fake) { fake.active = false; });
  EXPECT_EQ(open_code(fake_options()), Code::kNotFound);
  reset_fake_spdk();
  with_fake([](FakeSpdk& fake) { fake.ns.formats[0].ms = 8; });
  EXPECT_EQ(open_code(fake_options()), Code::kUnsupported);
  reset_fake_spdk();
  with_fake([](FakeSpdk& fake) { fake.csi = 2; });
  EXPECT_EQ(open_code(fake_options()), Code::kUnsupported);
  reset_fake_spdk();
  with_fake([](FakeSpdk& fake) { fake.controller.cntrltype = 2; });
  EXPECT_EQ(open_code(fake_options()), Code::kInvalidArgument);
  reset_fake_spdk();
  with_fake([](FakeSpdk& fake) { fake.queues_granted = 0; });
  EXPECT_EQ(open_code(fake_options()), Code::kExhausted);
  EXPECT_EQ(fake_spdk().leftovers(), "");
}

// The driver would hand out the same controller to both.
TEST_F(SpdkDeviceTest, OneDeviceOfASubsystemInAProcess) {
  auto user = std::make_unique<SpdkUser>();
  EXPECT_EQ(open_code(fake_options()), Code::kConflict);
  user->device.reset();  // its queue is there
  EXPECT_EQ(open_code(fake_options()), Code::kConflict);
  user.reset();
  EXPECT_EQ(open_code(fake_options()), Code::kOk);
}

TEST_F(SpdkDeviceTest, ThereAreAsManyQueuesAsAreGranted) {
  with_fake([](FakeSpdk& fake) { fake.queues_granted = 2; });
  SpdkUser user;
  auto second = block::queue_of(*user.device);
  EXPECT_EQ(code_of(user.device->open_queue(1)), Code::kExhausted);
  second.reset();
  EXPECT_EQ(code_of(user.device->open_queue(1)), Code::kOk);
  with_fake([](FakeSpdk& fake) { fake.pair_failures = 1; });
  EXPECT_EQ(code_of(user.device->open_queue(1)), Code::kUnavailable);
  EXPECT_EQ(user.read().code, Code::kOk);
}

TEST_F(SpdkDeviceTest, LongOperationsBecomeCommandsOfWhatTheControllerTakes) {
  SpdkUser user;
  block::AlignedBuffer large = block::buffer_of(1U << 20U, std::byte{7});
  ASSERT_TRUE(block::write_all(*user.queue, 0, large.span()));
  EXPECT_EQ(fake_spdk().largest, 128U << 10U);
  EXPECT_EQ(user.device->nvme_stats().kinds[1].commands, 8U);
  EXPECT_EQ(user.device->nvme_stats().charges[1][Resource::kNvmeWrite], 1U << 20U);
  EXPECT_TRUE(block::all_are(std::span(fake_spdk().memory).first(large.size()), std::byte{7}));
}

TEST_F(SpdkDeviceTest, WaitsWhereTheDriverHasNoRoom) {
  SpdkDeviceOptions options = fake_options();
  options.remote.queue_entries = 5;
  with_fake([](FakeSpdk& fake) { fake.free_requests = 3; });
  SpdkUser user(options);
  block::AlignedBuffer large = block::buffer_of(2U << 20U, std::byte{7});
  ASSERT_TRUE(block::write_all(*user.queue, 0, large.span()));
  ASSERT_TRUE(block::read_all(*user.queue, 0, large.span()));
  EXPECT_TRUE(block::all_are(large.span(), std::byte{7}));
}

// With nothing in flight waiting for room would be for ever.
TEST_F(SpdkDeviceTest, ADriverThatTakesNothingEndsTheOperation) {
  SpdkUser user;
  with_fake([](FakeSpdk& fake) { fake.submit_nomem = 1; });
  EXPECT_EQ(user.read().code, Code::kUnavailable);
  EXPECT_EQ(user.read().code, Code::kOk);
}

TEST_F(SpdkDeviceTest, WhatAnErrorMeans) {
  SpdkUser user;
  next(FakeKind::kWrite, FakeFate::kFails, 1, refused(Sc::kCapacityExceeded));
  EXPECT_EQ(user.write().code, Code::kExhausted);
  next(FakeKind::kRead, FakeFate::kFails, 1, refused(Sc::kLbaOutOfRange));
  EXPECT_EQ(user.read().code, Code::kConflict);
  next(FakeKind::kRead, FakeFate::kFails, 1, refused(Sc::kUnrecoveredRead));
  EXPECT_EQ(user.read().sys_errno, EIO);
  next(FakeKind::kRead, FakeFate::kFails, 2, failed(Sc::kNamespaceNotReady));
  EXPECT_EQ(user.read().code, Code::kOk);
  next(FakeKind::kRead, FakeFate::kFails, 3, failed(Sc::kNamespaceNotReady));
  EXPECT_EQ(user.read().code, Code::kUnavailable);
  EXPECT_EQ(user.device->nvme_stats().lost, 0U);
}

TEST_F(SpdkDeviceTest, DiscardsWithDatasetManagementWhereZeroesAreNotPromised) {
  with_fake([](FakeSpdk& fake) { fake.ns.dlfeat = 0; });
  SpdkUser user;
  EXPECT_FALSE(user.device->geometry().discard_zeroes);
  std::vector<FakeKind> seen;
  with_fake([&](FakeSpdk& fake) {
    fake.fate = [&](FakeKind kind) {
      seen.push_back(kind);
      return FakeFate::kHonest;
    };
  });
  ASSERT_TRUE(block::discard(*user.queue, 0, user.device->geometry().bytes()));
  with_fake([](FakeSpdk& fake) { fake.fate = {}; });
  EXPECT_EQ(seen, std::vector<FakeKind>{FakeKind::kUnmap});
}

TEST_F(SpdkDeviceTest, ZeroesAreWrittenAndDiscardsDeallocate) {
  with_fake([](FakeSpdk& fake) { fake.controller.mdts = 2; });  // 16 KiB
  SpdkUser user;
  std::vector<FakeKind> seen;
  with_fake([&](FakeSpdk& fake) {
    fake.fate = [&](FakeKind kind) {
      seen.push_back(kind);
      return FakeFate::kHonest;
    };
  });
  ASSERT_TRUE(block::write_zeroes(*user.queue, 0, 16384 + kFakeBlockBytes));
  ASSERT_TRUE(block::discard(*user.queue, 0, kFakeBlockBytes));
  with_fake([](FakeSpdk& fake) { fake.fate = {}; });
  EXPECT_EQ(seen,
            (std::vector<FakeKind>{FakeKind::kZero, FakeKind::kZero, FakeKind::kZeroAndUnmap}));
}

// ---- waiting

TEST_F(SpdkDeviceTest, WakeEndsAWait) {
  next(FakeKind::kRead, FakeFate::kMute, 1 << 20);
  SpdkUser user;
  ASSERT_TRUE(user.queue->submit(block::BlockOp::read(0, {&user.whole, 1})));
  std::thread waker([&] { user.queue->wake(); });
  block::BlockDone done;
  EXPECT_EQ(user.queue->wait({&done, 1}, block::within(block::kSoon)), 0U);
  waker.join();
  EXPECT_EQ(user.queue->in_flight(), 1U);
  EXPECT_FALSE(user.queue->quiesce(block::within(env::kMilli)));
  next(FakeKind::kRead, FakeFate::kHonest);
  EXPECT_TRUE(user.queue->quiesce(block::within(block::kSoon)));
  EXPECT_EQ(user.queue->poll({&done, 1}), 1U);
}

// ---- memory

TEST_F(SpdkDeviceTest, TcpTakesAnyMemoryAsItIs) {
  Pages pages;
  SpdkUser user;
  EXPECT_FALSE(user.device->add_buffer(pages.span()));
  EXPECT_EQ(user.write().code, Code::kOk);
  EXPECT_EQ(fake_spdk().bounced, 0U);
}

TEST_F(SpdkDeviceTest, RdmaCopiesWhatTheDriverDoesNotKnow) {
  with_fake([](FakeSpdk& fake) { fake.dma_only = true; });
  SpdkDeviceOptions options = fake_options(SpdkTransport::kRdma);
  options.bounce_buffers = 2;
  options.bounce_bytes = 64U << 10U;
  SpdkUser user(options);
  EXPECT_EQ(user.device->identity().kind, "spdk-rdma");
  block::AlignedBuffer out = block::buffer_of(1U << 20U);
  std::mt19937_64 random(5);
  block::fill_random(out.span(), random);
  ASSERT_TRUE(block::write_all(*user.queue, 0, out.span()));
  EXPECT_EQ(std::memcmp(out.data(), fake_spdk().memory.data(), out.size()), 0);
  block::AlignedBuffer in = block::buffer_of(1U << 20U);
  ASSERT_TRUE(block::read_all(*user.queue, 0, in.span()));
  EXPECT_EQ(std::memcmp(out.data(), in.data(), out.size()), 0);
  EXPECT_EQ(fake_spdk().largest, options.bounce_bytes);
  EXPECT_EQ(fake_spdk().bounced, 32U);
  EXPECT_EQ(fake_spdk().in_place, 0U);
}

TEST_F(SpdkDeviceTest, RdmaUsesRegisteredPagesInPlace) {
  with_fake([](FakeSpdk& fake) { fake.dma_only = true; });
  Pages pages;
  SpdkUser user(fake_options(SpdkTransport::kRdma));
  ASSERT_TRUE(user.device->add_buffer(pages.span()));
  const block::Piece inside{pages.page().data(), 64U << 10U};
  EXPECT_TRUE(user.run(block::BlockOp::write(0, {&inside, 1})).ok());
  EXPECT_EQ(fake_spdk().in_place, 1U);
  EXPECT_EQ(fake_spdk().bounced, 0U);
  // Before the first whole page of it: known to us, not to the driver.
  const block::Piece beside{pages.page().data() - 4096, 8192};
  EXPECT_TRUE(user.run(block::BlockOp::read(0, {&beside, 1})).ok());
  EXPECT_EQ(fake_spdk().bounced, 1U);
  user.device->remove_buffer(pages.span());
  EXPECT_TRUE(user.run(block::BlockOp::read(0, {&inside, 1})).ok());
  EXPECT_EQ(fake_spdk().in_place, 1U);
}

TEST_F(SpdkDeviceTest, MemoryOfTwoDevicesIsRegisteredOnce) {
  Pages pages;
  SpdkUser one(fake_options(SpdkTransport::kRdma));
  const std::span<std::byte> registered = register_memory(pages.span());
  EXPECT_EQ(registered.size() % kSpdkPageBytes, 0U);
  EXPECT_TRUE(one.device->add_buffer(pages.span()));
  unregister_memory(registered);
  EXPECT_EQ(fake_spdk().registered.size(), 1U);
  // What overlaps and is not the same is refused by the driver.
  EXPECT_TRUE(register_memory(pages.page()).empty());
  EXPECT_TRUE(register_memory(pages.page().first(4096)).empty());
}

}  // namespace
}  // namespace larder::nvmf
