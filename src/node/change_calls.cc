// SPDX-License-Identifier: Apache-2.0
#include "node/change_calls.h"

#include <utility>

#include "larder.pb.h"
#include "wire/message.h"

namespace larder::node {
namespace {

constexpr int kErrorTextsMax = 64;

}  // namespace

// ---- remove ----

void RemoveCall::add(const route::KeyRef* key) {
  Item& item = items_.emplace_back();
  if (key != nullptr) {
    // Before the route goes: a scan must not find it gone and bring it back.
    if (core_.cold && !core_.cold->note_removed(key->hash)) {
      item.code = Code::kBackpressure;
      item.text = "a disk is being scanned, and too many keys were removed meanwhile; retry later";
      return;
    }
    item.entry = core_.routes->begin_remove(*key);
  }
  if (!item.entry) {
    item.code = Code::kNotFound;
    item.text = "no such object";
    return;
  }
  if (core_.cold && core_.cold->lingers(item.entry->version(), item.entry->cold())) {
    must_wait_ = true;
    return;
  }
  core_.routes->end_remove(item.entry);
  item.entry = {};
}

rpc::Reply RemoveCall::reply() const {
  pb::RemoveReply body;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    body.add_codes(static_cast<std::uint32_t>(item.code));
    if (item.code == Code::kOk || item.code == Code::kNotFound) continue;
    if (body.errors_size() >= kErrorTextsMax) continue;
    pb::ItemError* error = body.add_errors();
    error->set_item(static_cast<std::uint32_t>(i));
    error->set_text(item.text);
  }
  rpc::Reply out;
  out.frame = wire::frame_with(body);
  return out;
}

void RemoveCall::on_forgotten(Item& item, const Result<void>& result) {
  if (result) {
    core_.routes->end_remove(item.entry);
  } else {
    // It stays "being deleted": nobody finds it, and the next remove tries again.
    item.code = result.error().code();
    item.text = result.error().message();
  }
  item.entry = {};
}

void RemoveCall::answer_later(std::shared_ptr<RemoveCall> call, rpc::Responder responder) {
  auto shared = std::make_shared<rpc::Responder>(std::move(responder));
  call->left_.store(call->items_.size() + 1, std::memory_order_relaxed);
  const auto one_less = [call, shared] {
    if (call->left_.fetch_sub(1, std::memory_order_acq_rel) == 1) shared->complete(call->reply());
  };
  for (Item& item : call->items_) {
    if (!item.entry) {
      one_less();
      continue;
    }
    const route::EntryRef entry = item.entry;
    call->core_.cold->forget(entry->version(), entry->cold(),
                             [call, &item, one_less](const Result<void>& result) {
                               call->on_forgotten(item, result);
                               one_less();
                             });
  }
  one_less();
}

// ---- pin ----

void PinCall::add(route::EntryRef entry) {
  Item& item = items_.emplace_back();
  must_wait_ |= entry && !entry->has_hot();
  item.entry = std::move(entry);
}

rpc::Reply PinCall::reply() {
  pb::PinReply body;
  pb::Routes& routes = *body.mutable_routes();
  for (Item& item : items_) {
    const route::EntryRef& entry = item.entry;
    Code code = item.code;
    if (!entry && code == Code::kOk) code = Code::kNotFound;
    if (entry && code == Code::kOk) {
      const Result<void> pinned = pins_->pin(entry, lease_end_);
      code = pinned ? Code::kOk : pinned.error().code();
      core_.touch(*entry);
    }
    const route::HotReplica hot = entry ? entry->hot() : route::HotReplica();
    body.add_codes(static_cast<std::uint32_t>(code));
    body.add_sizes(entry ? entry->length() : 0);
    body.add_versions(entry ? entry->version() : 0);
    routes.add_slots(hot.slot);
    routes.add_segments(hot.segment);
    routes.add_offsets(hot.offset);
  }
  rpc::Reply out;
  out.frame = wire::frame_with(body);
  return out;
}

void PinCall::take(std::vector<RestoreItem> restored) {
  std::size_t next = 0;
  for (Item& item : items_) {
    if (!item.entry || item.entry->has_hot()) continue;
    RestoreItem& now = restored[next++];
    item.entry = std::move(now.entry);
    item.code = now.code;
    if (item.code == Code::kNotFound) item.entry = {};
    // Read, but there was no room in DRAM for it to stay.
    if (item.code == Code::kOk && !item.entry->has_hot()) item.code = Code::kBackpressure;
  }
}

void PinCall::answer_later(std::shared_ptr<PinCall> call, qos::Purpose purpose,
                           rpc::Responder responder) {
  std::vector<RestoreItem> wanted;
  for (const Item& item : call->items_) {
    if (item.entry && !item.entry->has_hot()) wanted.emplace_back().entry = item.entry;
  }
  auto shared = std::make_shared<rpc::Responder>(std::move(responder));
  RestoreBatch::run(call->core_, std::move(wanted), purpose, true,
                    [call, shared](std::vector<RestoreItem> restored) {
                      call->take(std::move(restored));
                      // A connection that has closed let go of its pins, and takes no new ones.
                      if (shared->wanted()) shared->complete(call->reply());
                    });
}

}  // namespace larder::node
