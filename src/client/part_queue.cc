// SPDX-License-Identifier: Apache-2.0
#include "client/part_queue.h"

#include <array>
#include <utility>

#include "fileio/best_backend.h"
#include "fileio/file_queue.h"

namespace larder::client {
namespace {

// What both kinds of queues have in common.
template <class Queue, class Done>
class PartsOf : public PartQueue {
 public:
  explicit PartsOf(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}
  void start() override { queue_->start(); }
  std::size_t poll(std::span<PartDone> into) override {
    return give(into, queue_->poll(std::span(done_).first(into.size())));
  }
  std::size_t wait(std::span<PartDone> into, env::Nanos deadline) override {
    return give(into, queue_->wait(std::span(done_).first(into.size()), deadline));
  }
  bool quiesce(env::Nanos deadline) override { return queue_->quiesce(deadline); }

 protected:
  const std::unique_ptr<Queue> queue_;

 private:
  std::size_t give(std::span<PartDone> into, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) into[i] = {done_[i].tag, done_[i].ok()};
    return count;
  }
  std::array<Done, kDepth> done_;
};

class FileParts final : public PartsOf<fileio::FileQueue, fileio::FileDone> {
 public:
  using PartsOf::PartsOf;
  Limits limits() const noexcept override { return {}; }
  Result<void> submit(const PartOp& op) override {
    const block::Piece& piece = op.into.front();
    return queue_->submit(
        fileio::FileOp::read(*op.file, op.offset, {piece.data, piece.bytes}, op.tag));
  }
  void add_buffer(std::span<std::byte> memory) noexcept override { queue_->add_buffer(memory); }
  void remove_buffer(std::span<std::byte> memory) noexcept override {
    queue_->remove_buffer(memory);
  }
};

class NamespaceParts final : public PartsOf<block::BlockQueue, block::BlockDone> {
 public:
  using PartsOf::PartsOf;
  Limits limits() const noexcept override {
    return {queue_->geometry().block_bytes, block::kPiecesMax};
  }
  Result<void> submit(const PartOp& op) override {
    block::BlockOp read = block::BlockOp::read(op.offset, op.into, op.tag);
    read.purpose = op.purpose;
    return queue_->submit(read);
  }
};

}  // namespace

Result<std::unique_ptr<PartQueue>> ring_for_files() {
  LARDER_ASSIGN(auto backend, fileio::best_backend(PartQueue::kDepth));
  fileio::FileQueueOptions options;
  options.ops_max = PartQueue::kDepth;
  LARDER_ASSIGN(auto queue, fileio::FileQueue::create(std::move(backend), options));
  return std::make_unique<FileParts>(std::move(queue));
}

std::unique_ptr<PartQueue> queue_of_namespace(std::unique_ptr<block::BlockQueue> queue) {
  return std::make_unique<NamespaceParts>(std::move(queue));
}

}  // namespace larder::client
