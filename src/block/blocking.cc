// SPDX-License-Identifier: Apache-2.0
#include "block/blocking.h"

#include <algorithm>

namespace larder::block {
namespace {

constexpr env::Nanos kQuiesceStep = env::kSecond;

Result<void> late(BlockQueue& queue) {
  while (!queue.quiesce(env::monotonic_now() + kQuiesceStep)) {
  }
  BlockDone done;
  while (queue.poll({&done, 1}) > 0) {
  }
  return fail(Code::kDeadlineExceeded,
              "the block device " + queue.identity().name + " did not answer in time");
}

Result<void> run(BlockQueue& queue, BlockOp op, const BlockingOptions& options) {
  if (queue.in_flight() > 0) {
    return fail(Code::kInvalidArgument,
                "blocking calls need a block queue with nothing in flight; open another");
  }
  op.purpose = options.purpose;
  op.trace_id = options.trace_id;
  LARDER_TRY(queue.submit(op));
  BlockDone done;
  while (queue.wait({&done, 1}, options.deadline) == 0) {
    if (env::monotonic_now() >= options.deadline) return late(queue);
  }
  if (!done.ok()) return fail(describe(queue.identity(), done));
  return {};
}

Result<void> move_all(BlockQueue& queue, OpKind kind, std::uint64_t offset, Piece whole,
                      const BlockingOptions& options) {
  const std::uint64_t most = queue.geometry().transfer_max;
  if (whole.bytes > queue.geometry().bytes() || offset > queue.geometry().bytes() - whole.bytes) {
    return fail(Code::kInvalidArgument, "a range reaches beyond the end of the block device");
  }
  // A wrong call is told before anything moves, so the last part is looked at first.
  const std::uint64_t rest = whole.bytes % most;
  const Piece last{whole.data + (whole.bytes - rest), rest};
  if (rest > 0) {
    LARDER_TRY(
        check(queue.geometry(), {kind, offset + (whole.bytes - rest), {&last, 1}, 0, 0, {}, 0}));
  }
  std::size_t at = 0;
  do {
    const Piece part{whole.data + at, std::min<std::uint64_t>(most, whole.bytes - at)};
    LARDER_TRY(run(queue, {kind, offset + at, {&part, 1}, 0, 0, {}, 0}, options));
    at += part.bytes;
  } while (at < whole.bytes);
  return {};
}

}  // namespace

Result<void> read_all(BlockQueue& queue, std::uint64_t offset, std::span<std::byte> into,
                      const BlockingOptions& options) {
  return move_all(queue, OpKind::kRead, offset, {into.data(), into.size()}, options);
}

Result<void> write_all(BlockQueue& queue, std::uint64_t offset, std::span<const std::byte> from,
                       const BlockingOptions& options) {
  return move_all(queue, OpKind::kWrite, offset, Piece::from(from), options);
}

Result<void> flush(BlockQueue& queue, const BlockingOptions& options) {
  return run(queue, BlockOp::flush(), options);
}

Result<void> write_zeroes(BlockQueue& queue, std::uint64_t offset, std::uint64_t bytes,
                          const BlockingOptions& options) {
  const Geometry& geometry = queue.geometry();
  const std::uint64_t most = geometry.zeroes_max;
  if (bytes > geometry.bytes() || offset > geometry.bytes() - bytes) {
    return fail(Code::kInvalidArgument, "a range reaches beyond the end of the block device");
  }
  // A wrong call is told before anything is written, so the last part is looked at first.
  const std::uint64_t last = most == 0 ? bytes : bytes % most;
  if (last > 0) {
    LARDER_TRY(check(geometry, BlockOp::write_zeroes(offset + (bytes - last), last)));
  }
  std::uint64_t at = 0;
  do {
    const std::uint64_t part = std::min(most, bytes - at);
    LARDER_TRY(run(queue, BlockOp::write_zeroes(offset + at, part), options));
    at += part;
  } while (at < bytes);
  return {};
}

Result<void> discard(BlockQueue& queue, std::uint64_t offset, std::uint64_t bytes,
                     const BlockingOptions& options) {
  return run(queue, BlockOp::discard(offset, bytes), options);
}

}  // namespace larder::block
