// SPDX-License-Identifier: Apache-2.0
#include "node/session.h"

#include "node/request_service.h"
#include "wire/message.h"

namespace larder::node {

std::unique_ptr<rpc::Session> RequestService::open_session(const rpc::Peer& peer) {
  return std::make_unique<NodeSession>(core_, device_calls_, peer);
}

std::vector<int> RequestService::shared_descriptors() {
  if (!core_.share_memory) return {};
  return {core_.fence->read_only_fd(), core_.hot->slot_segment().fd(), core_.hot->segment().fd()};
}

Result<std::pair<std::uint64_t, std::shared_ptr<void>>> RequestService::adopt_buffer(
    env::Fd fd, std::uint64_t bytes) {
  if (!core_.share_memory) return fail(Code::kUnsupported, "this node does not share memory");
  return core_.buffers.adopt(std::move(fd), bytes);
}

namespace {

bool takes_payload(wire::Op op) noexcept {
  return op == wire::Op::kPut || op == wire::Op::kLookup || op == wire::Op::kMatchPrefix;
}

}  // namespace

NodeSession::NodeSession(StoreCore& core, DeviceCalls& device_calls, const rpc::Peer& peer)
    : core_(core),
      device_calls_(device_calls),
      local_(peer.local),
      may_change_devices_(peer.local || peer.knows_token),
      pins_(core.add_pin_table()) {}

rpc::Intake NodeSession::on_request(const wire::FrameHeader& header, std::string_view body) {
  const auto number = static_cast<std::uint16_t>(header.op);
  const OpMetrics& metrics = core_.metrics.ops[number <= wire::kOpMax ? number : 0];
  const env::Nanos started = env::monotonic_now();
  metrics.requests->add();
  if (takes_payload(header.op)) {
    started_ = started;
    const Result<rpc::PayloadSink*> begun = begin(header, body);
    if (begun) return rpc::Intake(*begun);
    metrics.errors->add();
    return rpc::error_reply(begun.error());
  }
  if (header.payload_bytes > 0) {
    metrics.errors->add();
    return rpc::error_reply(Error(Code::kInvalidArgument, "this operation takes no payload"));
  }
  Result<rpc::Intake> intake = dispatch(header, body);
  if (!intake) {
    metrics.errors->add();
    return rpc::error_reply(intake.error());
  }
  // What is answered later has a series of its own.
  if (intake->reply) {
    metrics.latency->record(static_cast<std::uint64_t>(env::monotonic_now() - started));
  }
  return std::move(*intake);
}

Result<rpc::Intake> NodeSession::dispatch(const wire::FrameHeader& header, std::string_view body) {
  switch (header.op) {
    case wire::Op::kGet:
      return get(header, body);
    case wire::Op::kRemove:
      return remove(body);
    case wire::Op::kStat:
      return stat(body);
    case wire::Op::kPin:
      return pin(header, body);
    case wire::Op::kUnpin:
      return unpin(body);
    case wire::Op::kList:
      return list(body);
    case wire::Op::kInfo:
      return info(body);
    case wire::Op::kPut:
    case wire::Op::kLookup:
    case wire::Op::kMatchPrefix:
      break;  // begin()
    case wire::Op::kDevices:
      return devices(body);
    case wire::Op::kTransferInfo:
    case wire::Op::kTransferRead:
    case wire::Op::kTransferWrite:
    case wire::Op::kTransferNotify:
      break;  // a transfer engine's
  }
  return fail(Code::kUnsupported, "this node does not know operation " +
                                      std::to_string(static_cast<unsigned>(header.op)));
}

Result<rpc::PayloadSink*> NodeSession::begin(const wire::FrameHeader& header,
                                             std::string_view body) {
  if (header.op == wire::Op::kPut) return begin_put(header, body);
  return header.op == wire::Op::kLookup
             ? begin_lookup<pb::LookupRequest>(header, body, LookupKind::kEach)
             : begin_lookup<pb::MatchRequest>(header, body, LookupKind::kPrefix);
}

template <class Request>
Result<rpc::PayloadSink*> NodeSession::begin_lookup(const wire::FrameHeader& header,
                                                    std::string_view body, LookupKind kind) {
  Request request;
  LARDER_TRY(wire::parse_body(body, header.op, request));
  lookup_ = std::make_unique<LookupCall>(core_, kind);
  LARDER_TRY(lookup_->begin(request.keys(), request.routes(), header.payload_bytes));
  core_.transfers->know(Resource::kNicRx, header.payload_bytes);  // keys, no values
  return lookup_.get();
}

Result<rpc::PayloadSink*> NodeSession::begin_put(const wire::FrameHeader& header,
                                                 std::string_view body) {
  LARDER_TRY(wire::parse_body(body, wire::Op::kPut, put_request_));
  LARDER_TRY(wire::unpack_keys(put_request_.keys(), keys_));
  put_ = std::make_unique<PutCall>(core_, qos::purpose_of(header.intent, header.traffic_class));
  LARDER_TRY(put_->begin(put_request_, keys_, header.payload_bytes, local_));
  return put_.get();
}

rpc::Intake NodeSession::on_payload_end(const wire::FrameHeader& header) {
  const OpMetrics& metrics = core_.metrics.ops[static_cast<std::uint16_t>(header.op)];
  if (header.op == wire::Op::kPut && put_->must_wait(header)) {
    rpc::Intake intake;
    intake.later = [put = std::shared_ptr<PutCall>(std::move(put_))](rpc::Responder responder) {
      PutCall::answer_later(put, std::move(responder));
    };
    return intake;
  }
  Result<rpc::Reply> reply =
      header.op == wire::Op::kPut ? Result<rpc::Reply>(put_->finish()) : lookup_->finish();
  put_.reset();
  lookup_.reset();
  if (!reply) {
    metrics.errors->add();
    return rpc::error_reply(reply.error());
  }
  metrics.latency->record(static_cast<std::uint64_t>(env::monotonic_now() - started_));
  return std::move(*reply);
}

Result<bool> NodeSession::resolve(const pb::Keys& keys) {
  LARDER_TRY(wire::unpack_keys(keys, keys_));
  refs_.clear();
  route::Space space;
  const bool known = core_.spaces.find(keys_.tenant, keys_.domain, keys_.object_set, space);
  refs_.reserve(keys_.keys.size());
  for (const std::string_view key : keys_.keys) {
    refs_.push_back(known ? route::key_in(space, key) : route::KeyRef{0, key, 0});
  }
  return known;
}

}  // namespace larder::node
