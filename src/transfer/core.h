// SPDX-License-Identifier: Apache-2.0
// What a TransferEngine is made of, in the order in which it goes away: transports first, so that
// nothing moves any more when the rest goes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "env/temp_directory.h"
#include "larder/transfer.h"
#include "platform/platform_set.h"
#include "qos/telemetry.h"
#include "rpc/server.h"
#include "transfer/batch.h"
#include "transfer/breaker.h"
#include "transfer/dispatcher.h"
#include "transfer/file_transport.h"
#include "transfer/memory_table.h"
#include "transfer/peer.h"
#include "transfer/peer_service.h"
#include "transfer/segment.h"
#include "transfer/submitter.h"
#include "transfer/tcp_transport.h"
#include "transfer/transport.h"

namespace larder {

class TransferEngine::Core {
 public:
  static Result<std::unique_ptr<Core>> create(TransferConfig config);
  // Ends everything, `drain_timeout` at most. False: something is not quiescent. Then nothing here
  // may ever be destroyed.
  bool drain();

  Result<void> register_memory(std::span<const MemoryRange> ranges);
  Result<void> unregister_memory(std::span<void* const> addresses);
  Result<void*> allocate_memory(std::uint64_t bytes, std::string_view location);

  Result<SegmentId> open_segment(std::string_view name);
  Result<void> close_segment(SegmentId segment);
  Result<SegmentInfo> segment_info(SegmentId segment);
  // kInvalidArgument for segments that are not a peer's memory.
  Result<std::shared_ptr<transfer::Peer>> peer_of(SegmentId segment);
  Result<void> notify(SegmentId segment, const Notification& notification);
  transfer::Mailbox& mailbox() noexcept { return mailbox_; }
  std::vector<std::string> addresses() const;

  Result<std::vector<SubmitResult>> submit(BatchId id, std::span<const TransferRequest> requests,
                                           const NotifyAfter* after);
  // Picks up what has come, for who polls.
  void look(const transfer::BatchRef& batch);
  Result<BatchStatus> wait(BatchId id, std::chrono::nanoseconds timeout);
  Result<void> cancel(BatchId id, std::uint32_t task);
  Result<void> free_batch(BatchId id);
  Result<std::string> explain(BatchId id, std::uint32_t task);
  // kNotFound with the name of what was asked for.
  Result<transfer::BatchRef> batch(BatchId id);
  Result<transfer::BatchRef> batch_with(BatchId id, std::uint32_t task);

  transfer::BatchTable& batches() noexcept { return *batches_; }
  std::uint64_t quarantined_bytes() const noexcept { return dispatcher_->quarantined_bytes(); }

 private:
  explicit Core(TransferConfig config) : config_(std::move(config)) {}
  Result<void> allocate_on(const Location& where, std::uint64_t bytes,
                           transfer::MemoryRangeRecord& record);
  Result<void> make_transports(const std::vector<TransportType>& wanted);
  Result<std::unique_ptr<transfer::Transport>> make_transport(TransportType type,
                                                              unsigned copy_workers,
                                                              transfer::PieceSink& sink);
  Result<void> make_stager(TransportType type);
  Result<void> export_gauges();
  Result<SegmentId> open_file(std::string_view name, const std::string& path);
  Result<SegmentId> open_peer(std::string_view name);
  Result<void> listen();
  Result<void> export_unmanaged();
  void drop_unused_peers();
  bool worth_polling() const;
  void rest();
  bool doze(transfer::Batch& batch, std::int64_t deadline);
  bool rest_until_idle(transfer::Batch& batch, std::int64_t deadline);

  TransferConfig config_;
  std::unique_ptr<platform::PlatformSet> platforms_;
  transfer::MemoryTable memory_;
  transfer::Breakers breakers_;
  transfer::Mailbox mailbox_;
  std::string token_;
  std::unique_ptr<qos::Telemetry> telemetry_;
  std::unique_ptr<transfer::BatchTable> batches_;
  std::unique_ptr<transfer::Selector> selector_;
  std::unique_ptr<transfer::Dispatcher> dispatcher_;
  transfer::SegmentTable segments_;
  std::unique_ptr<transfer::Submitter> submitter_;
  std::vector<obs::CallbackHandle> gauges_;
  std::mutex peers_mutex_;
  // By address. Held here so that none goes away on a thread of its own.
  std::map<std::string, std::shared_ptr<transfer::Peer>> peers_;
  std::optional<env::TempDirectory> socket_directory_;
  std::unique_ptr<transfer::PeerService> service_;
  std::unique_ptr<rpc::Server> server_;
  std::vector<transfer::TcpTransport*> tcps_;  // the one of its own, and the stager's
  transfer::FileTransport* files_ = nullptr;
  std::vector<std::unique_ptr<transfer::Transport>> transports_;
  std::vector<std::unique_ptr<transfer::Transport>> stagers_;
  std::atomic<unsigned> sleepers_{0};  // threads in wait() that move nothing
};

}  // namespace larder
