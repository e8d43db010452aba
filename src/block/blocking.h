// SPDX-License-Identifier: Apache-2.0
// One operation at a time, waited for: for recovery, tools and tests.
#pragma once

#include <span>

#include "block/block_device.h"

namespace larder::block {

struct BlockingOptions {
  qos::Purpose purpose;
  std::uint64_t trace_id = 0;
  env::Nanos deadline = kNoDeadline;  // monotonic
};

// On a queue with nothing in flight (else kInvalidArgument), by the thread that uses it. Ranges
// beyond transfer_max or zeroes_max are split. Errors as submit() and BlockDone; kDeadlineExceeded
// only once nothing touches the memory any more, however long that takes.
Result<void> read_all(BlockQueue& queue, std::uint64_t offset, std::span<std::byte> into,
                      const BlockingOptions& options = {});
Result<void> write_all(BlockQueue& queue, std::uint64_t offset, std::span<const std::byte> from,
                       const BlockingOptions& options = {});
Result<void> flush(BlockQueue& queue, const BlockingOptions& options = {});
Result<void> write_zeroes(BlockQueue& queue, std::uint64_t offset, std::uint64_t bytes,
                          const BlockingOptions& options = {});
Result<void> discard(BlockQueue& queue, std::uint64_t offset, std::uint64_t bytes,
                     const BlockingOptions& options = {});

}  // namespace larder::block
