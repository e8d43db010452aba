// SPDX-License-Identifier: Apache-2.0
// Replies on their way from the threads that made them to the reactor that sends them. The wake-up
// costs a system call only when the reactor sleeps.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "env/fd.h"
#include "larder/status.h"
#include "rpc/responder.h"

namespace larder::rpc {

class ServerConnection;
class ReplyLine;

struct LateReply {
  std::shared_ptr<ReplyLine> line;
  wire::FrameHeader request;
  Reply reply;
};

// One a reactor; outlives it while responders are about. What waits in it is bounded by the calls
// that each open connection may have outstanding.
class Mailbox {
 public:
  // kExhausted without a free descriptor.
  static Result<std::shared_ptr<Mailbox>> create();

  // Any thread. A closed box drops it.
  void post(LateReply late);
  void wake() noexcept;

  // The reactor's thread.
  int fd() const noexcept { return wake_.get(); }  // readable after wake()
  bool pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  // Announces that the reactor goes to sleep on fd(). False: a reply is here, it must not.
  bool fall_asleep();
  // Ends the sleep, and takes the wake-up back.
  void awaken();
  // Swaps what is here into `into`, which is empty.
  void collect(std::vector<LateReply>& into);
  // Drops what is here, and whatever comes.
  void close();

 private:
  explicit Mailbox(env::Fd wake) : wake_(std::move(wake)) {}

  env::Fd wake_;
  std::atomic<bool> pending_{false};  // replies_ is not empty
  std::mutex mutex_;                  // guards the following
  std::vector<LateReply> replies_;
  bool asleep_ = false;
  bool closed_ = false;
};

// One connection's end of it. The connection has one from its first late call on; responders keep
// it.
class ReplyLine final : public ReplyTaker, public std::enable_shared_from_this<ReplyLine> {
 public:
  ReplyLine(std::shared_ptr<Mailbox> mailbox, ServerConnection& connection)
      : mailbox_(std::move(mailbox)), connection_(&connection) {}
  void take(const wire::FrameHeader& request, Reply reply) override;
  bool wanted() const noexcept override { return open_.load(std::memory_order_acquire); }

  // The reactor's thread. Null once the connection has ended.
  ServerConnection* connection() const noexcept { return connection_; }
  void cut() noexcept;

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  ServerConnection* connection_;
  std::atomic<bool> open_{true};
};

}  // namespace larder::rpc
