// SPDX-License-Identifier: Apache-2.0
// A device over the stand-in, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "block/block_testing.h"
#include "env/thread.h"
#include "nvmf/spdk/device.h"
#include "nvmf/spdk/fake/fake_spdk.h"

namespace larder::nvmf {

inline constexpr const char* kFakeNqn = "nqn.2024-01.org.example:stand-in";

inline SpdkDeviceOptions fake_options(SpdkTransport transport = SpdkTransport::kTcp) {
  SpdkDeviceOptions out;
  out.remote.url.host = "10.0.0.7";
  out.remote.url.nqn = kFakeNqn;
  out.remote.host.nqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001";
  out.remote.io_timeout = 20 * env::kSecond;  // only a failure takes so long
  out.transport = transport;
  return out;
}

// Each test begins with a stand-in as it is at first, and ends with everything given back to it and
// no rule of the driver broken.
class FakeSpdkTest : public testing::Test {
 protected:
  void SetUp() override { reset_fake_spdk(); }
  void TearDown() override { EXPECT_EQ(fake_spdk().leftovers(), ""); }

  static void with_fake(const std::function<void(FakeSpdk&)>& change) {
    const std::lock_guard lock(fake_spdk().mutex);
    change(fake_spdk());
  }
  // The next `count` commands of a kind end so.
  static void next(FakeKind kind, FakeFate fate, int count = 1, Status status = {}) {
    with_fake([&](FakeSpdk& fake) {
      fake.status = status;
      fake.fate = [kind, fate, count](FakeKind now) mutable {
        return now == kind && count-- > 0 ? fate : FakeFate::kHonest;
      };
    });
  }
};

// A device, a queue, and some memory.
struct SpdkUser {
  static constexpr std::size_t kBytes = 16 * kFakeBlockBytes;

  explicit SpdkUser(const SpdkDeviceOptions& options = fake_options())
      : device(block::take_value(SpdkDevice::open(options))),
        queue(block::queue_of(*device)),
        memory(block::buffer_of(kBytes)) {
    std::mt19937_64 random(3);
    block::fill_random(memory.span(), random);
    whole = {memory.data(), kBytes};
  }
  block::BlockDone run(const block::BlockOp& op) {
    EXPECT_TRUE(queue->submit(op));
    const auto ended = block::wait_for(*queue, 1);
    return ended.empty() ? block::BlockDone() : ended[0];
  }
  block::BlockDone read() { return run(block::BlockOp::read(0, {&whole, 1})); }
  block::BlockDone write() { return run(block::BlockOp::write(0, {&whole, 1})); }
  block::BlockDone flush() { return run(block::BlockOp::flush()); }
  // The operation failed, and the device with it, for a reason that has this in it.
  void expect_broken(const block::BlockDone& done, const char* part) const {
    EXPECT_EQ(done.code, Code::kUnavailable);
    EXPECT_EQ(device->health().state, block::HealthState::kFailed);
    EXPECT_NE(device->health().reason.find(part), std::string::npos) << device->health().reason;
  }

  std::shared_ptr<SpdkDevice> device;
  std::unique_ptr<block::BlockQueue> queue;
  block::AlignedBuffer memory;
  block::Piece whole;
};

}  // namespace larder::nvmf
