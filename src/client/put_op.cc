// SPDX-License-Identifier: Apache-2.0
#include "client/put_op.h"

#include <algorithm>

#include "client/core.h"
#include "client/ops_meta.h"
#include "larder.pb.h"
#include "wire/keys.h"
#include "wire/message.h"

namespace larder::client {
namespace {

// Values up to this size go through the Unix socket: one system call moves them, and staging would
// copy them as often.
constexpr std::uint64_t kInlineValueMax = 8 << 10;

}  // namespace

std::uint64_t bytes_of(const PutItem& item) noexcept {
  std::uint64_t bytes = 0;
  for (const ConstBytes piece : item.pieces) bytes += piece.size();
  return bytes;
}

PutOp::PutOp(ClientCore& core, std::vector<PutItem> items, PutMode mode)
    : Op(core), items_(std::move(items)), mode_(mode), results_(items_.size()) {}

PutOp::~PutOp() = default;

// What can never work is answered here, before any byte moves.
bool PutOp::judge_item(std::size_t i) {
  PutResult& result = results_[i];
  const std::uint64_t bytes = bytes_of(items_[i]);
  if (items_[i].key.empty() || items_[i].key.size() > kKeyBytesMax) {
    result.code = Code::kInvalidArgument;
    result.message = "a key has 1 to 1024 bytes, this one " + std::to_string(items_[i].key.size());
    return false;
  }
  if (bytes == 0 || bytes > kValueBytesMax) {
    result.code = bytes == 0 ? Code::kInvalidArgument : Code::kTooLarge;
    result.message = "a value has 1 byte to 4 GiB, this one " + std::to_string(bytes);
    return false;
  }
  return true;
}

Result<bool> PutOp::local_pass() {
  if (!checked_) {
    checked_ = true;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (judge_item(i)) pending_.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return pending_.empty();
}

Result<Question> PutOp::ask(Lane& lane) {
  pb::PutRequest request;
  std::vector<std::string_view> keys;
  std::uint64_t bytes = 0;
  for (const std::uint32_t i : pending_) {
    keys.push_back(items_[i].key);
    request.add_lengths(bytes_of(items_[i]));
    bytes += bytes_of(items_[i]);
  }
  if (bytes > wire::kPayloadBytesMax / 2) {
    return fail(Code::kTooLarge,
                "a batch of " + std::to_string(bytes) + " bytes; put at most 32 GiB in one call");
  }
  Question question;
  question.op = wire::Op::kPut;
  LARDER_TRY(choose_source(lane, bytes, question));
  const TransportType transport = buffer_id_ != 0 ? TransportType::kShm : TransportType::kTcp;
  if (!transfer_) transfer_ = core_.transfers().begin(label(transport, Opcode::kWrite));
  wire::pack_keys(core_.space(), keys, *request.mutable_keys());
  request.set_mode(static_cast<std::uint32_t>(mode_));
  request.set_buffer_id(buffer_id_);
  request.set_force(force_);
  question.frame = wire::frame_with(request);
  question.payload = source_.get();
  question.payload_bytes = source_->payload_bytes();
  return question;
}

Result<void> PutOp::choose_source(Lane& lane, std::uint64_t bytes, Question& question) {
  std::vector<PutItem> items;
  for (const std::uint32_t i : pending_) items.push_back(items_[i]);
  buffer_id_ = 0;
  if (core_.path() == Path::kSharedMemory && !inline_) {
    const auto shared = core_.shared_buffer_of(items.front().pieces.front());
    // A node that was restarted does not know buffers of before: their bytes go the usual way.
    const bool all_shared =
        shared && shared->epoch() == lane.channel->epoch() &&
        std::all_of(items.begin(), items.end(), [&](const auto& item) {
          return std::all_of(item.pieces.begin(), item.pieces.end(), [&](ConstBytes piece) {
            return core_.shared_buffer_of(piece) == shared;
          });
        });
    if (all_shared) {
      buffer_id_ = shared->id();
      source_ = std::make_unique<SharedSource>(std::move(items), *shared);
      return {};
    }
    if (bytes > kInlineValueMax * items.size()) {
      // A node that is out of descriptors takes no window, but still takes bytes.
      const Result<Window*> window = core_.window_of(lane, deadline());
      if (window) {
        buffer_id_ = (*window)->id();
        source_ = std::make_unique<StagedSource>(std::move(items), lane, **window, deadline());
        return {};
      }
    }
  }
  source_ = std::make_unique<InlineSource>(std::move(items));
  return {};
}

Result<rpc::PayloadSink*> PutOp::on_answer(const wire::FrameHeader& header, std::string_view body) {
  if (header.code == Code::kConflict && buffer_id_ != 0) {
    inline_ = true;  // nothing was stored: all that is pending goes once more
    return nullptr;
  }
  LARDER_TRY(check_reply(header, body));
  pb::PutReply reply;
  LARDER_TRY(wire::parse_body(body, wire::Op::kPut, reply));
  const int count = static_cast<int>(pending_.size());
  if (reply.codes_size() != count || reply.versions_size() != count ||
      reply.flags_size() != count) {
    return fail(Code::kCorrupt, "the node's put answer is malformed");
  }
  for (const pb::ItemError& error : reply.errors()) {
    if (error.item() < pending_.size()) results_[pending_[error.item()]].message = error.text();
  }
  std::vector<std::uint32_t> again;
  bool force = false;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t item = pending_[static_cast<std::size_t>(i)];
    PutResult& result = results_[item];
    result.code = static_cast<Code>(reply.codes(i));
    result.version = reply.versions(i);
    result.already_stored = (reply.flags(i) & wire::kPutAlreadyStored) != 0;
    // The node compared and found other bytes of the same length: now it wants them stored.
    if ((reply.flags(i) & wire::kPutResend) != 0 && !force_) {
      again.push_back(item);
      force = true;
    }
    // There was no room in DRAM; the node has waited until disks took something.
    if ((reply.flags(i) & wire::kPutRetry) != 0) again.push_back(item);
  }
  force_ = force;
  pending_ = std::move(again);
  return nullptr;
}

Intent PutOp::own_intent() const noexcept {
  return core_.path() == Path::kTcp ? Intent::kRemoteStoreWrite : Intent::kDramOffload;
}

void PutOp::on_end(const Error* error) {
  if (error != nullptr) return;  // the record fails with this object
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (results_[i].code != Code::kOk) continue;
    ++values;
    bytes += bytes_of(items_[i]);
  }
  if (values > 0) transfer_.completed(values, bytes);
}

void PutOp::deliver(const Error* error) {
  done(error != nullptr ? Result<std::vector<PutResult>>(fail(*error)) : std::move(results_));
}

}  // namespace larder::client
