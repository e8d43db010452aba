// SPDX-License-Identifier: Apache-2.0
#include "block/block_device.h"

#include <string>

#include "env/socket.h"

namespace larder::block {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

tl::unexpected<Error> failed(const Identity& identity, HealthBook& health) {
  return fail(Code::kUnavailable, "the block device " + identity.name + " has failed (" +
                                      health.now().reason + "); open it again to use it");
}

}  // namespace

void DeviceBooks::note_taken(const BlockOp& op) noexcept {
  if (op.kind != OpKind::kRead && op.kind != OpKind::kWrite) return;
  auto& sum = op.purpose.traffic_class == TrafficClass::kHigh ? high_bytes_ : low_bytes_;
  sum.fetch_add(op.bytes(), kRelaxed);
}

void DeviceBooks::note_done(BlockDone& done) {
  health_.note(done);
  Line& line = lines_[static_cast<std::size_t>(done.kind)];
  if (done.ok()) {
    line.ops.fetch_add(1, kRelaxed);
    line.bytes.fetch_add(done.bytes, kRelaxed);
  } else {
    line.errors.fetch_add(1, kRelaxed);
  }
}

BlockStats DeviceBooks::stats() const noexcept {
  BlockStats out;
  for (std::size_t i = 0; i < kOpKindCount; ++i) {
    out.kinds[i] = {lines_[i].ops.load(kRelaxed), lines_[i].bytes.load(kRelaxed),
                    lines_[i].errors.load(kRelaxed)};
  }
  out.high_bytes = high_bytes_.load(kRelaxed);
  out.low_bytes = low_bytes_.load(kRelaxed);
  return out;
}

Result<void> BlockQueue::submit(const BlockOp& op) {
  LARDER_TRY(check(geometry(), op));
  if (books_->health().failed()) return failed(identity(), books_->health());
  if (in_flight_ >= depth_) {
    return fail(Code::kBackpressure, "the block queue holds " + std::to_string(depth_) +
                                         " operations; take results from it first");
  }
  LARDER_TRY(take(op));
  ++in_flight_;
  books_->note_taken(op);
  return {};
}

std::size_t BlockQueue::give(std::span<BlockDone> into, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) books_->note_done(into[i]);
  in_flight_ -= count;
  return count;
}

std::size_t BlockQueue::poll(std::span<BlockDone> into) {
  return give(into, collect(into));
}

std::size_t BlockQueue::wait(std::span<BlockDone> into, env::Nanos deadline) {
  if (in_flight_ == 0 || into.empty()) return poll(into);
  return give(into, collect_by(into, deadline));
}

Result<std::unique_ptr<BlockQueue>> BlockDevice::open_queue(std::size_t depth) {
  if (depth == 0 || depth > kDepthMax) {
    return fail(Code::kInvalidArgument,
                "a block queue has a depth of 1 to " + std::to_string(kDepthMax));
  }
  if (books_->health().failed()) return failed(identity(), books_->health());
  return make_queue(depth);
}

Error describe(const Identity& identity, const BlockDone& done) {
  std::string text = std::string(op_name(done.kind)) + " of " + std::to_string(done.bytes) +
                     " bytes at " + std::to_string(done.offset) + " of " + identity.name + ": ";
  if (done.sys_errno != 0) text += env::errno_text(done.sys_errno) + "; ";
  switch (done.code) {
    case Code::kCancelled:
      return {done.code, text + "it was stopped on request"};
    case Code::kConflict:
      return {done.code, text + "it was changed by others while in use (truncated?)"};
    case Code::kExhausted:
      return {done.code, text + "make room behind it, or reserve its size when it is created"};
    default:
      return {done.code, text + "the device fails; look into the kernel's log"};
  }
}

}  // namespace larder::block
