// SPDX-License-Identifier: Apache-2.0
// A device over a target that misbehaves on cue.
#pragma once

#include <filesystem>

#include "env/thread.h"
#include "nvmf/host/fake_target_testing.h"

namespace larder::nvmf {

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

// Until it holds; false after a time that only a failure takes.
template <class Holds>
bool eventually(Holds&& holds) {
  const env::Nanos deadline = block::within(block::kSoon);
  while (!holds()) {
    if (env::monotonic_now() > deadline) return false;
    env::yield_core();
  }
  return true;
}

// One device and one queue with memory that is watched.
class Victim {
 public:
  static constexpr std::size_t kBytes = 64U << 10U;

  explicit Victim(FakeTarget& target, Reattach reattach = Reattach::kNever, bool digests = false)
      : Victim(options_of(target, reattach, digests)) {}
  explicit Victim(const NvmeDeviceOptions& options)
      : device(block::take_value(NvmeDevice::open(options))), queue(block::queue_of(*device)) {}

  static NvmeDeviceOptions options_of(FakeTarget& target, Reattach reattach, bool digests) {
    NvmeDeviceOptions options = target.options();
    options.reattach = reattach;
    options.url.header_digest = options.url.data_digest = digests;
    return options;
  }

  block::BlockDone run(const block::BlockOp& op) {
    const auto taken = queue->submit(op);
    if (!taken) {
      block::BlockDone refused;
      refused.code = taken.error().code();
      return refused;
    }
    const auto done = block::wait_for(*queue, 1);
    return done.empty() ? block::BlockDone() : done[0];
  }
  block::BlockDone read() { return run(block::BlockOp::read(0, {&piece, 1})); }
  block::BlockDone write() { return run(block::BlockOp::write(0, {&piece, 1})); }
  block::BlockDone write_small() { return run(block::BlockOp::write(0, {&small, 1})); }
  block::BlockDone flush() { return run(block::BlockOp::flush()); }
  // The operation ended badly, and the device with it for the reason that has `part` in it.
  void expect_broken(const block::BlockDone& done, const char* part) {
    EXPECT_EQ(done.code, Code::kUnavailable);
    const block::Health health = device->health();
    EXPECT_EQ(health.state, block::HealthState::kFailed);
    EXPECT_NE(health.reason.find(part), std::string::npos) << health.reason;
    std::fill(memory.span().begin(), memory.span().end(), std::byte{0x5A});
  }
  bool untouched() { return block::all_are(memory.span(), std::byte{0x5A}); }

  block::AlignedBuffer memory = block::buffer_of(kBytes, std::byte{0xEE});
  block::Piece piece{memory.data(), kBytes};
  block::Piece small{memory.data(), 4096};
  std::shared_ptr<NvmeDevice> device;
  std::unique_ptr<block::BlockQueue> queue;
};

}  // namespace larder::nvmf
