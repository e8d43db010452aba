// SPDX-License-Identifier: Apache-2.0
#include "rpc/responder.h"

#include <utility>

#include "larder.pb.h"
#include "wire/message.h"

namespace larder::rpc {

Reply error_reply(const Error& error) {
  pb::ErrorReply body;
  body.set_text(error.message());
  Reply reply;
  reply.code = error.code();
  reply.frame = wire::frame_with(body);
  return reply;
}

Responder& Responder::operator=(Responder&& other) noexcept {
  if (this == &other) return *this;
  give_up();
  taker_ = std::move(other.taker_);
  request_ = other.request_;
  return *this;
}

Responder::~Responder() {
  give_up();
}

void Responder::complete(Reply reply) {
  if (const auto taker = std::exchange(taker_, nullptr)) taker->take(request_, std::move(reply));
}

void Responder::give_up() noexcept {
  if (!taker_) return;
  complete(error_reply(
      Error(Code::kUnavailable, "the node gave this call up before it was answered; try again")));
}

}  // namespace larder::rpc
