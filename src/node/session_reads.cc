// SPDX-License-Identifier: Apache-2.0
// Operations that read: get, stat, list, info. For lookup and match_prefix: lookup_call.h.
#include <algorithm>

#include "base/version.h"
#include "node/session.h"
#include "wire/message.h"

namespace larder::node {
namespace {

// Look-ups run this far behind the loads that were started for them.
constexpr std::size_t kPrefetchDistance = 8;
constexpr int kErrorTextsMax = 64;
constexpr std::size_t kListBytesMax = 8 << 20;

// Sends values from where they lie; the references keep them there until the last byte has left. It
// goes with the last byte, or with the connection.
class ValueSource final : public rpc::PayloadSource {
 public:
  explicit ValueSource(const tier::HotStore& store) : store_(store) {}
  ~ValueSource() override {
    if (at_ == entries_.size()) transfer_.completed(entries_.size(), bytes_);
  }
  void add(route::EntryRef entry) {
    bytes_ += entry->length();
    entries_.push_back(std::move(entry));
  }
  void set_transfer(qos::ManagedTransfers::Transfer transfer) { transfer_ = std::move(transfer); }
  std::size_t next(std::span<iovec> into) override {
    std::size_t count = 0;
    for (; count < into.size() && at_ < entries_.size(); ++count, ++at_) {
      const route::Entry& entry = *entries_[at_];
      into[count] = {const_cast<std::byte*>(store_.data(entry)),
                     static_cast<std::size_t>(entry.length())};
    }
    return count;
  }

 private:
  const tier::HotStore& store_;
  std::vector<route::EntryRef> entries_;
  std::size_t at_ = 0;
  std::uint64_t bytes_ = 0;
  qos::ManagedTransfers::Transfer transfer_;
};

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

void add_get_item(const route::Entry* entry, Code code, bool with_route, pb::GetReply& reply) {
  reply.add_codes(static_cast<std::uint32_t>(code));
  reply.add_sizes(entry != nullptr ? entry->length() : 0);
  reply.add_checksums(entry != nullptr ? entry->checksum() : 0);
  reply.add_versions(entry != nullptr ? entry->version() : 0);
  if (!with_route) return;
  const route::HotReplica hot = entry != nullptr ? entry->hot() : route::HotReplica();
  pb::Routes& routes = *reply.mutable_routes();
  routes.add_slots(hot.slot);
  routes.add_segments(hot.segment);
  routes.add_offsets(hot.offset);
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

Result<rpc::Reply> NodeSession::get(const wire::FrameHeader& header, std::string_view body) {
  LARDER_TRY(wire::parse_body(body, wire::Op::kGet, get_request_));
  LARDER_ASSIGN(const bool known, resolve(get_request_.keys()));
  if (static_cast<std::size_t>(get_request_.capacities_size()) != refs_.size()) {
    return fail(Code::kInvalidArgument, "get: as many capacities as keys are needed");
  }
  get_reply_.Clear();
  rpc::Reply reply;
  auto values = std::make_unique<ValueSource>(*core_.hot);
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    route::EntryRef entry = known ? find_ahead(i) : route::EntryRef();
    const std::uint64_t room = get_request_.capacities(static_cast<int>(i));
    Code code = entry ? Code::kOk : Code::kNotFound;
    if (!key_fits(refs_[i].key)) {
      code = Code::kInvalidArgument;
      add_error(get_reply_, i, "a key has 1 to 1024 bytes");
    } else if (entry && !get_request_.routes_only() &&
               entry->length() > wire::kPayloadBytesMax - reply.payload_bytes) {
      code = Code::kTooLarge;
      add_error(get_reply_, i, "one answer carries at most 64 GiB; ask for fewer values at a time");
    } else if (entry && entry->length() > room) {
      code = Code::kInvalidArgument;
      add_error(get_reply_, i,
                "the value has " + std::to_string(entry->length()) +
                    " bytes, the destination room for " + std::to_string(room));
    }
    add_get_item(entry.get(), code, get_request_.routes_only(), get_reply_);
    if (code != Code::kOk) continue;
    ++hits;
    core_.hot->touch(entry->hot().slot);
    if (get_request_.routes_only()) continue;
    reply.payload_bytes += entry->length();
    values->add(std::move(entry));
  }
  core_.metrics.hits->add(hits);
  core_.metrics.misses->add(refs_.size() - hits);
  core_.metrics.bytes_got->add(reply.payload_bytes);
  reply.frame = wire::frame_with(get_reply_);
  if (reply.payload_bytes == 0) return reply;
  const qos::Purpose purpose = qos::purpose_of(header.intent, header.traffic_class);
  values->set_transfer(core_.transfers->begin(
      {TransportType::kTcp, purpose.traffic_class, purpose.intent, Opcode::kRead}));
  core_.transfers->know(Resource::kNicTx, reply.payload_bytes);
  reply.payload = std::move(values);
  return reply;
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
    reply.add_tiers(0);
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
