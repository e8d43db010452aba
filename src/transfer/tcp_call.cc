// SPDX-License-Identifier: Apache-2.0
#include "transfer/tcp_call.h"

#include <algorithm>
#include <string>

#include "larder.pb.h"
#include "wire/message.h"

namespace larder::transfer {
namespace {

class WriteCall final : public TcpCall, public rpc::PayloadSource {
 public:
  WriteCall(std::vector<const Piece*> pieces, PieceSink& sink) : TcpCall(std::move(pieces), sink) {}
  rpc::PayloadSource* payload() override { return this; }
  std::size_t next(std::span<iovec> into) override {
    std::size_t count = 0;
    for (; count < into.size() && at_ < pieces_.size(); ++at_) {
      into[count++] = {pieces_[at_]->local, pieces_[at_]->bytes};
    }
    return count;
  }

 private:
  std::size_t at_ = 0;
};

class ReadCall final : public TcpCall, public rpc::PayloadSink {
 public:
  ReadCall(std::vector<const Piece*> pieces, PieceSink& sink) : TcpCall(std::move(pieces), sink) {}
  rpc::PayloadSink* destination(std::uint64_t bytes) override {
    into_ = accepted();
    std::uint64_t room = 0;
    for (const Piece* const piece : into_) room += piece->bytes;
    return room == bytes ? this : nullptr;
  }
  std::size_t next(std::span<iovec> into) override {
    std::size_t count = 0;
    for (std::size_t i = at_; count < into.size() && i < into_.size(); ++i) {
      const std::uint64_t done = i == at_ ? done_ : 0;
      into[count++] = {into_[i]->local + done, into_[i]->bytes - done};
    }
    return count;
  }
  void advance(std::size_t bytes) override {
    done_ += bytes;
    while (at_ < into_.size() && done_ >= into_[at_]->bytes) done_ -= into_[at_++]->bytes;
  }

 private:
  std::vector<const Piece*> into_;
  std::size_t at_ = 0;
  std::uint64_t done_ = 0;  // bytes of that piece
};

}  // namespace

TcpCall::TcpCall(std::vector<const Piece*> pieces, PieceSink& sink)
    : pieces_(std::move(pieces)), sink_(sink) {
  for (const Piece* const piece : pieces_) bytes_ += piece->bytes;
}

std::unique_ptr<TcpCall> TcpCall::make(std::vector<const Piece*> pieces, PieceSink& sink) {
  if (pieces.front()->opcode == Opcode::kWrite) {
    return std::make_unique<WriteCall>(std::move(pieces), sink);
  }
  return std::make_unique<ReadCall>(std::move(pieces), sink);
}

void TcpCall::send(std::unique_ptr<TcpCall> call, rpc::Channel& channel, env::Nanos timeout,
                   rpc::Attendance attendance) {
  pb::TransferRequest request;
  request.set_incarnation(call->pieces_.front()->incarnation);
  for (const Piece* const piece : call->pieces_) {
    request.add_addresses(piece->target_offset);
    request.add_lengths(piece->bytes);
  }
  const bool write = call->opcode() == Opcode::kWrite;
  wire::FrameHeader header;
  header.op = write ? wire::Op::kTransferWrite : wire::Op::kTransferRead;
  header.intent = static_cast<std::uint8_t>(call->pieces_.front()->intent);
  header.traffic_class = static_cast<std::uint8_t>(call->traffic_class());
  header.trace_id = call->pieces_.front()->trace_id;
  header.payload_bytes = write ? call->bytes_ : 0;
  header.timeout_ms = static_cast<std::uint32_t>(timeout / env::kMilli);
  TcpCall& sent = *call.release();  // its own from here on: on_done() destroys it
  channel.send(sent, header, wire::frame_with(request), sent.payload(),
               env::monotonic_now() + timeout, attendance);
}

void TcpCall::fail_all(std::unique_ptr<TcpCall> call, const Error& error) {
  call.release()->on_done(&error);
}

bool TcpCall::holds(PieceToken token) const noexcept {
  return std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece* piece) {
    return piece->token.index == token.index && piece->token.generation == token.generation;
  });
}

std::vector<const Piece*> TcpCall::accepted() const {
  if (errors_.empty()) return pieces_;
  std::vector<const Piece*> good;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (errors_[i] == nullptr) good.push_back(pieces_[i]);
  }
  return good;
}

rpc::PayloadSink* TcpCall::on_reply(const wire::FrameHeader& reply, std::string_view body) {
  if (reply.code != Code::kOk) {
    pb::ErrorReply text;
    const auto parsed = wire::parse_body(body, reply.op, text);
    error_ = std::make_unique<Error>(parsed ? Error(reply.code, text.text()) : parsed.error());
    return nullptr;
  }
  pb::TransferReply verdicts;
  const auto parsed = wire::parse_body(body, reply.op, verdicts);
  if (!parsed || verdicts.codes_size() != static_cast<int>(pieces_.size())) {
    error_ = std::make_unique<Error>(Code::kCorrupt, "the peer's answer is malformed");
    return nullptr;
  }
  for (int i = 0; i < verdicts.codes_size(); ++i) {
    if (verdicts.codes(i) == 0) continue;
    if (errors_.empty()) errors_.resize(pieces_.size());
    errors_[static_cast<std::size_t>(i)] =
        std::make_unique<Error>(static_cast<Code>(verdicts.codes(i)), "the peer refused it");
  }
  for (const pb::ItemError& error : verdicts.errors()) {
    if (error.item() >= errors_.size() || errors_[error.item()] == nullptr) continue;
    *errors_[error.item()] = Error(errors_[error.item()]->code(), error.text());
  }
  if (opcode() == Opcode::kWrite) return nullptr;
  rpc::PayloadSink* const into = destination(reply.payload_bytes);
  if (into == nullptr) {
    error_ = std::make_unique<Error>(Code::kCorrupt, "the peer sent another number of bytes");
  }
  return into;
}

void TcpCall::on_done(const Error* error) {
  const std::unique_ptr<TcpCall> self(this);
  if (error == nullptr) error = error_.get();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Error* const own = errors_.empty() ? nullptr : errors_[i].get();
    sink_.piece_done(pieces_[i]->token, error != nullptr ? error : own);
  }
}

}  // namespace larder::transfer
