// SPDX-License-Identifier: Apache-2.0
#include "client/get_op.h"

#include <algorithm>

#include "client/core.h"
#include "client/direct_list.h"
#include "client/ops_meta.h"
#include "larder.pb.h"
#include "wire/keys.h"
#include "wire/message.h"

namespace larder::client {
namespace {

// A value that moved away under our hands this often is fetched through the socket, where the node
// holds it until it is sent; one that failed its checksum this often is given up.
constexpr std::uint8_t kTriesMax = 3;

}  // namespace

std::uint64_t room_of(const GetItem& item) noexcept {
  std::uint64_t room = 0;
  for (const MutableBytes piece : item.pieces) room += piece.size();
  return room;
}

GetOp::GetOp(ClientCore& core, std::vector<GetItem> items)
    : Op(core),
      items_(std::move(items)),
      owned_(false),
      results_(items_.size()),
      tries_(items_.size()) {}

GetOp::GetOp(ClientCore& core, std::span<const std::string_view> keys)
    : Op(core),
      owned_(true),
      values_(keys.size()),
      places_(keys.size()),
      results_(keys.size()),
      tries_(keys.size()) {
  items_.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    items_.push_back({keys[i], std::span(&places_[i], 1)});
  }
}

std::uint64_t GetOp::room(std::uint32_t item) const noexcept {
  return owned_ ? kValueBytesMax : room_of(items_[item]);
}

Result<void> GetOp::make_place(std::uint32_t item, std::uint64_t bytes) {
  if (!owned_) return {};
  LARDER_ASSIGN(values_[item], core_.values().take(static_cast<std::size_t>(bytes)));
  places_[item] = values_[item].bytes();
  return {};
}

bool GetOp::read_local(std::uint32_t item, const Route& route, Attachment& attachment) {
  if (room(item) < route.length) return false;  // the node words the error
  if (!make_place(item, route.length)) return false;
  if (!attachment.read(route, items_[item].pieces)) return false;
  attachment.hint(route.slot);
  ++copied_.values;
  copied_.bytes += route.length;
  results_[item].code = Code::kOk;
  results_[item].size = route.length;
  return true;
}

Result<bool> GetOp::local_pass() {
  // Values that a connection took along when it broke in the middle of them.
  for (; at_ < incoming_.size(); ++at_) pending_.push_back(incoming_[at_].item);
  if (!disk_reads_.empty()) read_disks();
  if (scanned_) return pending_.empty();
  scanned_ = true;
  const auto attachment = core_.attachment(deadline());
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    Route route;
    const bool read = attachment &&
                      core_.cache().find(items_[i].key, core_.hash(items_[i].key), route) &&
                      read_local(i, route, *attachment);
    if (!read) pending_.push_back(i);
  }
  return pending_.empty();
}

Result<Question> GetOp::ask(Lane& lane) {
  // Kept per thread: a small get spends more on making messages than on all the rest.
  static thread_local pb::GetRequest request;
  request.Clear();
  std::vector<std::string_view> keys;
  keys.reserve(pending_.size());
  by_routes_ = core_.path() == Path::kSharedMemory && !inline_only_ &&
               std::all_of(pending_.begin(), pending_.end(),
                           [this](std::uint32_t i) { return tries_[i] < kTriesMax - 1; });
  for (const std::uint32_t i : pending_) {
    keys.push_back(items_[i].key);
    request.add_capacities(room(i));
  }
  wire::pack_keys(core_.space(), keys, *request.mutable_keys());
  direct_remote_ = waited() && !inline_only_ &&
                   std::all_of(pending_.begin(), pending_.end(),
                               [this](std::uint32_t i) { return tries_[i] == 0; });
  direct_ = direct_remote_ && by_routes_;
  request.set_routes_only(by_routes_);
  request.set_direct(direct_);
  request.set_direct_remote(direct_remote_);
  if (direct_remote_) {
    for (const std::uint32_t number : core_.disks().not_wanted()) request.add_not_direct(number);
  }
  asked_ = pending_;
  if (!transfer_) {
    const bool shared = core_.path() == Path::kSharedMemory;
    transfer_ = core_.transfers().begin(
        label(shared ? TransportType::kShm : TransportType::kTcp, Opcode::kRead));
  }
  Question question;
  question.op = wire::Op::kGet;
  question.frame = wire::frame_with(request);
  return question;
}

Result<rpc::PayloadSink*> GetOp::on_answer(const wire::FrameHeader& header, std::string_view body) {
  LARDER_TRY(check_reply(header, body));
  static thread_local pb::GetReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kGet, reply));
  const int count = static_cast<int>(asked_.size());
  if (reply.codes_size() != count || reply.sizes_size() != count ||
      reply.checksums_size() != count || reply.versions_size() != count) {
    return fail(Code::kCorrupt, "the node's get answer is malformed");
  }
  std::vector<std::string_view> texts(asked_.size());
  for (const pb::ItemError& error : reply.errors()) {
    if (error.item() < texts.size()) texts[error.item()] = error.text();
  }
  pending_.clear();
  incoming_.clear();
  std::uint64_t payload = 0;
  const auto attachment = by_routes_ ? core_.attachment(deadline()) : nullptr;
  inline_only_ = reply.inline_only();
  LARDER_TRY(take_direct(reply));
  std::size_t direct = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t item = asked_[static_cast<std::size_t>(i)];
    const auto code = static_cast<Code>(reply.codes(i));
    // On its way from disk. The node answers when some of what was asked for is there, so there is
    // no need to pause; the deadline ends it.
    if (code == Code::kBackpressure && reply.again()) {
      pending_.push_back(item);
      continue;
    }
    if (code != Code::kOk) {
      settle(item, code, reply.sizes(i), texts[static_cast<std::size_t>(i)]);
      continue;
    }
    if (reply.sizes(i) > room(item)) {
      return fail(Code::kCorrupt, "the node sends more than was asked for");
    }
    if (direct < disk_items_.size() && disk_items_[direct] == item) {
      ++direct;
      continue;
    }
    if (!by_routes_) {
      incoming_.push_back({item, reply.sizes(i), reply.checksums(i)});
      payload += reply.sizes(i);
      continue;
    }
    const Route route = route_at(reply.routes(), i, reply.versions(i), reply.sizes(i));
    if (!attachment || !attachment->plausible(route) || !read_local(item, route, *attachment)) {
      again(item);
      continue;
    }
    core_.cache().insert(items_[item].key, core_.hash(items_[item].key), route);
  }
  if (payload != header.payload_bytes) {
    return fail(Code::kCorrupt, "the node's get answer and its payload do not agree");
  }
  LARDER_TRY(make_places());
  at_ = 0;
  done_bytes_ = 0;
  piece_ = 0;
  piece_done_ = 0;
  sum_.reset();
  return static_cast<rpc::PayloadSink*>(this);
}

// ---- what this client reads from disk itself ----

Result<void> GetOp::take_direct(const pb::GetReply& reply) {
  disk_reads_.clear();
  disk_items_.clear();
  if (!reply.has_direct()) return {};
  LARDER_ASSIGN(DirectList list, direct_list(reply));
  std::vector<std::shared_ptr<const ReadableDisk>> disks;
  for (const DiskName& disk : list.disks) {
    if (!(disk.is_remote() ? direct_remote_ : direct_)) {
      return fail(Code::kCorrupt, "the node names disks, and was not asked to");
    }
    disks.push_back(core_.disks().find(disk));
  }
  for (DirectItem& one : list.items) {
    const std::uint32_t item = asked_[one.item];
    DiskRead read;
    read.bytes = reply.sizes(static_cast<int>(one.item));
    read.checksum = reply.checksums(static_cast<int>(one.item));
    if (read.bytes > room(item))
      return fail(Code::kCorrupt, "the node sends more than was asked for");
    read.disk = disks[one.disk];
    read.extents = std::move(one.extents);
    if (read.disk) LARDER_TRY(make_place(item, read.bytes));
    read.into = items_[item].pieces;
    disk_items_.push_back(item);
    disk_reads_.push_back(std::move(read));
  }
  return {};
}

// What could not be opened or read, or is not what it should be, is asked of the node.
void GetOp::read_disks() {
  std::vector<DiskRead> reads;
  std::vector<std::uint32_t> items;
  for (std::size_t i = 0; i < disk_reads_.size(); ++i) {
    if (!disk_reads_[i].disk) {
      again(disk_items_[i]);
      continue;
    }
    reads.push_back(std::move(disk_reads_[i]));
    items.push_back(disk_items_[i]);
  }
  disk_reads_.clear();
  disk_items_.clear();
  if (reads.empty()) return;
  core_.disks().read(reads, purpose(), deadline());
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (!reads[i].good) {
      again(items[i]);
      continue;
    }
    Moved& moved = reads[i].disk->remote ? read_remote_ : read_;
    ++moved.values;
    moved.bytes += reads[i].bytes;
    settle(items[i], Code::kOk, reads[i].bytes, {});
  }
}

Result<void> GetOp::make_places() {
  for (const Incoming& value : incoming_) LARDER_TRY(make_place(value.item, value.bytes));
  return {};
}

void GetOp::settle(std::uint32_t item, Code code, std::uint64_t size, std::string_view text) {
  results_[item].code = code;
  results_[item].size = size;
  results_[item].message = text;
}

void GetOp::again(std::uint32_t item) {
  if (++tries_[item] < kTriesMax) {
    pending_.push_back(item);
  } else {
    settle(item, Code::kCorrupt, 0, "the value failed its checksum again and again");
  }
}

// ---- the answer's payload ----

std::size_t GetOp::next(std::span<iovec> into) {
  std::size_t count = 0;
  std::size_t value = at_;
  std::size_t piece = piece_;
  std::size_t skip = piece_done_;
  std::uint64_t left = value < incoming_.size() ? incoming_[value].bytes - done_bytes_ : 0;
  while (count < into.size() && value < incoming_.size()) {
    const auto pieces = items_[incoming_[value].item].pieces;
    for (; count < into.size() && left > 0; ++piece, skip = 0) {
      const MutableBytes whole = pieces[piece];
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(whole.size() - skip, left));
      if (n > 0) into[count++] = {whole.data() + skip, n};
      left -= n;
    }
    if (left > 0) break;
    if (++value < incoming_.size()) left = incoming_[value].bytes;
    piece = 0;
    skip = 0;
  }
  return count;
}

void GetOp::advance(std::size_t bytes) {
  while (bytes > 0) {
    const Incoming& value = incoming_[at_];
    const MutableBytes piece = items_[value.item].pieces[piece_];
    const std::uint64_t room =
        std::min<std::uint64_t>(piece.size() - piece_done_, value.bytes - done_bytes_);
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, room));
    if (n == value.bytes) {
      sum_.update_whole(piece.subspan(piece_done_, n));
    } else {
      sum_.update(piece.subspan(piece_done_, n));
    }
    bytes -= n;
    done_bytes_ += n;
    piece_done_ += n;
    if (piece_done_ == piece.size()) {
      ++piece_;
      piece_done_ = 0;
    }
    if (done_bytes_ == value.bytes) finish_value();
  }
}

void GetOp::finish_value() {
  const Incoming& value = incoming_[at_++];
  if (sum_.digest() == value.checksum) {
    ++received_.values;
    received_.bytes += value.bytes;
    settle(value.item, Code::kOk, value.bytes, {});
  } else {
    again(value.item);
  }
  sum_.reset();
  done_bytes_ = 0;
  piece_ = 0;
  piece_done_ = 0;
}

// Values that are not there move nothing, and an operation that finds none has not failed.
void GetOp::on_end(const Error* error) {
  const bool shared = core_.path() == Path::kSharedMemory;
  Moved& main = shared ? copied_ : received_;
  if (transfer_ && (error == nullptr || main.values > 0)) {
    transfer_.completed(main.values, main.bytes);
    main = {};
  }
  const auto count = [this](TransportType transport, const Moved& moved) {
    if (moved.values == 0) return;
    core_.transfers().completed(label(transport, Opcode::kRead), moved.values, moved.bytes);
  };
  count(TransportType::kShm, copied_);
  count(TransportType::kTcp, received_);
  count(TransportType::kIoUring, read_);
  count(TransportType::kNvmeTcp, read_remote_);
}

void GetOp::deliver(const Error* error) {
  done(error != nullptr ? Result<std::vector<GetResult>>(fail(*error)) : std::move(results_));
}

}  // namespace larder::client
