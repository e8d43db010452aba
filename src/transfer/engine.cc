// SPDX-License-Identifier: Apache-2.0
// The public face: names, ids and batches; the work is in core.cc and below.
#include "larder/transfer.h"

#include "transfer/config_file.h"
#include "transfer/core.h"

namespace larder {

TransferEngine::TransferEngine(std::unique_ptr<Core> core) : core_(std::move(core)) {}

// What does not become quiescent keeps its memory, and the engine's parts, for good: a leak, where
// the alternative would be a write into memory that is somebody else's by then.
TransferEngine::~TransferEngine() {
  if (!core_->drain()) static_cast<void>(core_.release());
}

Result<std::unique_ptr<TransferEngine>> TransferEngine::create(TransferConfig config) {
  LARDER_ASSIGN(auto core, Core::create(std::move(config)));
  return std::unique_ptr<TransferEngine>(new TransferEngine(std::move(core)));
}

Result<std::unique_ptr<TransferEngine>> TransferEngine::create_from_file(const std::string& path) {
  LARDER_ASSIGN(TransferConfig config, transfer::load_config(path));
  return create(std::move(config));
}

Result<void> TransferEngine::register_memory(std::span<const MemoryRange> ranges) {
  return core_->register_memory(ranges);
}
Result<void> TransferEngine::unregister_memory(std::span<void* const> addresses) {
  return core_->unregister_memory(addresses);
}
Result<void*> TransferEngine::allocate_memory(std::uint64_t bytes, std::string_view location) {
  return core_->allocate_memory(bytes, location);
}
Result<void> TransferEngine::free_memory(void* address) {
  return core_->unregister_memory(std::span(&address, 1));
}

Result<SegmentId> TransferEngine::open_segment(std::string_view name) {
  return core_->open_segment(name);
}
Result<void> TransferEngine::close_segment(SegmentId segment) {
  return core_->close_segment(segment);
}
Result<SegmentInfo> TransferEngine::segment_info(SegmentId segment) {
  return core_->segment_info(segment);
}

Result<BatchId> TransferEngine::allocate_batch(std::size_t tasks_max) {
  return core_->batches().allocate(tasks_max);
}
Result<std::vector<SubmitResult>> TransferEngine::submit(BatchId batch,
                                                         std::span<const TransferRequest> requests,
                                                         const NotifyAfter* after) {
  return core_->submit(batch, requests, after);
}
Result<TaskStatus> TransferEngine::poll(BatchId batch, std::uint32_t task) {
  LARDER_ASSIGN(const auto found, core_->batch_with(batch, task));
  core_->look(found);
  return found->task(task).status();
}
Result<BatchStatus> TransferEngine::poll(BatchId batch) {
  LARDER_ASSIGN(const auto found, core_->batch(batch));
  core_->look(found);
  return found->status();
}
Result<BatchStatus> TransferEngine::wait(BatchId batch, std::chrono::nanoseconds timeout) {
  return core_->wait(batch, timeout);
}
Result<void> TransferEngine::subscribe(BatchId batch, std::function<void(BatchId)> callback) {
  LARDER_ASSIGN(const auto found, core_->batch(batch));
  found->subscribe(std::move(callback));
  return {};
}
Result<int> TransferEngine::event_fd(BatchId batch) {
  LARDER_ASSIGN(const auto found, core_->batch(batch));
  return found->event_fd();
}
Result<void> TransferEngine::cancel(BatchId batch, std::uint32_t task) {
  return core_->cancel(batch, task);
}
Result<void> TransferEngine::free_batch(BatchId batch) {
  return core_->free_batch(batch);
}
Result<std::string> TransferEngine::explain(BatchId batch, std::uint32_t task) {
  return core_->explain(batch, task);
}
Result<std::chrono::nanoseconds> TransferEngine::probe_peer(SegmentId segment) {
  LARDER_ASSIGN(const auto peer, core_->peer_of(segment));
  return peer->probe();
}
Result<void> TransferEngine::send_notification(SegmentId segment,
                                               const Notification& notification) {
  return core_->notify(segment, notification);
}
std::vector<Notification> TransferEngine::receive_notifications() {
  return core_->mailbox().take_all();
}
std::vector<std::string> TransferEngine::addresses() const {
  return core_->addresses();
}
std::uint64_t TransferEngine::quarantined_bytes() const {
  return core_->quarantined_bytes();
}

}  // namespace larder
