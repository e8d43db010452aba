// SPDX-License-Identifier: Apache-2.0
// Operations that read: get, stat, list, info. For lookup and match_prefix: lookup_call.h.
#include <memory>
#include <utility>

#include "base/version.h"
#include "node/get_call.h"
#include "node/session.h"
#include "wire/message.h"

namespace larder::node {
namespace {

// Look-ups run this far behind the loads that were started for them.
constexpr std::size_t kPrefetchDistance = 8;
constexpr int kErrorTextsMax = 64;
constexpr std::size_t kListBytesMax = 8 << 20;

template <class Reply>
void add_error(Reply& reply, std::size_t item, std::string text) {
  if (reply.errors_size() >= kErrorTextsMax) return;
  pb::ItemError* error = reply.add_errors();
  error->set_item(static_cast<std::uint32_t>(item));
  error->set_text(std::move(text));
}

bool key_fits(std::string_view key) noexcept {
  return !key.empty() && key.size() <= kKeyBytesMax;
}

rpc::Reply reply_with(const google::protobuf::MessageLite& body) {
  rpc::Reply reply;
  reply.frame = wire::frame_with(body);
  return reply;
}

}  // namespace

route::EntryRef NodeSession::find_ahead(std::size_t index) {
  if (index + kPrefetchDistance < refs_.size()) {
    core_.routes->prefetch(refs_[index + kPrefetchDistance].hash);
  }
  return core_.routes->find(refs_[index]);
}

// Who does not share its memory does not share its files. A target asks nobody where he runs.
tier::DirectWish NodeSession::direct_wish() const {
  using tier::DirectReads;
  tier::DirectWish wish;
  if (!core_.cold) return wish;
  const DirectReads allowed = core_.cold->restorer().direct();
  wish.files = get_request_.direct() && get_request_.routes_only() && local_ &&
               core_.share_memory && allowed != DirectReads::kOff;
  wish.remote = get_request_.direct_remote() &&
                (allowed == DirectReads::kAny || (allowed == DirectReads::kHost && local_));
  for (const std::uint32_t number : get_request_.not_direct()) {
    if (number < wish.not_these.size()) wish.not_these[number] = true;
  }
  return wish;
}

Result<rpc::Intake> NodeSession::get(const wire::FrameHeader& header, std::string_view body) {
  LARDER_TRY(wire::parse_body(body, wire::Op::kGet, get_request_));
  LARDER_ASSIGN(const bool known, resolve(get_request_.keys()));
  if (static_cast<std::size_t>(get_request_.capacities_size()) != refs_.size()) {
    return fail(Code::kInvalidArgument, "get: as many capacities as keys are needed");
  }
  GetCall::Mode mode;
  mode.routes_only = get_request_.routes_only();
  mode.direct = direct_wish();
  GetCall call(core_, header, mode, refs_.size());
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    call.add(known ? find_ahead(i) : route::EntryRef(), key_fits(refs_[i].key),
             get_request_.capacities(static_cast<int>(i)));
  }
  if (!call.must_wait()) return rpc::Intake(call.reply());
  rpc::Intake intake;
  intake.later = [kept = std::make_shared<GetCall>(std::move(call))](rpc::Responder responder) {
    GetCall::answer_later(kept, std::move(responder));
  };
  return intake;
}

Result<rpc::Reply> NodeSession::stat(std::string_view body) {
  pb::StatRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kStat, request));
  LARDER_ASSIGN(const bool known, resolve(request.keys()));
  pb::StatReply reply;
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    const route::EntryRef entry = known ? find_ahead(i) : route::EntryRef();
    Code code = entry ? Code::kOk : Code::kNotFound;
    if (!key_fits(refs_[i].key)) {
      code = Code::kInvalidArgument;
      add_error(reply, i, "a key has 1 to 1024 bytes");
    }
    reply.add_codes(static_cast<std::uint32_t>(code));
    reply.add_sizes(entry ? entry->length() : 0);
    reply.add_versions(entry ? entry->version() : 0);
    reply.add_checksums(entry ? entry->checksum() : 0);
    reply.add_pins(entry ? entry->pins().load(std::memory_order_relaxed) : 0);
    reply.add_tiers(
        entry ? static_cast<std::uint32_t>(tier_of(entry->has_hot(), entry->cold() != 0)) : 0);
  }
  return reply_with(reply);
}

Result<rpc::Reply> NodeSession::list(std::string_view body) {
  pb::ListRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kList, request));
  if (request.limit() == 0 || request.limit() > kBatchItemsMax) {
    return fail(Code::kInvalidArgument, "list: the limit must be 1 to 65536");
  }
  pb::ListReply reply;
  route::Space space;
  if (!core_.spaces.find(request.tenant(), request.domain(), request.object_set(), space)) {
    return reply_with(reply);
  }
  std::uint64_t bytes = 0;
  const auto visit = [&](const route::Entry& entry) {
    if (entry.space() != space.id || !entry.key().starts_with(request.prefix())) return true;
    if (static_cast<std::uint32_t>(reply.lengths_size()) == request.limit() ||
        bytes > kListBytesMax) {
      return false;
    }
    reply.add_lengths(static_cast<std::uint32_t>(entry.key().size()));
    reply.mutable_data()->append(entry.key());
    reply.add_sizes(entry.length());
    reply.add_versions(entry.version());
    bytes += entry.key().size();
    return true;
  };
  const std::uint64_t next = core_.routes->scan(request.cursor(), visit);
  reply.set_more(next != route::RouteTable::kEnd);
  if (reply.more()) reply.set_next(next);
  return reply_with(reply);
}

Result<rpc::Reply> NodeSession::info(std::string_view body) {
  pb::InfoRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kInfo, request));
  pb::InfoReply reply;
  reply.set_id(core_.id);
  reply.set_version(std::string(kVersion));
  reply.set_capacity_bytes(core_.hot->capacity());
  reply.set_used_bytes(core_.hot->used());
  reply.set_objects(core_.routes->size());
  reply.set_evictions(core_.hot->counters().evicted_objects.load(std::memory_order_relaxed));
  reply.set_pins(core_.pins_total());
  reply.set_connections(core_.connections ? core_.connections() : 0);
  reply.set_segment_pages(std::string(core_.hot->segment().page_kind()));
  reply.set_shared_memory(core_.share_memory);
  reply.set_socket(core_.socket);
  reply.set_warmed_bytes(core_.hot->warmed());
  return reply_with(reply);
}

}  // namespace larder::node
