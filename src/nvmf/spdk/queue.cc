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
constexpr env::Nanos kLinger = 5 * env::kSecond;  // of a queue that is destroyed

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
    : BlockQueue(state->books(), depth),
      state_(std::move(state)),
      channel_(std::move(channel)),
      lost_(channel_->lost()),
      ops_(depth) {
  free_.reserve(depth);
  cut_.reserve(depth);
  for (std::size_t i = depth; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
}

SpdkQueue::~SpdkQueue() {
  if (!quiesce(env::monotonic_now() + kLinger)) lose("a queue was closed with commands in flight");
  state_->leave(*channel_);
}

// ---- operations become commands

Result<void> SpdkQueue::take(const block::BlockOp& op) {
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Op& slot = ops_[number];
  slot = Op();
  slot.done = {op.tag, Code::kOk, 0, op.kind, op.offset, op.bytes(), op.trace_id};
  slot.pieces = op.pieces;
  slot.traffic_class = op.purpose.traffic_class;
  slot.total = op.kind == block::OpKind::kFlush ? 1 : slot.done.bytes;
  slot.bounce = !op.pieces.empty() && needs_bounce(op.pieces);
  now_ = slot.begun = env::monotonic_now();
  slot.wait_until = now_ + state_->options().remote.reattach_timeout;
  if (op.kind == block::OpKind::kFlush) slot.writes_before = state_->flushes().writes();
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

void SpdkQueue::enqueue(std::uint32_t number) {
  if (std::exchange(ops_[number].waiting, true)) return;
  waiting_.push_back(number);
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
  state_->counters().charge(op.done.kind, op.traffic_class, bytes);
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
    return;
  }
  if (op.done.ok()) {
    const Fate fate = fate_of(ended.status, op.done.kind);
    op.done.code = fate.code;
    op.done.sys_errno = fate.sys_errno;
  }
  op.planned = op.total;  // the rest need not begin
}

void SpdkQueue::finish(std::uint32_t number) {
  Op& op = ops_[number];
  block::BlockDone& done = op.done;
  if (done.ok() && block::changes(done.kind) && geometry().volatile_cache) {
    state_->flushes().note_write(*lost_);
  }
  if (done.kind == block::OpKind::kFlush) {
    if (state_->flushes().writes_lost()) {
      state_->fail_flush();
      done.code = Code::kUnavailable;
    } else if (done.ok()) {
      state_->flushes().note_flush(op.writes_before);
    }
  }
  state_->counters().took(done.kind, std::max<env::Nanos>(0, now_ - op.begun));
  ended_.push_back(number);
}

std::size_t SpdkQueue::give(std::span<block::BlockDone> into) {
  std::size_t count = 0;
  for (; count < into.size() && !ended_.empty(); ended_.pop_front()) {
    into[count++] = ops_[ended_.front()].done;
    free_.push_back(ended_.front());
  }
  return count;
}

void SpdkQueue::end_waiting(Code code) {
  while (!waiting_.empty()) {
    const std::uint32_t number = waiting_.front();
    waiting_.pop_front();
    Op& op = ops_[number];
    op.waiting = false;
    if (op.done.ok() && op.planned < op.total) op.done.code = code;
    op.planned = op.total;
    if (op.outstanding == 0) finish(number);
  }
}

}  // namespace larder::nvmf
