// SPDX-License-Identifier: Apache-2.0
// What an engine serves to its peers: reads and writes of registered memory, by absolute address,
// straight from where it lies and to where it goes; a description of that memory; notifications.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "larder/transfer.h"
#include "qos/managed.h"
#include "rpc/service.h"
#include "transfer/memory_table.h"

namespace larder::transfer {

// Any thread.
class Mailbox {
 public:
  static constexpr std::size_t kMessagesMax = 1024;
  // kInvalidArgument (sizes), kBackpressure (full: receive some).
  Result<void> put(Notification notification);
  std::vector<Notification> take_all();

 private:
  std::mutex mutex_;
  std::deque<Notification> messages_;
};
// kInvalidArgument: the name has 1 to 255 bytes, the message at most 64 KiB.
Result<void> check_notification(const Notification& notification);

struct PeerServiceOptions {
  std::uint64_t incarnation = 1;
  std::string socket;  // told to peers on this machine; empty: none
};

class PeerService final : public rpc::Service {
 public:
  // `metrics` null: a registry of its own.
  PeerService(MemoryTable& memory, Mailbox& mailbox, PeerServiceOptions options,
              obs::Registry* metrics = nullptr)
      : memory_(memory), mailbox_(mailbox), options_(std::move(options)), books_(metrics) {}

  std::unique_ptr<rpc::Session> open_session(const rpc::Peer& peer) override;
  // Of the memory that can be mapped, in the order of the description; at most 128.
  std::vector<int> shared_descriptors() override;
  Result<std::pair<std::uint64_t, std::shared_ptr<void>>> adopt_buffer(
      env::Fd fd, std::uint64_t bytes) override;

  MemoryTable& memory() noexcept { return memory_; }
  Mailbox& mailbox() noexcept { return mailbox_; }
  // Payload that peers were served, in and out.
  void know(Resource resource, std::uint64_t bytes) noexcept { books_.know(resource, bytes); }
  qos::ManagedTransfers& books() noexcept { return books_; }
  const PeerServiceOptions& options() const noexcept { return options_; }

 private:
  MemoryTable& memory_;
  Mailbox& mailbox_;
  const PeerServiceOptions options_;
  qos::ManagedTransfers books_;
};

}  // namespace larder::transfer
