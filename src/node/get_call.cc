// SPDX-License-Identifier: Apache-2.0
#include "node/get_call.h"

#include <algorithm>
#include <utility>

#include "larder.pb.h"
#include "larder/client.h"
#include "wire/message.h"

namespace larder::node {
namespace {

constexpr int kErrorTextsMax = 64;

// Sends values from where they lie; the references keep them there until the last byte has left. It
// goes with the last byte, or with the connection.
class ValueSource final : public rpc::PayloadSource {
 public:
  explicit ValueSource(const tier::HotStore& store) : store_(store) {}
  ~ValueSource() override {
    if (at_ == values_.size()) transfer_.completed(values_.size(), bytes_);
  }
  void reserve(std::size_t values) { values_.reserve(values); }
  void add(GetItem& item) {
    bytes_ += item.entry->length();
    values_.push_back({std::move(item.entry), std::move(item.value)});
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  void set_transfer(qos::ManagedTransfers::Transfer transfer) { transfer_ = std::move(transfer); }
  std::size_t next(std::span<iovec> into) override {
    std::size_t count = 0;
    for (; count < into.size() && at_ < values_.size(); ++count, ++at_) {
      const Held& held = values_[at_];
      const std::byte* data = held.entry->has_hot() ? store_.data(*held.entry) : held.value->data();
      into[count] = {const_cast<std::byte*>(data), static_cast<std::size_t>(held.entry->length())};
    }
    return count;
  }

 private:
  struct Held {
    route::EntryRef entry;
    tier::RestoredRef value;  // of an entry without a hot copy
  };
  const tier::HotStore& store_;
  std::vector<Held> values_;
  std::size_t at_ = 0;
  std::uint64_t bytes_ = 0;
  qos::ManagedTransfers::Transfer transfer_;
};

// What an answer says of values that the caller reads from disks.
class DirectList {
 public:
  explicit DirectList(pb::GetReply& reply) : reply_(reply) {}
  void add(std::size_t item, const tier::DirectPlace& place) {
    pb::DirectReads& list = *reply_.mutable_direct();
    list.add_items(static_cast<std::uint32_t>(item));
    list.add_files(index_of(*place.device, list));
    list.add_extents(static_cast<std::uint32_t>(place.extent_count));
    for (std::size_t i = 0; i < place.extent_count; ++i) {
      list.add_offsets(place.extents[i].offset);
      list.add_lengths(place.extents[i].bytes);
    }
  }

 private:
  std::uint32_t index_of(const tier::ColdDevice& device, pb::DirectReads& list) {
    const auto known = std::find(disks_.begin(), disks_.end(), &device);
    const auto index = static_cast<std::uint32_t>(known - disks_.begin());
    if (known != disks_.end()) return index;
    disks_.push_back(&device);
    list.add_paths(device.direct_name()->path);
    list.add_devices(device.direct_name()->device);
    list.add_inodes(device.direct_name()->inode);
    list.add_ids(device.direct_name()->id);
    list.add_numbers(device.number());
    return index;
  }
  pb::GetReply& reply_;
  std::vector<const tier::ColdDevice*> disks_;
};

void add_item(const GetItem& item, bool with_route, pb::GetReply& reply) {
  const route::Entry* entry = item.entry.get();
  reply.add_codes(static_cast<std::uint32_t>(item.code));
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

}  // namespace

void GetCall::add(route::EntryRef entry, bool fits, std::uint64_t room) {
  GetItem& item = items_.emplace_back();
  item.room = room;
  item.entry = std::move(entry);
  if (!fits) {
    item.code = Code::kInvalidArgument;
    item.text = "a key has 1 to 1024 bytes";
    return;
  }
  if (item.entry) judge(item);
}

void GetCall::judge(GetItem& item) {
  const std::uint64_t length = item.entry->length();
  item.code = Code::kOk;
  if (length > item.room) {
    item.code = Code::kInvalidArgument;
    item.text = "the value has " + std::to_string(length) + " bytes, the destination room for " +
                std::to_string(item.room);
    return;
  }
  if ((wish_.files || wish_.remote) && !item.entry->has_hot()) {
    item.place = core_.cold->restorer().offer(item.entry, wish_);
    has_places_ |= item.place.has_value();
    if (item.place) return;
  }
  if (!routes_only_) {
    if (length > wire::kPayloadBytesMax - payload_bytes_) {
      item.code = Code::kTooLarge;
      item.text = "one answer carries at most 64 GiB; ask for fewer values at a time";
      return;
    }
    payload_bytes_ += length;
  }
  must_wait_ |= !item.entry->has_hot();
}

rpc::Reply GetCall::reply() {
  static thread_local pb::GetReply body;
  body.Clear();
  auto values = std::make_unique<ValueSource>(*core_.hot);
  values->reserve(routes_only_ ? 0 : items_.size());
  DirectList direct(body);
  std::uint64_t hits = 0;
  std::uint64_t again = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    GetItem& item = items_[i];
    add_item(item, routes_only_, body);
    if (!item.text.empty() && body.errors_size() < kErrorTextsMax) {
      pb::ItemError* error = body.add_errors();
      error->set_item(static_cast<std::uint32_t>(i));
      error->set_text(item.text);
    }
    again += item.code == Code::kBackpressure ? 1 : 0;
    if (item.code != Code::kOk) continue;
    ++hits;
    if (item.place) direct.add(i, *item.place);
    if (!item.place && item.entry->has_hot()) core_.hot->touch(item.entry->hot().slot);
    if (!routes_only_ && !item.place) values->add(item);
  }
  body.set_again(again_);
  body.set_inline_only(inline_only_);
  core_.metrics.hits->add(hits);
  core_.metrics.misses->add(items_.size() - hits - again);
  rpc::Reply reply;
  reply.frame = wire::frame_with(body);
  reply.payload_bytes = values->bytes();
  core_.metrics.bytes_got->add(reply.payload_bytes);
  if (reply.payload_bytes == 0) return reply;
  const qos::Purpose purpose = qos::purpose_of(header_.intent, header_.traffic_class);
  values->set_transfer(core_.transfers->begin(
      {TransportType::kTcp, purpose.traffic_class, purpose.intent, Opcode::kRead}));
  core_.transfers->know(Resource::kNicTx, reply.payload_bytes);
  reply.payload = std::move(values);
  return reply;
}

// ---- what is on disk ----

bool GetCall::waits(const GetItem& item) const {
  return item.code == Code::kOk && !item.place && !item.entry->has_hot();
}

// All that wait, for another time, so that the caller can begin with what is for it to read. Those
// to be read into DRAM meanwhile.
std::vector<route::EntryRef> GetCall::put_off() {
  std::vector<route::EntryRef> ahead;
  std::uint64_t bytes = 0;
  for (GetItem& item : items_) {
    if (!waits(item)) continue;
    item.code = Code::kBackpressure;
    again_ = true;
    bytes += item.entry->length();
    if (bytes <= std::min(kAheadBytes, core_.hot->capacity() / 8)) ahead.push_back(item.entry);
  }
  return ahead;
}

// The first of them, up to a group's bytes. What follows is for another time: `ahead` of that.
std::vector<std::size_t> GetCall::choose_group(std::vector<route::EntryRef>& ahead) {
  std::vector<std::size_t> group;
  std::uint64_t bytes = 0;
  std::uint64_t ahead_bytes = 0;
  const std::uint64_t ahead_max = std::min(kAheadBytes, core_.hot->capacity() / 8);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    GetItem& item = items_[i];
    if (!waits(item)) continue;
    const std::uint64_t length = item.entry->length();
    if (group.empty() || bytes + length <= kGroupBytes) {
      bytes += length;
      group.push_back(i);
      continue;
    }
    bytes = kGroupBytes;  // in order: nothing that follows goes before this one
    item.code = Code::kBackpressure;
    again_ = true;
    ahead_bytes += length;
    if (ahead_bytes <= ahead_max) ahead.push_back(item.entry);
  }
  return group;
}

void GetCall::take(const std::vector<std::size_t>& group, std::vector<RestoreItem> restored) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    GetItem& item = items_[group[i]];
    item.entry = std::move(restored[i].entry);
    item.value = std::move(restored[i].value);
    item.code = restored[i].code;
    item.text = std::move(restored[i].text);
    if (item.code == Code::kNotFound) {
      item.entry = {};
      item.text.clear();
    }
    if (item.code != Code::kOk || item.entry->has_hot() || !routes_only_) continue;
    // There was no room in DRAM, so there is no route to give: the bytes go with an answer.
    item.code = Code::kBackpressure;
    again_ = inline_only_ = true;
  }
}

void GetCall::answer_later(std::shared_ptr<GetCall> call, rpc::Responder responder) {
  const qos::Purpose purpose = qos::purpose_of(call->header_.intent, call->header_.traffic_class);
  StoreCore& core = call->core_;
  if (call->has_places_) {
    std::vector<route::EntryRef> ahead = call->put_off();
    responder.complete(call->reply());
    for (auto& entry : ahead) core.cold->restorer().prefetch(std::move(entry), purpose);
    return;
  }
  if (call->routes_only_ && !call->core_.cold->restorer().promotes()) {
    for (GetItem& item : call->items_) {
      if (item.code == Code::kOk && !item.entry->has_hot()) item.code = Code::kBackpressure;
    }
    call->again_ = call->inline_only_ = true;
    return responder.complete(call->reply());
  }
  std::vector<route::EntryRef> ahead;
  const std::vector<std::size_t> group = call->choose_group(ahead);
  std::vector<RestoreItem> wanted(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) wanted[i].entry = call->items_[group[i]].entry;
  const env::Nanos started = env::monotonic_now();
  // std::function wants to be copied.
  auto shared = std::make_shared<rpc::Responder>(std::move(responder));
  // Who reads shared memory has no use for it anywhere else.
  RestoreBatch::run(core, std::move(wanted), purpose, call->routes_only_,
                    [call, group, shared, started](std::vector<RestoreItem> restored) {
                      call->take(group, std::move(restored));
                      shared->complete(call->reply());
                      call->core_.metrics.cold_latency->record(
                          static_cast<std::uint64_t>(env::monotonic_now() - started));
                    });
  for (route::EntryRef& entry : ahead) core.cold->restorer().prefetch(std::move(entry), purpose);
}

}  // namespace larder::node
