// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/disk_worker.h"

#include <algorithm>

#include "env/thread.h"

namespace larder::nvmf {
namespace {

constexpr std::size_t kQueueDepth = 128;
constexpr std::size_t kZeroBytes = 64U << 10U;
// Of a write of zeroes, which may hold up this thread, and with it the device's other commands.
constexpr std::uint64_t kZeroStep = 4U << 20U;

// What zeros are written from.
std::span<std::byte> zeros() {
  alignas(4096) static std::array<std::byte, kZeroBytes> bytes{};
  return bytes;
}

}  // namespace

Result<std::shared_ptr<DiskWorker>> DiskWorker::create(std::shared_ptr<block::BlockDevice> device) {
  LARDER_ASSIGN(auto queue, device->open_queue(kQueueDepth));
  std::shared_ptr<DiskWorker> worker(new DiskWorker(std::move(device), std::move(queue)));
  worker->thread_ = std::thread([raw = worker.get()] { raw->run(); });
  return worker;
}

DiskWorker::~DiskWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  queue_->wake();
  if (thread_.joinable()) thread_.join();
}

void DiskWorker::submit(DiskJob& job) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = inbox_.empty();
    inbox_.push_back(&job);
  }
  if (!first) return;  // it was woken for those before
  arrived_.notify_one();
  queue_->wake();
}

void DiskWorker::run() {
  env::set_thread_name("larder-nvmf-disk");
  std::array<block::BlockDone, kQueueDepth> done;
  while (collect()) {
    while (front_ < waiting_.size() && queue_->in_flight() < queue_->depth()) {
      begin(*waiting_[front_++]);
    }
    if (front_ == waiting_.size()) {
      waiting_.clear();
      front_ = 0;
    }
    const std::size_t count = queue_->wait(done, block::kNoDeadline);
    for (std::size_t i = 0; i < count; ++i) {
      auto& job = *reinterpret_cast<DiskJob*>(static_cast<std::uintptr_t>(done[i].tag));
      if (done[i].ok()) {
        next(job);
      } else {
        job.code = done[i].code;
        finish(job);
      }
    }
  }
}

// Takes what came in; sleeps while there is nothing at all to do. False: the end.
bool DiskWorker::collect() {
  {
    std::unique_lock lock(mutex_);
    if (waiting_.empty() && queue_->in_flight() == 0) {
      arrived_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
      if (inbox_.empty()) return false;
    }
    taken_.swap(inbox_);
  }
  waiting_.insert(waiting_.end(), taken_.begin(), taken_.end());
  taken_.clear();
  return true;
}

void DiskWorker::begin(DiskJob& job) {
  job.next_range = 0;
  job.done_bytes = 0;
  job.flushing = false;
  job.code = Code::kOk;
  next(job);
}

// Submits what comes next of the job, or gives it back.
void DiskWorker::next(DiskJob& job) {
  block::BlockOp op;
  if (!next_op(job, op)) {
    finish(job);
    return;
  }
  op.tag = reinterpret_cast<std::uintptr_t>(&job);
  if (auto taken = queue_->submit(op); !taken) {
    job.code = taken.error().code();
    finish(job);
  }
}

bool DiskWorker::next_op(DiskJob& job, block::BlockOp& op) {
  switch (job.kind) {
    case DiskJob::Kind::kRead:
      if (job.done_bytes != 0) return false;
      op = block::BlockOp::read(job.offset, job.pieces);
      job.done_bytes = job.bytes;
      return true;
    case DiskJob::Kind::kWrite:
      if (job.done_bytes == 0) {
        op = block::BlockOp::write(job.offset, job.pieces);
        job.done_bytes = job.bytes;
        return true;
      }
      break;
    case DiskJob::Kind::kZero:
      if (next_zero(job, op)) return true;
      break;
    case DiskJob::Kind::kDiscard:
      return next_discard(job, op);
    case DiskJob::Kind::kFlush:
      job.flush_after = true;
      break;
  }
  if (!job.flush_after || job.flushing) return false;
  job.flushing = true;
  op = block::BlockOp::flush();
  return true;
}

bool DiskWorker::next_zero(DiskJob& job, block::BlockOp& op) {
  if (job.done_bytes >= job.bytes) return false;
  const std::uint64_t offset = job.offset + job.done_bytes;
  if (const std::uint64_t most = queue_->geometry().zeroes_max; most > 0) {
    const std::uint64_t part = std::min({job.bytes - job.done_bytes, most, kZeroStep});
    job.done_bytes += part;
    op = block::BlockOp::write_zeroes(offset, part);
    return true;
  }
  // It has none: from memory.
  std::uint64_t left =
      std::min<std::uint64_t>(job.bytes - job.done_bytes, job.zeros.size() * kZeroBytes);
  left = std::min(left, queue_->geometry().transfer_max);
  job.done_bytes += left;
  std::size_t count = 0;
  while (left > 0) {
    const std::size_t part = std::min<std::uint64_t>(left, kZeroBytes);
    job.zeros[count++] = {zeros().data(), part};
    left -= part;
  }
  op = block::BlockOp::write(offset, std::span(job.zeros).first(count));
  return true;
}

// The whole units of each range; the rest keeps what it has, as a hint may.
bool DiskWorker::next_discard(DiskJob& job, block::BlockOp& op) {
  const block::Geometry& geometry = queue_->geometry();
  const std::uint64_t unit = std::max<std::uint64_t>(geometry.discard_bytes, 1);
  while (job.next_range < job.ranges.size()) {
    const DsmRange& range = job.ranges[job.next_range++];
    const std::uint64_t begin = (range.lba * geometry.block_bytes + unit - 1) / unit * unit;
    const std::uint64_t end = (range.lba + range.blocks) * geometry.block_bytes / unit * unit;
    if (begin >= end) continue;
    op = block::BlockOp::discard(begin, end - begin);
    return true;
  }
  return false;
}

void DiskWorker::finish(DiskJob& job) {
  job.taker->take_finished(job);
}

}  // namespace larder::nvmf
