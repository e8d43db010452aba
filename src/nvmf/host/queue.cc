// SPDX-License-Identifier: Apache-2.0
// How operations become commands, and how they end.
#include "nvmf/host/queue.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "nvmf/host/fate.h"
#include "nvmf/host/queue_impl.h"

namespace larder::nvmf {
namespace {

constexpr std::uint64_t kDsmBlocksMax = ~std::uint32_t{0};
constexpr std::size_t kBatch = 32;

}  // namespace

Result<std::unique_ptr<block::BlockQueue>> make_nvme_queue(std::shared_ptr<NvmeState> state,
                                                           std::size_t depth) {
  LARDER_ASSIGN(NvmeState::Entry entry, state->enter());
  return std::unique_ptr<block::BlockQueue>(
      std::make_unique<NvmeQueue>(std::move(state), std::move(entry), depth));
}

NvmeQueue::NvmeQueue(std::shared_ptr<NvmeState> state, NvmeState::Entry entry, std::size_t depth)
    : RemoteQueue(*state, entry.link->waker(), depth),
      state_(std::move(state)),
      link_(std::move(entry.link)),
      connection_(std::move(entry.connection)),
      ops_(depth) {}

NvmeQueue::~NvmeQueue() {
  if (!quiesce(env::monotonic_now() + kLinger)) lose("a queue was closed with commands in flight");
  state_->leave(link_, std::move(connection_));
}

// ---- operations become commands

Result<void> NvmeQueue::take(const block::BlockOp& op) {
  const std::uint32_t number = take_number();
  Op& slot = ops_[number];
  slot = Op();
  begin(slot, op);
  enqueue(number);
  // On one that is lost it would only use up its second chance.
  if (connection_.pair != nullptr && !connection_.association->lost.load()) issue();
  return {};
}

void NvmeQueue::issue() {
  while (!waiting_.empty() && connection_.pair->session().room() > 0) {
    if (!issue_one(waiting_.front())) return;
  }
}

// False: the first in the queue has to wait for its own commands.
bool NvmeQueue::issue_one(std::uint32_t number) {
  Op& op = ops_[number];
  if (op.planned < op.total) {
    // The ranges of a discard lie in the operation, one at a time.
    const bool busy = op.range_piece.data != nullptr && op.outstanding > 0;
    if (busy) return false;
    Request request = next_request(op);
    request.owner = number;
    connection_.pair->session().submit(request, now_);
    ++op.outstanding;
  }
  if (op.planned < op.total) return true;
  op.waiting = false;
  waiting_.pop_front();
  if (op.outstanding == 0) finish(number);
  return true;
}

Request NvmeQueue::next_request(Op& op) {
  Request out;
  out.command.nsid = state_->nsid();
  if (op.done.kind == block::OpKind::kFlush) {
    out.command.opcode = static_cast<std::uint8_t>(IoOpcode::kFlush);
    op.planned = 1;
    return out;
  }
  const std::uint64_t left = op.total - op.planned;
  const std::uint64_t offset = op.done.offset + op.planned;
  if (op.done.kind == block::OpKind::kDiscard) return discard_request(op, offset, left);
  if (op.done.kind == block::OpKind::kWriteZeroes) return zeroes_request(op, offset, left, false);
  const std::uint32_t block = geometry().block_bytes;
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(left, connection_.association->command_bytes_max));
  const bool reads = op.done.kind == block::OpKind::kRead;
  out.command.opcode = static_cast<std::uint8_t>(reads ? IoOpcode::kRead : IoOpcode::kWrite);
  out.command.set_range(offset / block, bytes / block);
  out.flow = reads ? DataFlow::kToHost : DataFlow::kToController;
  out.data = PieceWindow(op.pieces, op.planned, bytes);
  op.planned += bytes;
  state_->counters().charge(op.done.kind, op.purpose, bytes);
  return out;
}

Request NvmeQueue::zeroes_request(Op& op, std::uint64_t offset, std::uint64_t left,
                                  bool deallocate) {
  const std::uint32_t block = geometry().block_bytes;
  const std::uint64_t bytes = std::min(left, connection_.association->zeroes_bytes_max);
  Request out;
  out.command.nsid = state_->nsid();
  out.command.opcode = static_cast<std::uint8_t>(IoOpcode::kWriteZeroes);
  if (deallocate) out.command.cdw12 = kDeallocate;
  out.command.set_range(offset / block, static_cast<std::uint32_t>(bytes / block));
  op.planned += bytes;
  return out;
}

Request NvmeQueue::discard_request(Op& op, std::uint64_t offset, std::uint64_t left) {
  if (geometry().discard_zeroes) return zeroes_request(op, offset, left, true);
  const std::uint32_t block = geometry().block_bytes;
  Request out;
  out.command.nsid = state_->nsid();
  const std::uint64_t blocks = std::min(left / block, kDsmBlocksMax);
  op.range = {0, static_cast<std::uint32_t>(blocks), offset / block};
  op.range_piece = {reinterpret_cast<std::byte*>(&op.range), sizeof(op.range)};
  out.command.opcode = static_cast<std::uint8_t>(IoOpcode::kDatasetManagement);
  out.command.cdw10 = 0;  // ranges, less one
  out.command.cdw11 = kDsmDeallocate;
  out.flow = DataFlow::kToController;
  out.data = PieceWindow({&op.range_piece, 1}, 0, sizeof(op.range));
  op.planned += blocks * block;
  return out;
}

// ---- and end

void NvmeQueue::reap() {
  std::array<Ended, kBatch> batch;
  Session& session = connection_.pair->session();
  for (std::size_t count = kBatch; count == kBatch;) {
    count = session.take_ended(batch);
    if (count > 0) now_ = env::monotonic_now();
    for (const Ended& ended : std::span(batch).first(count)) note(ended);
  }
  const std::uint64_t digests = session.digest_errors() - digest_errors_;
  if (digests == 0) return;
  digest_errors_ += digests;
  state_->counters().digest_errors.fetch_add(digests, std::memory_order_relaxed);
}

void NvmeQueue::note(const Ended& ended) {
  const auto number = static_cast<std::uint32_t>(ended.request.owner);
  Op& op = ops_[number];
  const Status status = ended.completion.result();
  const bool well = status.ok() && !ended.digest_wrong;
  state_->counters().command(op.done.kind, link_->qid(), ended.request.data.bytes(), well);
  if (!well && worth_another(ended, op)) return;
  --op.outstanding;
  if (!well) {
    const Fate fate =
        ended.digest_wrong ? Fate{Code::kUnavailable, EIO} : fate_of(status, op.done.kind);
    if (op.done.ok()) {
      op.done.code = fate.code;
      op.done.sys_errno = fate.sys_errno;
    }
    op.planned = op.total;  // the rest need not begin
  }
  // One that still waits ends when it is looked at next.
  if (op.outstanding == 0 && op.planned >= op.total && !op.waiting) finish(number);
}

// A command that met what may pass, or whose data were damaged on the way, is sent again at once.
bool NvmeQueue::worth_another(const Ended& ended, Op& op) {
  const bool passing = ended.digest_wrong || is_passing(ended.completion.result());
  if (!passing || op.reissued >= kReissuesMax || connection_.pair->session().room() == 0) {
    return false;
  }
  ++op.reissued;
  connection_.pair->session().submit(ended.request, now_);
  state_->counters().charge(op.done.kind, op.purpose, ended.request.data.bytes());
  return true;
}

}  // namespace larder::nvmf
