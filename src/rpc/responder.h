// SPDX-License-Identifier: Apache-2.0
// The right and the duty to answer one call later, from any thread.
#pragma once

#include <memory>

#include "rpc/reply.h"
#include "wire/frame.h"

namespace larder::rpc {

// Where a late reply goes: the connection of its call. Any thread.
class ReplyTaker {
 public:
  virtual ~ReplyTaker() = default;
  // Drops the reply, and its payload with it, when the connection has closed meanwhile. Does not
  // block: it may be called where the reply was made.
  virtual void take(const wire::FrameHeader& request, Reply reply) = 0;
  virtual bool wanted() const noexcept = 0;
};

// Made by the connection, handed to whoever answers. Used by one thread at a time. It holds neither
// connection nor session: both may end while the call is under way.
class Responder {
 public:
  Responder(std::shared_ptr<ReplyTaker> taker, const wire::FrameHeader& request) noexcept
      : taker_(std::move(taker)), request_(request) {}
  Responder(Responder&&) noexcept = default;
  Responder& operator=(Responder&& other) noexcept;
  // A call that nobody completed is answered with kUnavailable.
  ~Responder();

  // Once; a second reply, or one through what was moved from, is dropped.
  void complete(Reply reply);
  // False once the connection has closed: the work for the answer may be left undone.
  bool wanted() const noexcept { return taker_ != nullptr && taker_->wanted(); }

 private:
  void give_up() noexcept;

  std::shared_ptr<ReplyTaker> taker_;  // null: completed, or moved from
  wire::FrameHeader request_;
};

}  // namespace larder::rpc
