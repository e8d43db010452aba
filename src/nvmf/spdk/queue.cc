// SPDX-License-Identifier: Apache-2.0
// How operations become commands, and how they end.
#include "nvmf/spdk/queue.h"

#include <algorithm>
#include <array>

#include "nvmf/host/fate.h"

namespace larder::nvmf {
namespace {

constexpr std::uint64_t kDeallocateBlocksMax = ~std::uint32_t{0};
constexpr std::size_t kBatch = 32;

SpdkVerb verb_of(block::OpKind kind, bool zeroes) noexcept {
  switch (kind) {
    case block::OpKind::kRead:
      return SpdkVerb::kRead;
    case block::OpKind::kWrite:
      return SpdkVerb::kWrite;
    case block::OpKind::kFlush:
      return SpdkVerb::kFlush;
    case block::OpKind::kWriteZeroes:
      return SpdkVerb::kWriteZeroes;
    case block::OpKind::kDiscard:
      break;
  }
  return zeroes ? SpdkVerb::kZeroAndUnmap : SpdkVerb::kUnmap;
}

}  // namespace

SpdkQueue::SpdkQueue(std::shared_ptr<SpdkState> state, std::shared_ptr<SpdkChannel> channel,
                     std::size_t depth)
    : RemoteQueue(*state, channel->waker(), depth),
      state_(std::move(state)),
      channel_(std::move(channel)),
      lost_(channel_->lost()),
      ops_(depth) {
  cut_.reserve(depth);
}

SpdkQueue::~SpdkQueue() {
  if (!quiesce(env::monotonic_now() + kLinger)) lose("a queue was closed with commands in flight");
  state_->leave(*channel_);
}

// ---- operations become commands

Result<void> SpdkQueue::take(const block::BlockOp& op) {
  const std::uint32_t number = take_number();
  Op& slot = ops_[number];
  slot = Op();
  slot.bounce = !op.pieces.empty() && needs_bounce(op.pieces);
  begin(slot, op);
  enqueue(number);
  // On one that is lost it would only use up its second chance.
  if (open_ && !lost_->load()) issue();
  return {};
}

bool SpdkQueue::needs_bounce(std::span<const block::Piece> pieces) {
  if (state_->options().transport == SpdkTransport::kTcp) return false;
  if (const std::uint64_t version = state_->memory().version(); version != memory_version_) {
    memory_ = state_->memory().ranges();
    memory_version_ = version;
  }
  return !all_within(pieces, memory_);
}

void SpdkQueue::issue() {
  while (!waiting_.empty() && issue_one(waiting_.front())) {
  }
}

// False: there is no room for its next command, or no controller.
bool SpdkQueue::issue_one(std::uint32_t number) {
  Op& op = ops_[number];
  if (op.planned < op.total) {
    SpdkRequest request = next_request(op);
    request.owner = number;
    if (channel_->submit(request, now_) != SpdkChannel::Taken::kYes) return false;
    note_sent(op, request);
  }
  if (op.planned < op.total) return true;
  op.waiting = false;
  waiting_.pop_front();
  if (op.outstanding == 0) finish(number);
  return true;
}

SpdkRequest SpdkQueue::next_request(const Op& op) const {
  SpdkRequest out;
  out.verb = verb_of(op.done.kind, geometry().discard_zeroes);
  if (out.verb == SpdkVerb::kFlush) return out;
  const std::uint32_t block = geometry().block_bytes;
  const std::uint64_t left = op.total - op.planned;
  out.block = (op.done.offset + op.planned) / block;
  if (op.pieces.empty()) {
    const std::uint64_t most =
        out.verb == SpdkVerb::kUnmap ? kDeallocateBlocksMax : state_->zeroes_bytes_max() / block;
    out.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(left / block, most));
    return out;
  }
  std::uint64_t bytes = std::min<std::uint64_t>(left, state_->command_bytes_max());
  if (op.bounce) bytes = std::min<std::uint64_t>(bytes, channel_->bounce_bytes());
  out.bounce = op.bounce;
  out.blocks = static_cast<std::uint32_t>(bytes / block);
  out.data = PieceWindow(op.pieces, op.planned, static_cast<std::uint32_t>(bytes));
  return out;
}

void SpdkQueue::note_sent(Op& op, const SpdkRequest& request) {
  ++op.outstanding;
  const std::uint64_t bytes = std::uint64_t{request.blocks} * geometry().block_bytes;
  op.planned += request.verb == SpdkVerb::kFlush ? 1 : bytes;
  state_->counters().charge(op.done.kind, op.purpose, bytes);
}

// ---- and end

void SpdkQueue::reap() {
  std::array<SpdkEnded, kBatch> batch;
  for (std::size_t count = kBatch; count == kBatch;) {
    count = channel_->take_ended(batch);
    if (count > 0) now_ = env::monotonic_now();
    for (const SpdkEnded& ended : std::span(batch).first(count)) note(ended);
  }
}

void SpdkQueue::note(const SpdkEnded& ended) {
  const auto number = static_cast<std::uint32_t>(ended.request.owner);
  Op& op = ops_[number];
  const bool well = ended.status.ok();
  state_->counters().command(op.done.kind, channel_->number(), ended.request.data.bytes(), well);
  --op.outstanding;
  if (!well) note_error(ended, op);
  if (op.cut) {
    if (op.outstanding == 0) cut_.push_back(number);
    return;
  }
  // One that still waits ends when it is looked at next.
  if (op.outstanding == 0 && op.planned >= op.total && !op.waiting) finish(number);
}

void SpdkQueue::note_error(const SpdkEnded& ended, Op& op) {
  if (ended.cut) {
    op.cut = true;
    return;
  }
  // A command that met what may pass is sent again at once.
  const bool again = is_passing(ended.status) && op.reissued < kReissuesMax &&
                     channel_->submit(ended.request, now_) == SpdkChannel::Taken::kYes;
  if (again) {
    ++op.reissued;
    ++op.outstanding;
    state_->counters().charge(op.done.kind, op.purpose, ended.request.data.bytes());
    return;
  }
  if (op.done.ok()) {
    const Fate fate = fate_of(ended.status, op.done.kind);
    op.done.code = fate.code;
    op.done.sys_errno = fate.sys_errno;
  }
  op.planned = op.total;  // the rest need not begin
}

}  // namespace larder::nvmf
