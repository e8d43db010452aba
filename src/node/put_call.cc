// SPDX-License-Identifier: Apache-2.0
#include "node/put_call.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/bytes.h"
#include "wire/message.h"

namespace larder::node {
namespace {

constexpr std::uint64_t kScratchBytes = 128 << 10;
constexpr std::size_t kTrailerBytes = sizeof(std::uint64_t);
constexpr int kPublishTries = 4;
// How long a put is kept waiting for room at a time; with less time than the lower one left to its
// caller it is refused at once, in words.
constexpr env::Nanos kRoomWaitMax = env::kSecond;
constexpr env::Nanos kRoomWaitMin = 50 * env::kMilli;
constexpr int kErrorTextsMax = 64;

}  // namespace

PutCall::PutCall(StoreCore& core, qos::Purpose purpose) : core_(core), purpose_(purpose) {}
PutCall::~PutCall() = default;

Result<void> PutCall::begin(const pb::PutRequest& request, const wire::KeyList& keys,
                            std::uint64_t payload_bytes, bool local) {
  core_.transfers->know(Resource::kNicRx, payload_bytes);
  const bool shared = request.buffer_id() != 0;
  transfer_ = core_.transfers->begin({shared ? TransportType::kShm : TransportType::kTcp,
                                      purpose_.traffic_class, purpose_.intent, Opcode::kWrite});
  if (static_cast<std::size_t>(request.lengths_size()) != keys.keys.size()) {
    return fail(Code::kInvalidArgument, "put: as many lengths as keys are needed");
  }
  if (request.mode() > 1) return fail(Code::kInvalidArgument, "put: unknown mode");
  mode_ = static_cast<PutMode>(request.mode());
  force_ = request.force();
  LARDER_ASSIGN(const route::Space space,
                core_.spaces.intern(keys.tenant, keys.domain, keys.object_set));
  items_.resize(keys.keys.size());
  std::uint64_t inline_bytes = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    item.key = route::key_in(space, keys.keys[i]);
    item.length = request.lengths(static_cast<int>(i));
    if (item.length > wire::kPayloadBytesMax) {
      return fail(Code::kInvalidArgument, "put: a length is out of bounds");
    }
    inline_bytes += item.length + kTrailerBytes;
  }
  if (request.buffer_id() == 0) {
    if (inline_bytes != payload_bytes) {
      return fail(Code::kInvalidArgument, "put: payload and lengths do not agree");
    }
    return {};
  }
  buffer_ = local ? core_.buffers.find(request.buffer_id()) : nullptr;
  if (buffer_ == nullptr) {
    return fail(Code::kConflict,
                "put: the shared buffer is not registered with this node (any more)");
  }
  if (payload_bytes == 0 || payload_bytes % sizeof(wire::Descriptor) != 0) {
    return fail(Code::kInvalidArgument, "put: a payload of descriptors has whole descriptors");
  }
  return {};
}

void PutCall::refuse(Item& item, Code code, std::string text) {
  item.fate = Fate::kRefused;
  item.code = code;
  item.text = std::move(text);
}

// Decides where the item's bytes go. Before its first byte is received.
void PutCall::prepare(Item& item) {
  if (item.fate != Fate::kUnseen) return;
  if (item.key.key.empty() || item.key.key.size() > kKeyBytesMax) {
    return refuse(item, Code::kInvalidArgument,
                  "a key has 1 to 1024 bytes, this one " + std::to_string(item.key.key.size()));
  }
  if (item.length == 0 || item.length > kValueBytesMax) {
    return refuse(item, item.length == 0 ? Code::kInvalidArgument : Code::kTooLarge,
                  "a value has 1 byte to 4 GiB, this one " + std::to_string(item.length));
  }
  item.present = core_.routes->find(item.key);
  if (item.present && mode_ == PutMode::kIfAbsent && item.present->length() != item.length) {
    return refuse(item, Code::kAlreadyExists, "another value is stored under this key");
  }
  // The same length usually means the same bytes, which must not evict others. Received bytes have
  // to go somewhere, so spare space is as good as scratch, and saves other bytes a second journey.
  // Bytes in shared memory are hashed where they are.
  if (item.present && !force_ && item.present->length() == item.length) {
    auto spare = buffer_ == nullptr ? core_.hot->reserve_spare(item.length) : std::nullopt;
    item.fate = spare ? Fate::kStore : Fate::kCompare;
    if (spare) item.space = std::move(*spare);
    return;
  }
  auto space = core_.hot->reserve(item.length);
  if (!space) {
    if (space.error().code() == Code::kBackpressure) {
      room_least_ = room_wanted_ == 0 ? item.length : std::min(room_least_, item.length);
      room_wanted_ += item.length;
    }
    return refuse(item, space.error().code(), space.error().message());
  }
  item.space = std::move(*space);
  item.fate = Fate::kStore;
}

// ---- places for what comes in ----

std::size_t PutCall::next(std::span<iovec> into) {
  if (at_ == items_.size() && buffer_ == nullptr) return 0;
  if (buffer_ == nullptr) return plan_values(into);
  into[0] = {reinterpret_cast<std::byte*>(descriptors_.data()) + descriptor_bytes_,
             sizeof(descriptors_) - descriptor_bytes_};
  return 1;
}

std::size_t PutCall::weight() const noexcept {
  return buffer_ == nullptr ? 1 : wire::kDescriptorBytesMax / sizeof(wire::Descriptor);
}

// As many places as fit: the rest of this value, its checksum, the next value, and so on. A value
// that goes to the scratch is planned alone, because the scratch holds one thing at a time.
std::size_t PutCall::plan_values(std::span<iovec> into) {
  std::size_t count = 0;
  const std::size_t end = std::min(items_.size(), at_ + kPlannedItemsMax);
  for (std::size_t i = at_; i < end && count + 2 <= into.size(); ++i) {
    Item& item = items_[i];
    prepare(item);
    if (item.fate != Fate::kStore && i != at_) break;
    const std::uint64_t left = i == at_ ? item.length - done_ : item.length;
    if (item.fate != Fate::kStore && left > 0) {
      if (!scratch_) scratch_.reset(new std::byte[kScratchBytes]);
      into[count++] = {scratch_.get(), static_cast<std::size_t>(std::min(left, kScratchBytes))};
      if (left > kScratchBytes) break;
    } else if (left > 0) {
      into[count++] = {item.space.data() + (item.length - left), static_cast<std::size_t>(left)};
    }
    const std::size_t filled = i == at_ ? trailer_done_ : 0;
    into[count++] = {trailer_of(i) + filled, kTrailerBytes - filled};
    if (item.fate != Fate::kStore) break;
  }
  if (count == 0 && !into.empty()) return plan_one(into);
  return count;
}

// With room for one place only: the rest of the value, else of its checksum.
std::size_t PutCall::plan_one(std::span<iovec> into) {
  std::array<iovec, 2> places;
  plan_values(places);
  into[0] = places[0];
  return 1;
}

std::byte* PutCall::trailer_of(std::size_t item) noexcept {
  return trailers_[item % kPlannedItemsMax].data();
}

void PutCall::advance(std::size_t bytes) {
  if (buffer_ == nullptr) {
    advance_values(bytes);
  } else {
    advance_descriptors(bytes);
  }
}

void PutCall::advance_values(std::size_t bytes) {
  while (bytes > 0) {
    Item& item = current();
    const std::uint64_t left = item.length - done_;
    const auto value_part = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes));
    if (value_part > 0) {
      const std::byte* at = item.fate == Fate::kStore ? item.space.data() + done_ : scratch_.get();
      value_bytes(at, value_part);
      bytes -= value_part;
    }
    if (done_ < item.length || bytes == 0) return;
    const std::size_t trailer_part = std::min(bytes, kTrailerBytes - trailer_done_);
    trailer_done_ += trailer_part;
    bytes -= trailer_part;
    if (trailer_done_ == kTrailerBytes) {
      complete_item(load_le<std::uint64_t>(trailer_of(at_)) == sum_.digest());
    }
  }
}

// Bytes of the current value are in place: hash them while they are in the cache.
void PutCall::value_bytes(const std::byte* at, std::uint64_t bytes) {
  const std::span<const std::byte> part(at, static_cast<std::size_t>(bytes));
  if (current().fate != Fate::kRefused) {
    if (bytes == current().length) {
      sum_.update_whole(part);
    } else {
      sum_.update(part);
    }
  }
  done_ += bytes;
}

// ---- values in shared memory ----

void PutCall::advance_descriptors(std::size_t bytes) {
  descriptor_bytes_ += bytes;
  const std::size_t whole = descriptor_bytes_ / sizeof(wire::Descriptor);
  for (std::size_t i = 0; i < whole; ++i) {
    if (!broken_ && !take_descriptor(descriptors_[i])) broken_ = true;
    buffer_->add_consumed();
  }
  const std::size_t rest = descriptor_bytes_ % sizeof(wire::Descriptor);
  std::memmove(descriptors_.data(), descriptors_.data() + whole, rest);
  descriptor_bytes_ = rest;
}

bool PutCall::take_descriptor(const wire::Descriptor& descriptor) {
  if (at_ >= items_.size() || descriptor.item != at_ || descriptor.bytes == 0 ||
      descriptor.bytes > wire::kDescriptorBytesMax) {
    return false;
  }
  Item& item = current();
  const std::byte* from = buffer_->at(descriptor.offset, descriptor.bytes);
  if (from == nullptr || descriptor.bytes > item.length - done_) return false;
  prepare(item);
  if (item.fate == Fate::kStore) {
    copy_and_update(item.space.data() + done_, {from, descriptor.bytes}, sum_);
  } else if (item.fate == Fate::kCompare) {
    sum_.update({from, descriptor.bytes});
  }
  done_ += descriptor.bytes;
  if (done_ == item.length) complete_item(true);
  return true;
}

// ---- the end of an item ----

void PutCall::complete_item(bool checksum_fits) {
  Item& item = current();
  if (item.fate != Fate::kRefused) {
    if (checksum_fits) {
      settle(item, sum_.digest());
    } else {
      core_.metrics.damaged->add();
      refuse(item, Code::kCorrupt, "the value was damaged on its way here; send it again");
    }
  }
  item.space = {};
  item.present = {};
  sum_.reset();
  done_ = 0;
  trailer_done_ = 0;
  ++at_;
}

void PutCall::settle(Item& item, std::uint64_t checksum) {
  // What is stored now decides, it may have changed since.
  const bool same = item.present && item.present->length() == item.length &&
                    item.present->checksum() == checksum && item.present->linked();
  if (item.fate == Fate::kStore && !same) return publish(item, checksum);
  if (same) {
    item.flags = wire::kPutAlreadyStored;
    item.version = item.present->version();
    core_.touch(*item.present);
    // It is on disk alone, and its bytes have just come: they may as well stay in DRAM.
    if (item.space && !item.present->has_hot()) core_.hot->promote(item.present, item.space);
    core_.metrics.puts_present->add();
  } else if (mode_ == PutMode::kIfAbsent && item.present->linked()) {
    refuse(item, Code::kAlreadyExists, "another value is stored under this key");
  } else {
    item.code = Code::kConflict;
    item.flags = wire::kPutResend;
  }
}

void PutCall::publish(Item& item, std::uint64_t checksum) {
  // if_absent expects nothing, even when the client insists on storing.
  const bool replaces = item.present && mode_ == PutMode::kReplace;
  std::uint64_t expected = replaces ? item.present->version() : 0;
  item.present = {};  // a reference of ours must not keep the replaced bytes
  for (int tries = 0; tries < kPublishTries; ++tries) {
    route::CasResult cas =
        core_.hot->publish(item.key, expected, item.space, checksum, item.version);
    if (cas.applied) {
      core_.metrics.puts->add();
      core_.metrics.bytes_put->add(item.length);
      if (core_.cold && core_.cold->lingers(cas.replaced, cas.forgotten)) {
        replaced_.push_back({cas.replaced, cas.forgotten});
      }
      return;
    }
    const route::EntryRef& now = cas.current;
    if (now && now->state() != route::RouteState::kActive) break;
    if (now && now->length() == item.length && now->checksum() == checksum) {
      item.flags = wire::kPutAlreadyStored;
      item.version = now->version();
      core_.metrics.puts_present->add();
      return;
    }
    if (now && mode_ == PutMode::kIfAbsent) {
      return refuse(item, Code::kAlreadyExists, "another value is stored under this key");
    }
    expected = now ? now->version() : 0;
  }
  refuse(item, Code::kConflict, "the key is being changed by others; retry");
}

// Values that were there already have moved as well: to be compared.
void PutCall::close_books() {
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;
  for (const Item& item : items_) {
    if (item.fate == Fate::kRefused) continue;
    ++values;
    bytes += item.length;
  }
  if (values > 0) transfer_.completed(values, bytes);
}

void PutCall::end_items() {
  if (std::exchange(ended_, true)) return;
  for (; at_ < items_.size(); ++at_) {
    prepare(current());  // its own error, if it has one, says more than "incomplete"
    if (current().fate != Fate::kRefused) {
      refuse(current(), Code::kInvalidArgument, "put: the descriptors do not cover this value");
    }
  }
  close_books();
}

bool PutCall::must_wait(const wire::FrameHeader& header) {
  end_items();
  if (!core_.cold) return false;
  if (room_wanted_ != 0) room_wait_ = std::min(kRoomWaitMax, header.timeout_ms * env::kMilli / 2);
  return room_wait_ >= kRoomWaitMin || !replaced_.empty();
}

void PutCall::answer_later(std::shared_ptr<PutCall> call, rpc::Responder responder) {
  struct Waiting {
    rpc::Responder responder;
    std::atomic<std::size_t> left;
  };
  auto waiting = std::make_shared<Waiting>(std::move(responder), call->replaced_.size() + 2);
  const auto one_less = [call, waiting] {
    if (waiting->left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      waiting->responder.complete(call->finish());
    }
  };
  tier::ColdTier& cold = *call->core_.cold;
  const bool waits = call->room_wait_ >= kRoomWaitMin &&
                     cold.offloader().wait_for_room(
                         call->room_wanted_, env::monotonic_now() + call->room_wait_, one_less);
  // Not waited for: the disks may have been quicker than we, and there is room by now.
  call->retry_ = waits || (call->room_wanted_ != 0 && call->core_.hot->reserve(call->room_least_));
  if (!waits) one_less();
  // Where the disk fails the value that was replaced may come back with it, one day; the put has
  // been done all the same.
  for (const Replaced& replaced : call->replaced_) {
    cold.forget(replaced.version, replaced.place, [one_less](const Result<void>&) { one_less(); });
  }
  one_less();
}

rpc::Reply PutCall::finish() {
  end_items();
  pb::PutReply body;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    body.add_codes(static_cast<std::uint32_t>(item.code));
    body.add_versions(item.version);
    const bool again = retry_ && item.code == Code::kBackpressure;
    body.add_flags(item.flags | (again ? wire::kPutRetry : 0U));
    if (!item.text.empty() && body.errors_size() < kErrorTextsMax) {
      pb::ItemError* error = body.add_errors();
      error->set_item(static_cast<std::uint32_t>(i));
      error->set_text(item.text);
    }
  }
  rpc::Reply reply;
  reply.frame = wire::frame_with(body);
  return reply;
}

}  // namespace larder::node
