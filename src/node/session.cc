// SPDX-License-Identifier: Apache-2.0
#include "node/session.h"

#include "node/request_service.h"
#include "wire/message.h"

namespace larder::node {

std::unique_ptr<rpc::Session> RequestService::open_session(const rpc::Peer& peer) {
  return std::make_unique<NodeSession>(core_, peer.local);
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

NodeSession::NodeSession(StoreCore& core, bool local)
    : core_(core), local_(local), pins_(core.add_pin_table()) {}

rpc::Intake NodeSession::on_request(const wire::FrameHeader& header, std::string_view body) {
  const auto number = static_cast<std::uint16_t>(header.op);
  const OpMetrics& metrics = core_.metrics.ops[number <= wire::kOpMax ? number : 0];
  const env::Nanos started = env::monotonic_now();
  metrics.requests->add();
  if (header.op == wire::Op::kPut) {
    put_started_ = started;
    const Result<void> begun = begin_put(header, body);
    if (begun) return {std::nullopt, put_.get()};
    metrics.errors->add();
    return {rpc::error_reply(begun.error()), nullptr};
  }
  if (header.payload_bytes > 0) {
    metrics.errors->add();
    return {rpc::error_reply(Error(Code::kInvalidArgument, "only a put carries payload")), nullptr};
  }
  Result<rpc::Reply> reply = dispatch(header, body);
  if (!reply) {
    metrics.errors->add();
    return {rpc::error_reply(reply.error()), nullptr};
  }
  metrics.latency->record(static_cast<std::uint64_t>(env::monotonic_now() - started));
  return {std::move(*reply), nullptr};
}

Result<rpc::Reply> NodeSession::dispatch(const wire::FrameHeader& header, std::string_view body) {
  switch (header.op) {
    case wire::Op::kGet:
      return get(body);
    case wire::Op::kLookup:
      return lookup(body);
    case wire::Op::kMatchPrefix:
      return match_prefix(body);
    case wire::Op::kRemove:
      return remove(body);
    case wire::Op::kStat:
      return stat(body);
    case wire::Op::kPin:
      return pin(body);
    case wire::Op::kUnpin:
      return unpin(body);
    case wire::Op::kList:
      return list(body);
    case wire::Op::kInfo:
      return info(body);
    case wire::Op::kPut:
      break;
  }
  return fail(Code::kUnsupported, "this node does not know operation " +
                                      std::to_string(static_cast<unsigned>(header.op)));
}

Result<void> NodeSession::begin_put(const wire::FrameHeader& header, std::string_view body) {
  LARDER_TRY(wire::parse_body(body, wire::Op::kPut, put_request_));
  LARDER_TRY(wire::unpack_keys(put_request_.keys(), keys_));
  put_ = std::make_unique<PutCall>(core_);
  return put_->begin(put_request_, keys_, header.payload_bytes, local_);
}

rpc::Reply NodeSession::on_payload_end(const wire::FrameHeader& header) {
  rpc::Reply reply = put_->finish();
  put_.reset();
  core_.metrics.ops[static_cast<std::uint16_t>(header.op)].latency->record(
      static_cast<std::uint64_t>(env::monotonic_now() - put_started_));
  return reply;
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
