// SPDX-License-Identifier: Apache-2.0
// What an NvmeDevice and its queues share: the association, and the thread that keeps it.
//
// That thread answers events, sends keep-alives, and makes a new association when a queue wants a
// connection and the last was lost. Connections are made there, so that no poll() waits for a
// handshake, and handed to the queue, which alone uses them from then on.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "block/block_device.h"
#include "nvmf/host/association.h"
#include "nvmf/host/facts.h"
#include "nvmf/host/remote_state.h"

namespace larder::nvmf {

// Any thread.
class NvmeState final : public RemoteState {
 public:
  // Attaches. Errors as NvmeDevice::open().
  static Result<std::shared_ptr<NvmeState>> open(const NvmeDeviceOptions& options);
  // Once no queue is left: tells the controller, which has two seconds for its answer.
  ~NvmeState() override;

  const NvmeDeviceOptions& options() const noexcept { return options_; }
  const NvmeDeviceOptions& remote() const noexcept override { return options_; }
  std::uint32_t nsid() const noexcept { return nsid_; }
  const ControllerFacts& controller() const noexcept { return controller_; }  // when it was opened

  // A queue comes, with a connection unless the association is lost just then.
  //   kExhausted    all I/O queues that the controller granted are in use
  //   kUnavailable  and others as QueuePair::connect()
  struct Entry {
    std::shared_ptr<QueueLink> link;
    QueueLink::Connection connection;
  };
  Result<Entry> enter();
  // And goes. A connection with nothing in flight is kept for the next.
  void leave(const std::shared_ptr<QueueLink>& link, QueueLink::Connection connection);
  // The association is of no use any more; all its queues and the thread hear of it. The first
  // reason counts.
  void lose(Association& association, const std::string& reason);

 private:
  NvmeState(NvmeDeviceOptions options, HostIdentity host, Waker waker)
      : RemoteState(std::move(waker), "connection"),
        options_(std::move(options)),
        host_(std::move(host)) {}

  // What is known after an attachment, besides its admin queue.
  struct Found {
    Attachment attachment;
    NamespaceFacts facts;
    block::Geometry geometry;
    block::Identity identity;
    std::shared_ptr<Association> association;
  };
  Result<Found> find(env::Nanos deadline);
  Result<void> begin();
  void adopt(Found found);
  std::optional<QueueLink::Connection> idle_connection(std::uint16_t qid);
  Result<std::uint16_t> free_qid();

  // ---- by the thread
  void run();
  void serve_links();
  bool any_wanted(env::Nanos& until);
  Result<void> reattach();
  // Of the namespace as it is now. `used`: the connection that it took, if it took one.
  Result<void> ask_witness_of(const Found& found, std::unique_ptr<QueuePair>& used);
  void refuse_links(const Error& error, env::Nanos now);
  void connect_link(QueueLink& link);
  void serve_admin();
  void on_ended(const Ended& ended);
  void keep_alive(env::Nanos now);
  void check_namespace();
  env::Nanos next_due() const;

  const NvmeDeviceOptions options_;
  const HostIdentity host_;
  std::uint32_t nsid_ = 0;
  ControllerFacts controller_;

  // Under mutex_.
  std::shared_ptr<Association> association_;
  std::vector<std::shared_ptr<QueueLink>> links_;
  std::vector<QueueLink::Connection> idle_;

  // Of the thread, and of who opens before it begins.
  std::unique_ptr<Admin> admin_;
  bool namespace_changed_ = false;
  bool keep_alive_sent_ = false;
  bool events_armed_ = false;
  env::Nanos keep_alive_last_ = 0;  // when the last was sent
  std::uint64_t associations_ = 0;
  std::thread thread_;
};

}  // namespace larder::nvmf
