// SPDX-License-Identifier: Apache-2.0
#include "apps/disk_trial.h"

#include <algorithm>
#include <span>

#include "block/blocking.h"
#include "env/random.h"

namespace larder::apps {
namespace {

constexpr env::Nanos kPatience = 30 * env::kSecond;  // with one operation

}  // namespace

Result<std::unique_ptr<DiskTrial>> DiskTrial::create(block::BlockDevice& device,
                                                     std::uint64_t bytes) {
  std::unique_ptr<DiskTrial> made(new DiskTrial);
  LARDER_ASSIGN(made->memory_,
                block::AlignedBuffer::create(kTrialDepth * kTrialBytes, kTrialBytes));
  // What can be compressed or deduplicated would flatter some disks.
  env::random_bytes(made->memory_.span());
  for (std::size_t i = 0; i < kTrialDepth; ++i) {
    made->pieces_[i] = {made->memory_.data() + i * kTrialBytes, kTrialBytes};
  }
  LARDER_ASSIGN(made->queue_, device.open_queue(kTrialDepth));
  made->parts_ = bytes / kTrialBytes;
  return made;
}

Result<double> DiskTrial::run(block::OpKind kind, std::uint64_t stride, env::Nanos span) {
  const env::Nanos begin = env::monotonic_now();
  next_ = 0;
  done_ = 0;
  for (std::size_t i = 0; i < kTrialDepth; ++i) LARDER_TRY(submit(kind, i, stride));
  while (queue_->in_flight() > 0) {
    std::array<block::BlockDone, kTrialDepth> ended;
    const std::size_t count = queue_->wait(ended, env::monotonic_now() + kPatience);
    if (count == 0) return fail(Code::kDeadlineExceeded, "the disk did not answer for 30 s");
    const bool more = next_ < parts_ || env::monotonic_now() - begin < span;
    for (std::size_t i = 0; i < count; ++i) {
      if (!ended[i].ok()) return fail(block::describe(queue_->identity(), ended[i]));
      ++done_;
      if (more) LARDER_TRY(submit(kind, ended[i].tag, stride));
    }
  }
  if (kind == block::OpKind::kWrite) LARDER_TRY(block::flush(*queue_));
  const auto seconds =
      static_cast<double>(std::max<env::Nanos>(env::monotonic_now() - begin, env::kMicro)) / 1e9;
  return static_cast<double>(done_ * kTrialBytes) / seconds;
}

Result<void> DiskTrial::submit(block::OpKind kind, std::uint64_t piece, std::uint64_t stride) {
  const std::uint64_t offset = next_++ * stride % parts_ * kTrialBytes;
  const std::span<const block::Piece> pieces(&pieces_[piece], 1);
  return queue_->submit({kind, offset, pieces, 0, piece, {}, 0});
}

}  // namespace larder::apps
