// SPDX-License-Identifier: Apache-2.0
// Operations that change something besides values: remove, pin, unpin.
#include "node/session.h"
#include "wire/message.h"

namespace larder::node {
namespace {

constexpr int kErrorTextsMax = 64;
constexpr std::uint64_t kLeaseMsMax = 24ULL * 3600 * 1000;

}  // namespace

Result<rpc::Reply> NodeSession::remove(std::string_view body) {
  pb::RemoveRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kRemove, request));
  LARDER_ASSIGN(const bool known, resolve(request.keys()));
  pb::RemoveReply reply;
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    const Result<void> removed =
        known ? core_.routes->remove(refs_[i], {}) : fail(Code::kNotFound, "no such object");
    reply.add_codes(static_cast<std::uint32_t>(removed ? Code::kOk : removed.error().code()));
    if (removed || removed.error().code() == Code::kNotFound) continue;
    if (reply.errors_size() >= kErrorTextsMax) continue;
    pb::ItemError* error = reply.add_errors();
    error->set_item(static_cast<std::uint32_t>(i));
    error->set_text(removed.error().message());
  }
  rpc::Reply out;
  out.frame = wire::frame_with(reply);
  return out;
}

Result<rpc::Reply> NodeSession::pin(std::string_view body) {
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
  pb::PinReply reply;
  pb::Routes& routes = *reply.mutable_routes();
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    const route::EntryRef entry = known ? core_.routes->find(refs_[i]) : route::EntryRef();
    Code code = Code::kNotFound;
    if (entry) {
      const Result<void> pinned = pins_->pin(entry, lease_end);
      code = pinned ? Code::kOk : pinned.error().code();
      core_.hot->touch(entry->hot().slot);
    }
    reply.add_codes(static_cast<std::uint32_t>(code));
    reply.add_sizes(entry ? entry->length() : 0);
    reply.add_versions(entry ? entry->version() : 0);
    routes.add_slots(entry ? entry->hot().slot : 0);
    routes.add_segments(entry ? entry->hot().segment : 0);
    routes.add_offsets(entry ? entry->hot().offset : 0);
  }
  rpc::Reply out;
  out.frame = wire::frame_with(reply);
  return out;
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
