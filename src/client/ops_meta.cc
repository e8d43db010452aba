// SPDX-License-Identifier: Apache-2.0
#include "client/ops_meta.h"

#include <algorithm>

#include "client/core.h"
#include "larder.pb.h"
#include "wire/keys.h"
#include "wire/message.h"

namespace larder::client {
namespace {

tl::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::kCorrupt, "the node's " + std::string(what) + " answer is malformed");
}

template <class Reply>
void add_texts(const Reply& reply, auto& results) {
  for (const pb::ItemError& error : reply.errors()) {
    if (error.item() < results.size()) results[error.item()].message = error.text();
  }
}

Question question_of(wire::Op op, const google::protobuf::MessageLite& body) {
  Question question;
  question.op = op;
  question.frame = wire::frame_with(body);
  return question;
}

// Keys that go as payload.
template <class Request>
Question question_of(wire::Op op, Request& request, const KeySpace& space,
                     std::span<const std::string_view> keys, std::optional<KeySource>& source) {
  wire::announce_keys(space, keys.size(), *request.mutable_keys());
  source.emplace(keys);
  Question question = question_of(op, request);
  question.payload = &*source;
  question.payload_bytes = source->payload_bytes();
  return question;
}

Tier tier_at(std::uint32_t number) noexcept {
  return static_cast<Tier>(std::min<std::uint32_t>(number, 0xff));
}

}  // namespace

Result<void> check_reply(const wire::FrameHeader& header, std::string_view body) {
  if (header.code == Code::kOk) return {};
  pb::ErrorReply error;
  if (!error.ParseFromArray(body.data(), static_cast<int>(body.size()))) return malformed("error");
  return fail(header.code, error.text());
}

Route route_at(const pb::Routes& routes, int i, std::uint64_t version, std::uint64_t length) {
  if (i >= routes.slots_size() || i >= routes.segments_size() || i >= routes.offsets_size()) {
    return {};
  }
  Route route;
  route.version = version;
  route.length = length;
  route.offset = routes.offsets(i);
  route.slot = routes.slots(i);
  route.segment = static_cast<std::uint16_t>(std::min<std::uint32_t>(routes.segments(i), 0xffff));
  return route;
}

// ---- exists ----

ExistsOp::ExistsOp(ClientCore& core, std::span<const std::string_view> keys)
    : Op(core), keys_(keys), present_(keys.size()) {}

Result<bool> ExistsOp::local_pass() {
  if (answered_) return true;
  if (scanned_) return !all_unknown_ && unknown_.empty();
  scanned_ = true;
  const auto attachment = core_.attachment(deadline());
  all_unknown_ = !attachment;
  if (all_unknown_) return keys_.empty();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    Route route;
    if (core_.cache().find(keys_[i], core_.hash(keys_[i]), route) && attachment->valid(route)) {
      present_[i] = true;
    } else {
      unknown_.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return unknown_.empty();
}

Result<Question> ExistsOp::ask(Lane& lane) {
  asked_.clear();
  for (const std::uint32_t i : unknown_) asked_.push_back(keys_[i]);
  pb::LookupRequest request;
  request.set_routes(core_.path() == Path::kSharedMemory);
  return question_of(wire::Op::kLookup, request, core_.space(), all_unknown_ ? keys_ : asked_,
                     source_);
}

Result<rpc::PayloadSink*> ExistsOp::on_answer(const wire::FrameHeader& header,
                                              std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::LookupReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kLookup, reply));
  const std::size_t asked = all_unknown_ ? keys_.size() : unknown_.size();
  if (reply.present().size() != (asked + 7) / 8) return malformed("lookup");
  const auto attachment = reply.has_routes() ? core_.attachment(deadline()) : nullptr;
  int found = 0;
  for (std::size_t i = 0; i < asked; ++i) {
    if ((static_cast<unsigned char>(reply.present()[i / 8]) >> (i % 8) & 1U) == 0) continue;
    const std::size_t item = all_unknown_ ? i : unknown_[i];
    present_[item] = true;
    const int at = found++;
    if (!attachment || at >= reply.versions_size() || at >= reply.sizes_size()) continue;
    const Route route = route_at(reply.routes(), at, reply.versions(at), reply.sizes(at));
    if (attachment->plausible(route)) {
      core_.cache().insert(keys_[item], core_.hash(keys_[item]), route);
    }
  }
  answered_ = true;
  return nullptr;
}

void ExistsOp::deliver(const Error* error) {
  done(error != nullptr ? Result<std::vector<bool>>(fail(*error)) : std::move(present_));
}

// ---- match_prefix ----

Result<bool> MatchOp::local_pass() {
  if (answered_) return true;
  const auto attachment = core_.attachment(deadline());
  while (attachment && match_.keys < keys_.size()) {
    const std::string_view key = keys_[match_.keys];
    Route route;
    if (!core_.cache().find(key, core_.hash(key), route) || !attachment->valid(route)) break;
    ++match_.keys;
    match_.bytes += route.length;
    match_.sizes.push_back(route.length);
    match_.tiers.push_back(Tier::kHot);  // whether there is a record, too, only the node knows
  }
  return match_.keys == keys_.size();
}

Result<Question> MatchOp::ask(Lane& lane) {
  pb::MatchRequest request;
  request.set_routes(core_.path() == Path::kSharedMemory);
  return question_of(wire::Op::kMatchPrefix, request, core_.space(), keys_.subspan(match_.keys),
                     source_);
}

Result<rpc::PayloadSink*> MatchOp::on_answer(const wire::FrameHeader& header,
                                             std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::MatchReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kMatchPrefix, reply));
  const std::size_t first = match_.keys;
  if (reply.matched() > keys_.size() - first ||
      static_cast<std::size_t>(reply.sizes_size()) != reply.matched() ||
      (reply.tiers_size() != 0 && reply.tiers_size() != reply.sizes_size())) {
    return malformed("match");
  }
  const auto attachment = reply.has_routes() ? core_.attachment(deadline()) : nullptr;
  for (int i = 0; i < reply.sizes_size(); ++i) {
    match_.bytes += reply.sizes(i);
    match_.sizes.push_back(reply.sizes(i));
    match_.tiers.push_back(i < reply.tiers_size() ? tier_at(reply.tiers(i)) : Tier::kHot);
    if (!attachment || i >= reply.versions_size()) continue;
    const Route route = route_at(reply.routes(), i, reply.versions(i), reply.sizes(i));
    const std::string_view key = keys_[first + static_cast<std::size_t>(i)];
    if (attachment->plausible(route)) core_.cache().insert(key, core_.hash(key), route);
  }
  match_.keys += reply.matched();
  answered_ = true;
  return nullptr;
}

void MatchOp::deliver(const Error* error) {
  done(error != nullptr ? Result<PrefixMatch>(fail(*error)) : std::move(match_));
}

// ---- remove ----

Result<Question> RemoveOp::ask(Lane& lane) {
  pb::RemoveRequest request;
  wire::pack_keys(core_.space(), keys_, *request.mutable_keys());
  return question_of(wire::Op::kRemove, request);
}

Result<rpc::PayloadSink*> RemoveOp::on_answer(const wire::FrameHeader& header,
                                              std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::RemoveReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kRemove, reply));
  if (static_cast<std::size_t>(reply.codes_size()) != keys_.size()) return malformed("remove");
  results_.resize(keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    results_[i].code = static_cast<Code>(reply.codes(static_cast<int>(i)));
  }
  add_texts(reply, results_);
  answered_ = true;
  return nullptr;
}

void RemoveOp::deliver(const Error* error) {
  done(error != nullptr ? Result<std::vector<RemoveResult>>(fail(*error)) : std::move(results_));
}

// ---- stat ----

Result<Question> StatOp::ask(Lane& lane) {
  pb::StatRequest request;
  wire::pack_keys(core_.space(), keys_, *request.mutable_keys());
  return question_of(wire::Op::kStat, request);
}

Result<rpc::PayloadSink*> StatOp::on_answer(const wire::FrameHeader& header,
                                            std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::StatReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kStat, reply));
  const int count = static_cast<int>(keys_.size());
  if (reply.codes_size() != count || reply.sizes_size() != count ||
      reply.versions_size() != count || reply.checksums_size() != count ||
      reply.pins_size() != count) {
    return malformed("stat");
  }
  results_.resize(keys_.size());
  for (int i = 0; i < count; ++i) {
    StatResult& result = results_[static_cast<std::size_t>(i)];
    result.code = static_cast<Code>(reply.codes(i));
    result.info.size = reply.sizes(i);
    result.info.version = reply.versions(i);
    result.info.checksum = reply.checksums(i);
    result.info.pins = reply.pins(i);
    // Nodes that keep values in DRAM only have no need to say so.
    result.info.tier = tier_at(i < reply.tiers_size() ? reply.tiers(i) : 0);
    result.info.path = core_.path();
  }
  add_texts(reply, results_);
  answered_ = true;
  return nullptr;
}

void StatOp::deliver(const Error* error) {
  done(error != nullptr ? Result<std::vector<StatResult>>(fail(*error)) : std::move(results_));
}

// ---- pins ----

Result<Question> PinOp::ask(Lane& lane) {
  pb::PinRequest request;
  wire::pack_keys(core_.space(), keys_, *request.mutable_keys());
  request.set_lease_ms(lease_ms_);
  return question_of(wire::Op::kPin, request);
}

Result<rpc::PayloadSink*> PinOp::on_answer(const wire::FrameHeader& header, std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::PinReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kPin, reply));
  const int count = static_cast<int>(keys_.size());
  if (reply.codes_size() != count || reply.versions_size() != count ||
      reply.sizes_size() != count) {
    return malformed("pin");
  }
  for (int i = 0; i < count; ++i) {
    codes_.push_back(static_cast<Code>(reply.codes(i)));
    routes_.push_back(route_at(reply.routes(), i, reply.versions(i), reply.sizes(i)));
  }
  answered_ = true;
  return nullptr;
}

UnpinOp::UnpinOp(ClientCore& core, std::string key)
    : Op(core), owned_(std::move(key)), owned_view_(owned_), keys_(&owned_view_, 1) {}

Result<Question> UnpinOp::ask(Lane& lane) {
  pb::UnpinRequest request;
  wire::pack_keys(core_.space(), keys_, *request.mutable_keys());
  return question_of(wire::Op::kUnpin, request);
}

Result<rpc::PayloadSink*> UnpinOp::on_answer(const wire::FrameHeader& header,
                                             std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::UnpinReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kUnpin, reply));
  if (static_cast<std::size_t>(reply.codes_size()) != keys_.size()) return malformed("unpin");
  for (const std::uint32_t code : reply.codes()) codes_.push_back(static_cast<Code>(code));
  answered_ = true;
  return nullptr;
}

// ---- list and info ----

Result<Question> ListOp::ask(Lane& lane) {
  pb::ListRequest request;
  request.set_tenant(core_.space().tenant);
  request.set_domain(core_.space().domain);
  request.set_object_set(core_.space().object_set);
  request.set_prefix(std::string(prefix_));
  request.set_cursor(cursor_);
  request.set_limit(limit_);
  return question_of(wire::Op::kList, request);
}

Result<rpc::PayloadSink*> ListOp::on_answer(const wire::FrameHeader& header,
                                            std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::ListReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kList, reply));
  std::string_view rest = reply.data();
  for (int i = 0; i < reply.lengths_size(); ++i) {
    if (reply.lengths(i) > rest.size() || i >= reply.sizes_size() || i >= reply.versions_size()) {
      return malformed("list");
    }
    page_.entries.push_back(
        {std::string(rest.substr(0, reply.lengths(i))), reply.sizes(i), reply.versions(i)});
    rest.remove_prefix(reply.lengths(i));
  }
  if (reply.more()) page_.next = std::to_string(reply.next());
  answered_ = true;
  return nullptr;
}

Result<Question> InfoOp::ask(Lane& lane) {
  return question_of(wire::Op::kInfo, pb::InfoRequest());
}

Result<rpc::PayloadSink*> InfoOp::on_answer(const wire::FrameHeader& header,
                                            std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  pb::InfoReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kInfo, reply));
  info_.id = reply.id();
  info_.version = reply.version();
  info_.path = core_.path();
  info_.capacity_bytes = reply.capacity_bytes();
  info_.used_bytes = reply.used_bytes();
  info_.objects = reply.objects();
  info_.evictions = reply.evictions();
  info_.pins = reply.pins();
  info_.connections = reply.connections();
  info_.segment_pages = reply.segment_pages();
  info_.warmed_bytes = reply.warmed_bytes();
  socket_ = reply.socket();
  answered_ = true;
  return nullptr;
}

}  // namespace larder::client
