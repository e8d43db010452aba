// SPDX-License-Identifier: Apache-2.0
#include "node/lookup_call.h"

#include "wire/keys.h"
#include "wire/message.h"

namespace larder::node {

Result<void> LookupCall::begin(const pb::Keys& keys, bool with_routes,
                               std::uint64_t payload_bytes) {
  LARDER_TRY(wire::check_announced(keys));
  LARDER_ASSIGN(reader_, wire::KeyReader::create(keys.count(), payload_bytes));
  with_routes_ = with_routes;
  known_ = core_.spaces.find(keys.tenant(), keys.domain(), keys.object_set(), space_);
  if (kind_ == LookupKind::kEach) {
    each_.mutable_present()->assign((std::size_t{keys.count()} + 7) / 8, '\0');
  }
  return {};
}

std::size_t LookupCall::next(std::span<iovec> into) {
  const std::span<std::byte> room = reader_->room();
  into[0] = {room.data(), room.size()};
  return 1;
}

void LookupCall::advance(std::size_t bytes) {
  reader_->advance(bytes);
  std::string_view key;
  while (reader_->next(key)) {
    refs_[waiting_++] = route::key_in(space_, key);
    if (waiting_ == kStep) look_up();
  }
  look_up();  // the keys lie in the reader's buffer, which is about to be reused
}

void LookupCall::look_up() {
  // Whoever asks may put what is not here: how often decides what is worth writing to disk.
  if (known_ && core_.cold && core_.cold->offloader().watches_lookups()) {
    for (std::size_t i = 0; i < waiting_; ++i) core_.cold->offloader().looked_up(refs_[i].hash);
  }
  if (known_ && !gap_) {
    const std::span<const route::KeyRef> refs = std::span(refs_).first(waiting_);
    core_.routes->look_up(refs, std::span(views_).first(waiting_));
    for (std::size_t i = 0; i < waiting_ && !gap_; ++i) {
      if (views_[i].version != 0) {
        found(at_ + static_cast<std::uint32_t>(i), views_[i]);
      } else {
        gap_ = kind_ == LookupKind::kPrefix;
      }
    }
  }
  at_ += static_cast<std::uint32_t>(waiting_);
  waiting_ = 0;
}

void LookupCall::found(std::uint32_t index, const route::RouteView& view) {
  if (kind_ == LookupKind::kPrefix) {
    prefix_.set_matched(index + 1);
    prefix_.add_sizes(view.length);
    if (core_.cold)
      prefix_.add_tiers(static_cast<std::uint32_t>(tier_of(view.hot.present(), view.cold)));
    add_route(view, prefix_);
    return;
  }
  char& byte = (*each_.mutable_present())[index / 8];
  byte = static_cast<char>(byte | (1 << (index % 8)));
  if (with_routes_) each_.add_sizes(view.length);
  add_route(view, each_);
}

template <class Reply>
void LookupCall::add_route(const route::RouteView& view, Reply& reply) {
  if (!with_routes_) return;
  reply.add_versions(view.version);
  pb::Routes& routes = *reply.mutable_routes();
  routes.add_slots(view.hot.slot);
  routes.add_segments(view.hot.segment);
  routes.add_offsets(view.hot.offset);
}

Result<rpc::Reply> LookupCall::finish() {
  LARDER_TRY(reader_->end());
  rpc::Reply reply;
  reply.frame = kind_ == LookupKind::kPrefix ? wire::frame_with(prefix_) : wire::frame_with(each_);
  return reply;
}

}  // namespace larder::node
