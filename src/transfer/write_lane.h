// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "transfer/tcp_call.h"

namespace larder::transfer {

// Calls that carry many bytes to a peer, one after the other. They are sent by a thread of the
// lane's own, so that a peer that does not read keeps nobody but itself waiting; a thread that has
// to wait for them anyway may help. To such a thread the lane leaves attended calls for a moment
// (kGrace), while such calls keep coming: a wake-up that finds the work done costs more than it
// brings where cores are few. Any thread.
class WriteLane {
 public:
  using Send = std::function<void(std::unique_ptr<TcpCall>)>;
  explicit WriteLane(Send send) : send_(std::move(send)) {}
  // What was not sent ends with kCancelled. Not from its own thread.
  ~WriteLane();

  void add(std::unique_ptr<TcpCall> call);
  // Sends the next one, if there is one and nobody is sending.
  bool help();
  // Ends a call that is still queued and holds nothing but this piece.
  void cancel(PieceToken token);
  bool busy() const;

 private:
  void run();
  std::unique_ptr<TcpCall> take();
  bool wait_for_call(std::unique_lock<std::mutex>& lock);

  const Send send_;
  mutable std::mutex mutex_;  // the rest
  std::condition_variable changed_;
  std::deque<std::unique_ptr<TcpCall>> queue_;
  std::atomic<bool> waiting_{false};  // the queue is not empty: what a poll looks at first
  bool sending_ = false;
  bool stopping_ = false;
  bool dozing_ = false;  // its thread sleeps until it is told
  unsigned sends_ = 0;
  unsigned unattended_ = 0;  // calls in the queue that nobody may come for
  std::thread thread_;
};

}  // namespace larder::transfer
