// SPDX-License-Identifier: Apache-2.0
#include "transfer/peer_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "env/host_probe.h"
#include "transfer/shared_memory.h"
#include "wire/message.h"

namespace larder::transfer {
namespace {

constexpr std::size_t kScratchBytes = 128 << 10;
constexpr int kErrorTextsMax = 64;

std::string verdicts(const std::vector<ServedItem>& items) {
  pb::TransferReply body;
  for (std::size_t i = 0; i < items.size(); ++i) {
    body.add_codes(static_cast<std::uint32_t>(items[i].code));
    if (items[i].code != Code::kOk && body.errors_size() < kErrorTextsMax) {
      pb::ItemError* const error = body.add_errors();
      error->set_item(static_cast<std::uint32_t>(i));
      error->set_text(items[i].text);
    }
  }
  return wire::frame_with(body);
}

Result<void> check_incarnation(std::uint64_t wanted, std::uint64_t present) {
  if (wanted == present) return {};
  return fail(
      Code::kConflict,
      "this engine was started anew: what was known of its memory is of another incarnation");
}

}  // namespace

// ---- payload ----

std::size_t ServedSource::next(std::span<iovec> into) {
  std::size_t count = 0;
  for (; count < into.size() && item_ < items_.size(); ++item_) {
    const ServedItem& item = items_[item_];
    if (item.code == Code::kOk) into[count++] = {item.at, item.length};
  }
  return count;
}

void ServedSink::reset(std::vector<ServedItem> items) {
  items_ = std::move(items);
  item_ = 0;
  done_ = 0;
}

std::size_t ServedSink::next(std::span<iovec> into) {
  std::size_t count = 0;
  for (std::size_t i = item_; i < items_.size() && count < into.size(); ++i) {
    const std::uint64_t done = i == item_ ? done_ : 0;
    const std::uint64_t left = items_[i].length - done;
    if (items_[i].code == Code::kOk) {
      into[count++] = {items_[i].at + done, left};
      continue;
    }
    if (scratch_ == nullptr) scratch_.reset(new std::byte[kScratchBytes]);
    into[count++] = {scratch_.get(), static_cast<std::size_t>(std::min(left, kScratchBytes))};
    if (left > kScratchBytes) break;
  }
  return count;
}

void ServedSink::advance(std::size_t bytes) {
  while (bytes > 0) {
    const std::uint64_t step = std::min<std::uint64_t>(bytes, items_[item_].length - done_);
    done_ += step;
    bytes -= step;
    if (done_ < items_[item_].length) return;
    items_[item_++].pin.reset();
    done_ = 0;
  }
}

std::vector<ServedItem> ServedSink::take() {
  for (ServedItem& item : items_) item.pin.reset();
  return std::move(items_);
}

// ---- requests ----

rpc::Intake PeerSession::on_request(const wire::FrameHeader& header, std::string_view body) {
  if (header.op == wire::Op::kTransferWrite) {
    const auto begun = begin_write(header, body);
    if (begun) return rpc::Intake(&sink_);
    return rpc::error_reply(begun.error());
  }
  if (header.payload_bytes > 0) {
    return rpc::error_reply(Error(Code::kInvalidArgument, "this operation takes no payload"));
  }
  Result<rpc::Reply> reply = fail(Code::kUnsupported, "a transfer engine does not know operation " +
                                                          std::string(wire::op_name(header.op)));
  if (header.op == wire::Op::kTransferInfo) reply = info();
  if (header.op == wire::Op::kTransferRead) reply = read(body);
  if (header.op == wire::Op::kTransferNotify) reply = notify(body);
  return reply ? std::move(*reply) : rpc::error_reply(reply.error());
}

rpc::Reply PeerSession::info() const {
  pb::TransferInfoReply body;
  body.set_boot_id(env::boot_id());
  body.set_socket(service_.options().socket);
  body.set_generation(service_.memory().generation());
  const MemoryTable::Reader reader(service_.memory());
  for (const auto& range : reader.all()) {
    body.add_addresses(reinterpret_cast<std::uintptr_t>(range->base));
    body.add_lengths(range->bytes);
    body.add_types(static_cast<std::uint32_t>(range->location.type));
    body.add_indices(range->location.index);
    body.add_inodes(range->shared_inode);
  }
  rpc::Reply reply;
  reply.frame = wire::frame_with(body);
  return reply;
}

// Every range is judged by itself.
Result<std::vector<ServedItem>> PeerSession::pin_items(const pb::TransferRequest& request) const {
  LARDER_TRY(check_incarnation(request.incarnation(), service_.options().incarnation));
  const int count = request.addresses_size();
  if (count == 0 || count != request.lengths_size() ||
      count > static_cast<int>(wire::kTransferItemsMax)) {
    return fail(Code::kInvalidArgument, "a transfer has 1 to 1024 ranges");
  }
  std::vector<ServedItem> items(static_cast<std::size_t>(count));
  const MemoryTable::Reader reader(service_.memory());
  MemoryRangeRecord* last = nullptr;
  std::uint64_t total = 0;
  for (int i = 0; i < count; ++i) {
    ServedItem& item = items[static_cast<std::size_t>(i)];
    item.at = reinterpret_cast<std::byte*>(request.addresses(i));
    item.length = request.lengths(i);
    total += item.length;
    if (item.length == 0 || item.length > wire::kPayloadBytesMax ||
        total > wire::kPayloadBytesMax) {
      return fail(Code::kInvalidArgument, "a transfer's length is out of bounds");
    }
    last = reader.find(item.at, item.length, last);
    if (last == nullptr) {
      item.code = Code::kNotFound;
      item.text =
          fmt::format("{} + {} bytes is not registered there", fmt::ptr(item.at), item.length);
    } else if (is_device_memory(last->location.type)) {
      item.code = Code::kUnsupported;
      item.text = "device memory is not served to peers; let its owner write or read";
    } else {
      item.pin = RangePin(*last);
    }
  }
  return items;
}

Result<rpc::Reply> PeerSession::read(std::string_view body) {
  LARDER_TRY(wire::parse_body(body, wire::Op::kTransferRead, request_));
  LARDER_ASSIGN(std::vector<ServedItem> items, pin_items(request_));
  rpc::Reply reply;
  reply.frame = verdicts(items);
  for (const ServedItem& item : items) {
    if (item.code == Code::kOk) reply.payload_bytes += item.length;
  }
  service_.know(Resource::kNicTx, reply.payload_bytes);
  reply.payload = std::make_unique<ServedSource>(std::move(items));
  return reply;
}

Result<void> PeerSession::begin_write(const wire::FrameHeader& header, std::string_view body) {
  LARDER_TRY(wire::parse_body(body, wire::Op::kTransferWrite, request_));
  LARDER_ASSIGN(std::vector<ServedItem> items, pin_items(request_));
  std::uint64_t total = 0;
  for (const ServedItem& item : items) total += item.length;
  if (total != header.payload_bytes) {
    return fail(Code::kInvalidArgument, "transfer: payload and lengths do not agree");
  }
  service_.know(Resource::kNicRx, total);
  sink_.reset(std::move(items));
  return {};
}

rpc::Intake PeerSession::on_payload_end(const wire::FrameHeader&) {
  rpc::Reply reply;
  reply.frame = verdicts(sink_.take());
  return reply;
}

Result<rpc::Reply> PeerSession::notify(std::string_view body) {
  pb::TransferNotifyRequest request;
  LARDER_TRY(wire::parse_body(body, wire::Op::kTransferNotify, request));
  LARDER_TRY(check_incarnation(request.incarnation(), service_.options().incarnation));
  LARDER_TRY(service_.mailbox().put({request.name(), request.message()}));
  rpc::Reply reply;
  reply.frame = wire::frame_with(pb::TransferReply());
  return reply;
}

}  // namespace larder::transfer
