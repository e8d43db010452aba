// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_connection.h"

#include <algorithm>

#include "env/random.h"
#include "wire/message.h"

namespace larder::rpc {
namespace {

// What one connection may do in a turn before its neighbours on the reactor get theirs.
constexpr std::size_t kReceiveBudget = 1 << 20;
constexpr std::size_t kSendBudget = 4 << 20;

}  // namespace

void turn_away(int fd, const ServerOptions& options, const Error& error) {
  // What has been read is not lost when the socket is closed: else a reset could overtake the
  // words.
  std::array<std::byte, wire::kClientHelloBytes> hello{};
  static_cast<void>(env::receive(fd, hello.data(), hello.size()));
  wire::ServerHello answer;
  answer.version = wire::kProtocolVersion;
  answer.token_required = !options.token.empty();
  answer.epoch = options.epoch;
  wire::Verdict verdict;
  verdict.code = error.code();
  verdict.text = error.message();
  auto first = wire::encode(answer);
  auto second = wire::encode(verdict);
  const std::array<iovec, 2> pieces = {iovec{first.data(), first.size()},
                                       iovec{second.data(), second.size()}};
  static_cast<void>(env::send(fd, pieces));
}

ServerConnection::ServerConnection(env::Fd fd, Peer peer, const ServerOptions& options,
                                   Service& service, ServerCounters& counters,
                                   std::shared_ptr<Mailbox> mailbox, env::Nanos now)
    : fd_(std::move(fd)),
      peer_(std::move(peer)),
      options_(options),
      service_(service),
      counters_(counters),
      mailbox_(std::move(mailbox)),
      last_progress_(now) {
  counters_.open.fetch_add(1, std::memory_order_relaxed);
}

ServerConnection::~ServerConnection() {
  if (line_) line_->cut();
  counters_.outstanding.fetch_sub(outstanding_, std::memory_order_relaxed);
  counters_.open.fetch_sub(1, std::memory_order_relaxed);
}

bool ServerConnection::on_readable(env::Nanos now, bool& worked) {
  // Only frames make a connection worth polling, so `worked` stays false in the handshake.
  if (state_ != State::kFrames) return handshake().has_value();
  auto progress = receiver_.receive(fd_.get(), *this, kReceiveBudget);
  if (!progress) {
    counters_.protocol_errors.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  worked = *progress == Progress::kSome;
  if (worked) last_progress_ = now;
  return *progress != Progress::kClosed;
}

bool ServerConnection::on_writable(env::Nanos now) {
  last_progress_ = now;
  return flush() && (state_ != State::kFrames || resume());
}

// Takes up frames that were read while answers were piling up.
bool ServerConnection::resume() {
  if (receiver_.resume(*this)) return true;
  counters_.protocol_errors.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool ServerConnection::on_late_reply(const wire::FrameHeader& request, Reply reply,
                                     env::Nanos now) {
  --outstanding_;
  counters_.outstanding.fetch_sub(1, std::memory_order_relaxed);
  last_progress_ = now;  // until here the peer had nothing to do
  queue(std::move(reply), request);
  return resume();
}

bool ServerConnection::expired(env::Nanos now) const noexcept {
  if (state_ == State::kHold) return false;
  if (state_ != State::kFrames) return now - last_progress_ > options_.handshake_timeout;
  // A frame that waits because too many calls are outstanding is not the peer's fault.
  const bool waiting = (receiver_.in_frame() && wants_read()) || !outbound_.empty();
  return waiting && now - last_progress_ > options_.stall_timeout;
}

bool ServerConnection::idle() const noexcept {
  return outstanding_ == 0 && outbound_.empty() && !receiver_.in_frame();
}

// ---- handshake ----

Result<void> ServerConnection::handshake() {
  switch (state_) {
    case State::kHello: {
      LARDER_ASSIGN(const bool complete, read_handshake(wire::kClientHelloBytes));
      return complete ? on_hello() : Result<void>{};
    }
    case State::kProof: {
      LARDER_ASSIGN(const bool complete, read_handshake(wire::kProofBytes));
      return complete ? on_proof() : Result<void>{};
    }
    case State::kDescriptor:
      return on_descriptor();
    default:
      break;
  }
  return hold();
}

// A connection that only keeps memory registered: nothing more may come, and its end ends the
// keeping.
Result<void> ServerConnection::hold() {
  std::byte unexpected{};
  const env::IoResult got = env::receive(fd_.get(), &unexpected, 1);
  if (got.status == env::IoStatus::kWouldBlock) return {};
  return fail(Code::kUnavailable, "closed");
}

Result<bool> ServerConnection::read_handshake(std::size_t bytes) {
  const env::IoResult got =
      env::receive(fd_.get(), hello_bytes_.data() + hello_filled_, bytes - hello_filled_);
  if (got.status == env::IoStatus::kWouldBlock) return false;
  if (got.status != env::IoStatus::kOk) return fail(Code::kUnavailable, "closed in the handshake");
  hello_filled_ += got.bytes;
  if (hello_filled_ < bytes) return false;
  hello_filled_ = 0;
  return true;
}

Result<void> ServerConnection::on_hello() {
  auto hello = wire::decode_client_hello(hello_bytes_);
  if (!hello) {
    refuse(hello.error(), counters_.refused_protocol);
    return fail(hello.error());
  }
  client_hello_ = *hello;
  server_hello_.version = wire::kProtocolVersion;
  server_hello_.token_required = !options_.token.empty();
  server_hello_.epoch = options_.epoch;
  env::random_bytes(server_hello_.nonce);
  LARDER_TRY(send_handshake(wire::encode(server_hello_)));
  if (client_hello_.version_min > wire::kProtocolVersion ||
      client_hello_.version_max < wire::kProtocolVersion) {
    const Error error(Code::kVersionMismatch, "this node speaks protocol version 1 only");
    refuse(error, counters_.refused_protocol);
    return fail(error);
  }
  if (client_hello_.purpose != wire::Purpose::kCalls && !peer_.local) {
    const Error error(Code::kUnsupported, "memory can be shared over a Unix socket only");
    refuse(error, counters_.refused_protocol);
    return fail(error);
  }
  if (server_hello_.token_required) {
    state_ = State::kProof;
    return {};
  }
  return on_admitted();
}

Result<void> ServerConnection::on_proof() {
  const Digest256 expected =
      wire::prove(options_.token, wire::Role::kClient, client_hello_, server_hello_);
  if (!equal_constant_time(expected, std::span(hello_bytes_).first(wire::kProofBytes))) {
    const Error error(Code::kPermissionDenied, "the cluster token does not match this node's");
    refuse(error, counters_.refused_token);
    return fail(error);
  }
  return on_admitted();
}

Result<void> ServerConnection::on_admitted() {
  counters_.accepted.fetch_add(1, std::memory_order_relaxed);
  if (client_hello_.purpose == wire::Purpose::kBuffer) {
    state_ = State::kDescriptor;
    return {};
  }
  if (client_hello_.purpose == wire::Purpose::kAttach) {
    const std::vector<int> descriptors = service_.shared_descriptors();
    if (descriptors.empty()) {
      send_verdict(Code::kUnsupported, 0, "this node does not share its memory");
      return fail(Code::kUnsupported, "shared memory is off");
    }
    send_verdict(Code::kOk, descriptors.size(), "");
    state_ = State::kHold;
    return env::send_fds(fd_.get(), descriptors, env::monotonic_now());
  }
  peer_.knows_token = server_hello_.token_required;
  session_ = service_.open_session(peer_);
  state_ = State::kFrames;
  send_verdict(Code::kOk, 0, "");
  return {};
}

Result<void> ServerConnection::on_descriptor() {
  auto fds = env::receive_fds(fd_.get(), 1, env::monotonic_now());
  if (!fds) {
    if (fds.error().code() == Code::kDeadlineExceeded) return {};
    refuse(fds.error(), counters_.refused_protocol);
    return fail(fds.error());
  }
  auto adopted = service_.adopt_buffer(std::move(fds->front()), client_hello_.buffer_bytes);
  if (!adopted) {
    refuse(adopted.error(), counters_.refused_protocol);
    return fail(adopted.error());
  }
  buffer_ = std::move(adopted->second);
  state_ = State::kHold;
  send_verdict(Code::kOk, adopted->first, "");
  return {};
}

Result<void> ServerConnection::send_handshake(std::span<const std::byte> bytes) {
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const env::IoResult sent = env::send(fd_.get(), std::span(&piece, 1));
  if (sent.status == env::IoStatus::kOk && sent.bytes == bytes.size()) return {};
  return fail(Code::kUnavailable, "the peer does not take the handshake");
}

void ServerConnection::send_verdict(Code code, std::uint64_t value, const std::string& text) {
  wire::Verdict verdict;
  verdict.code = code;
  verdict.value = value;
  verdict.text = text;
  if (server_hello_.token_required && code == Code::kOk) {
    verdict.proof = wire::prove(options_.token, wire::Role::kServer, client_hello_, server_hello_);
  }
  static_cast<void>(send_handshake(wire::encode(verdict)).has_value());
}

void ServerConnection::refuse(const Error& error, std::atomic<std::uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
  send_verdict(error.code(), 0, error.message());
}

// ---- frames ----

Result<PayloadSink*> ServerConnection::on_frame(const wire::FrameHeader& header,
                                                std::string_view body) {
  if (header.kind != wire::FrameKind::kRequest) {
    return fail(Code::kCorrupt, "a client may send requests only");
  }
  counters_.requests.fetch_add(1, std::memory_order_relaxed);
  counters_.bytes_in.fetch_add(body.size() + header.payload_bytes, std::memory_order_relaxed);
  counters_.payload_in.fetch_add(header.payload_bytes, std::memory_order_relaxed);
  current_ = header;
  Intake intake = session_->on_request(header, body);
  if (header.payload_bytes == 0) {
    if (!intake.reply && !intake.later) intake = session_->on_payload_end(header);
    answer(std::move(intake), header);
    return nullptr;
  }
  held_ = std::move(intake.reply);
  return held_ ? nullptr : intake.sink;
}

Result<void> ServerConnection::on_payload_end() {
  Intake intake = held_ ? Intake(std::move(*held_)) : session_->on_payload_end(current_);
  held_.reset();
  answer(std::move(intake), current_);
  return {};
}

void ServerConnection::answer(Intake intake, const wire::FrameHeader& request) {
  if (!intake.reply && intake.later) return pass_on(intake.later, request);
  queue(intake.reply ? std::move(*intake.reply) : Reply(), request);
}

void ServerConnection::pass_on(const std::function<void(Responder)>& later,
                               const wire::FrameHeader& request) {
  if (!line_) line_ = std::make_shared<ReplyLine>(mailbox_, *this);
  ++outstanding_;
  counters_.outstanding.fetch_add(1, std::memory_order_relaxed);
  later(Responder(line_, request));
}

void ServerConnection::queue(Reply reply, const wire::FrameHeader& request) {
  wire::FrameHeader header;
  header.kind = wire::FrameKind::kReply;
  header.op = request.op;
  header.code = reply.code;
  header.call_id = request.call_id;
  header.payload_bytes = reply.payload_bytes;
  header.trace_id = request.trace_id;
  wire::seal_frame(header, reply.frame);
  counters_.bytes_out.fetch_add(reply.frame.size() + reply.payload_bytes,
                                std::memory_order_relaxed);
  counters_.payload_out.fetch_add(reply.payload_bytes, std::memory_order_relaxed);
  std::unique_ptr<Outbound> out =
      spare_ ? std::move(spare_) : std::unique_ptr<Outbound>(new Outbound);
  out->frame = std::move(reply.frame);
  outbound_bytes_ += out->frame.size();
  out->payload = std::move(reply.payload);
  outbound_.push_back(std::move(out));
  if (outbound_.size() == 1) flush();
}

// Keeps one emptied answer for the next: most connections have one at a time.
void ServerConnection::retire_front() {
  spare_ = std::move(outbound_.front());
  outbound_.pop_front();
  spare_->payload.reset();
  spare_->left = {};
  spare_->frame_taken = false;
}

// Sends until the socket is full. False: the connection is broken.
bool ServerConnection::flush() {
  std::size_t budget = kSendBudget;
  while (!outbound_.empty() && budget > 0) {
    Outbound& out = *outbound_.front();
    if (out.left.empty()) {
      std::size_t count = 0;
      if (!out.frame_taken) {
        out.pieces[count++] = {out.frame.data(), out.frame.size()};
        out.frame_taken = true;
      }
      if (out.payload) count += out.payload->next(std::span(out.pieces).subspan(count));
      if (count == 0) {
        outbound_bytes_ -= out.frame.size();
        retire_front();
        continue;
      }
      out.left = std::span(out.pieces).first(count);
    }
    const env::IoResult sent = send_front(fd_.get(), out.left);
    if (sent.status == env::IoStatus::kWouldBlock) return true;
    if (sent.status != env::IoStatus::kOk) return false;
    out.left = consume(out.left, sent.bytes);
    counters_.bytes_sent.fetch_add(sent.bytes, std::memory_order_relaxed);
    budget -= std::min(budget, sent.bytes);
  }
  return true;
}

}  // namespace larder::rpc
