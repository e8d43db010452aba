// SPDX-License-Identifier: Apache-2.0
// Operations that change something besides values: remove, pin, unpin.
#include <memory>
#include <utility>

#include "node/change_calls.h"
#include "node/session.h"
#include "wire/message.h"

namespace larder::node {
namespace {

constexpr std::uint64_t kLeaseMsMax = 24ULL * 3600 * 1000;

}  // namespace

Result<rpc::Intake> NodeSession::remove(std::string_view body) {
  pb::RemoveRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kRemove, request));
  LARDER_ASSIGN(const bool known, resolve(request.keys()));
  auto call = std::make_shared<RemoveCall>(core_, refs_.size());
  for (const route::KeyRef& ref : refs_) call->add(known ? &ref : nullptr);
  if (!call->must_wait()) return rpc::Intake(call->reply());
  rpc::Intake intake;
  intake.later = [call](rpc::Responder responder) {
    RemoveCall::answer_later(call, std::move(responder));
  };
  return intake;
}

Result<rpc::Intake> NodeSession::pin(const wire::FrameHeader& header, std::string_view body) {
  pb::PinRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kPin, request));
  LARDER_ASSIGN(const bool known, resolve(request.keys()));
  if (request.lease_ms() > kLeaseMsMax) {
    return fail(Code::kInvalidArgument, "pin: a lease is at most 24 hours");
  }
  const env::Nanos lease_end =
      request.lease_ms() == 0
          ? 0
          : core_.clock->now() + static_cast<env::Nanos>(request.lease_ms()) * env::kMilli;
  auto call = std::make_shared<PinCall>(core_, pins_, lease_end, refs_.size());
  for (const route::KeyRef& ref : refs_) {
    call->add(known ? core_.routes->find(ref) : route::EntryRef());
  }
  if (!call->must_wait()) return rpc::Intake(call->reply());
  rpc::Intake intake;
  const qos::Purpose purpose = qos::purpose_of(header.intent, header.traffic_class);
  intake.later = [call, purpose](rpc::Responder responder) {
    PinCall::answer_later(call, purpose, std::move(responder));
  };
  return intake;
}

Result<rpc::Reply> NodeSession::unpin(std::string_view body) {
  pb::UnpinRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kUnpin, request));
  LARDER_ASSIGN(const bool known, resolve(request.keys()));
  pb::UnpinReply reply;
  for (const route::KeyRef& ref : refs_) {
    const Result<void> unpinned = known ? pins_->unpin(ref) : fail(Code::kNotFound, "");
    reply.add_codes(static_cast<std::uint32_t>(unpinned ? Code::kOk : unpinned.error().code()));
  }
  rpc::Reply out;
  out.frame = wire::frame_with(reply);
  return out;
}

}  // namespace larder::node
