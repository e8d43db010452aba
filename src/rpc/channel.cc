// SPDX-License-Identifier: Apache-2.0
#include "rpc/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "env/random.h"
#include "env/thread.h"
#include "wire/message.h"

namespace larder::rpc {
namespace {

constexpr std::size_t kReceiveBudget = 4 << 20;
constexpr std::size_t kPiecesMax = 64;
// How late a deadline may be noticed when the call came after the pump went to sleep.
constexpr env::Nanos kPumpSleepMax = 50 * env::kMilli;
constexpr env::Nanos kExpiryEvery = 10 * env::kMilli;
constexpr int kPollsPerYield = 32;
constexpr std::chrono::milliseconds kAssistGrace{2};
constexpr int kLooksBeforeDoze = 50;
// A long request takes the peer a while: to sleep through it saves little, and the wake-up is paid
// on top. A nanosecond for each byte is about what taking it in and answering it takes.
constexpr env::Nanos kMoreSpinMax = 2 * env::kMilli;

env::Nanos more_spin(std::uint64_t request_bytes) {
  return static_cast<env::Nanos>(std::min<std::uint64_t>(request_bytes, kMoreSpinMax));
}

}  // namespace

Channel::Channel(const ChannelOptions& options, Handshaken connection)
    : spin_(options.spin),
      fd_(std::move(connection.fd)),
      epoch_(connection.epoch),
      peer_(options.address.to_string()) {}

Result<std::shared_ptr<Channel>> Channel::connect(const ChannelOptions& options) {
  LARDER_ASSIGN(Handshaken connection, connect_and_shake(options, wire::Purpose::kCalls));
  return std::shared_ptr<Channel>(new Channel(options, std::move(connection)));
}

Channel::~Channel() {
  close();
}

void Channel::close() {
  const bool lost = broken();  // then its owner lets go of it because of that, and not of the calls
  shut_down();
  {
    const std::lock_guard lock(calls_mutex_);
    stopping_ = true;
  }
  calls_changed_.notify_all();
  if (pump_thread_.joinable()) pump_thread_.join();
  // Whoever holds the pump sees the end of the stream; calls that nobody waits for end here.
  std::unique_lock lock(calls_mutex_);
  calls_changed_.wait(lock, [this] { return !pump_taken_; });
  pump_taken_ = true;
  lock.unlock();
  fail_all(lost ? Error(Code::kUnavailable, peer_ + ": the connection was lost")
                : Error(Code::kCancelled, "the client was closed"));
  lock.lock();
  pump_taken_ = false;
  calls_changed_.notify_all();
}

void Channel::shut_down() noexcept {
  broken_.store(true, std::memory_order_release);
  ::shutdown(fd_.get(), SHUT_RDWR);
}

// ---- sending ----

// Not a mutex: whoever sends may have a peer that does not read and a deadline far away.
bool Channel::wait_for_turn(env::Nanos deadline) {
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};
  std::unique_lock lock(turn_mutex_);
  if (!turn_free_.wait_until(lock, until, [this] { return !turn_taken_; })) return false;
  turn_taken_ = true;
  return true;
}

void Channel::register_call(Call& call) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(calls_mutex_);
  call.id_ = next_id_++;
  call.sending_ = true;
  calls_.emplace(call.id_, &call);
  if (call.attendance_ == Attendance::kWaited) return;
  const bool pumped = call.attendance_ == Attendance::kPumped;
  ++(pumped ? pumped_ : assisted_);
  if (!pump_thread_.joinable()) {
    pump_thread_ = std::thread([this] { run_pump_thread(); });
  }
  if (pumped || dozing_) calls_changed_.notify_all();
}

void Channel::send(Call& call, wire::FrameHeader header, std::string frame, PayloadSource* payload,
                   env::Nanos deadline, Attendance attendance) {
  call.deadline_ = deadline;
  call.attendance_ = attendance;
  call.more_spin_ = more_spin(frame.size() + header.payload_bytes);
  call.done_.store(false, std::memory_order_relaxed);
  if (!wait_for_turn(deadline)) return end_unsent(call);
  register_call(call);
  header.kind = wire::FrameKind::kRequest;
  header.call_id = call.id_;
  wire::seal_frame(header, frame);
  // A frame that was sent in part cannot be taken back: the stream is of no use after that. The
  // pump then finds the connection closed and ends every call, this one too.
  if (broken() || !send_all(frame, payload, header.payload_bytes, deadline)) shut_down();
  end_sending(call);
  {
    const std::lock_guard lock(turn_mutex_);
    turn_taken_ = false;
  }
  turn_free_.notify_one();
}

void Channel::end_unsent(Call& call) {
  const bool waited = call.attendance_ == Attendance::kWaited;
  const Error error(Code::kDeadlineExceeded,
                    "sending to " + peer_ + ": others were still sending on this connection");
  call.on_done(&error);
  if (waited) call.done_.store(true, std::memory_order_release);
}

// From here on the call may be finished, and be gone, at any moment.
void Channel::end_sending(Call& call) {
  const std::lock_guard lock(calls_mutex_);
  call.sending_ = false;
  if (pump_waits_) calls_changed_.notify_all();
}

Result<void> Channel::send_all(std::string& frame, PayloadSource* payload,
                               std::uint64_t payload_bytes, env::Nanos deadline) {
  std::array<iovec, kPiecesMax> pieces;
  std::size_t count = 1;
  pieces[0] = {frame.data(), frame.size()};
  std::uint64_t left = payload_bytes + frame.size();
  if (payload != nullptr) count += payload->next(std::span(pieces).subspan(1));
  while (count > 0) {
    const std::span<iovec> now = std::span(pieces).first(count);
    const std::size_t bytes = total_bytes(now);
    if (bytes > left) break;
    left -= bytes;
    LARDER_TRY(send_pieces(now, deadline));
    count = payload != nullptr && left > 0 ? payload->next(pieces) : 0;
  }
  if (left > 0) return fail(Code::kCancelled, "the payload ended before its time");
  return {};
}

Result<void> Channel::send_pieces(std::span<iovec> pieces, env::Nanos deadline) {
  while (!pieces.empty()) {
    const env::IoResult sent = send_front(fd_.get(), pieces);
    if (sent.status == env::IoStatus::kOk) {
      pieces = consume(pieces, sent.bytes);
    } else if (sent.status != env::IoStatus::kWouldBlock) {
      return fail(Code::kUnavailable, "sending to " + peer_ + ": the connection is closed");
    } else if (!wait_writable(pieces, deadline)) {
      return fail(Code::kDeadlineExceeded, "sending to " + peer_ + ": it does not read");
    }
  }
  return {};
}

// A peer that reads makes room within microseconds: trying again beats a sleep and its wake-up.
bool Channel::wait_writable(std::span<iovec>& pieces, env::Nanos deadline) {
  const env::SpinTicket ticket;
  const env::Nanos spin_end = env::monotonic_now() + spin_;
  for (int polls = 1; ticket.granted() && env::monotonic_now() < spin_end; ++polls) {
    const env::IoResult sent = send_front(fd_.get(), pieces);
    if (sent.status != env::IoStatus::kWouldBlock) {
      if (sent.status == env::IoStatus::kOk) pieces = consume(pieces, sent.bytes);
      return true;  // an error shows itself in the next call
    }
    if (polls % kPollsPerYield == 0 && env::yield_core()) break;
  }
  return env::wait_ready(fd_.get(), env::kWritable, deadline) != 0;
}

bool Channel::peer_closed() const noexcept {
  char byte = 0;
  const ssize_t n = ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || broken();
}

bool Channel::on_pump_thread() const noexcept {
  return pump_thread_.get_id() == std::this_thread::get_id();
}

// ---- waiting and the pump ----

void Channel::wait(Call& call) {
  std::unique_lock lock(calls_mutex_);
  while (!call.done()) {
    if (!pump_taken_) {
      pump_taken_ = true;
      lock.unlock();
      pump_until_done(call);
      release_pump();
      return;
    }
    ++sleepers_;
    calls_changed_.wait(lock, [&] { return call.done() || !pump_taken_; });
    --sleepers_;
    // The channel's own thread stood back for this one: it must hear that nobody takes the pump.
    if (call.done() && sleepers_ == 0 && pumped_ > 0) calls_changed_.notify_all();
  }
}

void Channel::pump_until_done(Call& call) {
  while (!call.done()) pump_once(call.deadline_, spin_ > 0 ? spin_ + call.more_spin_ : 0);
}

void Channel::release_pump() {
  const std::lock_guard lock(calls_mutex_);
  pump_taken_ = false;
  if (sleepers_ > 0 || pumped_ > 0 || handed_over_ || stopping_) calls_changed_.notify_all();
}

void Channel::run_pump_thread() {
  env::set_thread_name("larder-pump");
  std::unique_lock lock(calls_mutex_);
  while (wait_for_work(lock)) {
    pump_taken_ = true;
    lock.unlock();
    pump_once(env::monotonic_now() + kPumpSleepMax, spin_);
    lock.lock();
    pump_taken_ = false;
    if (sleepers_ > 0) calls_changed_.notify_all();
  }
}

// Until there is something for the channel's thread to receive; false: the channel is closed. While
// assisted calls come and go this looks in every few milliseconds: to be told of each would cost
// those who assist a system call, and the core.
bool Channel::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto own_work = [this] {
    const bool work = pumped_ > 0 || (handed_over_ && assisted_ > 0 && !attended_);
    return stopping_ || (work && !pump_taken_ && sleepers_ == 0);
  };
  for (int idle_looks = 0; !own_work();) {
    const unsigned assists = assists_;
    if (idle_looks == kLooksBeforeDoze) {
      dozing_ = true;
      calls_changed_.wait(lock, [&] { return own_work() || assisted_ > 0; });
      dozing_ = false;
      idle_looks = 0;
      continue;
    }
    if (calls_changed_.wait_for(lock, kAssistGrace, own_work)) break;
    idle_looks = assisted_ == 0 ? idle_looks + 1 : 0;
    const bool alone = assists == assists_ && !attended_;
    if (assisted_ > 0 && alone && !pump_taken_ && sleepers_ == 0) break;
  }
  return !stopping_;
}

bool Channel::assist() {
  {
    const std::lock_guard lock(calls_mutex_);
    ++assists_;
    handed_over_ = false;
    if (pump_taken_ || assisted_ == 0) return false;
    pump_taken_ = true;
  }
  const bool came = try_receive();
  if (!came) {
    const env::Nanos now = env::monotonic_now();
    if (now - last_expiry_ > kExpiryEvery) expire_calls(now);
  }
  release_pump();
  return came;
}

bool Channel::attend() {
  const std::lock_guard lock(calls_mutex_);
  if (attended_ || assisted_ == 0) return false;
  handed_over_ = false;
  return attended_ = true;
}

void Channel::leave() {
  const std::lock_guard lock(calls_mutex_);
  attended_ = false;
}

void Channel::hand_over() {
  const std::lock_guard lock(calls_mutex_);
  if (assisted_ == 0 || handed_over_) return;
  handed_over_ = true;
  if (!pump_taken_) calls_changed_.notify_all();
}

// Receives once, or waits until something came, `until`, or the earliest deadline.
void Channel::pump_once(env::Nanos until, env::Nanos spin) {
  env::Nanos now = env::monotonic_now();
  const env::SpinTicket ticket;
  const env::Nanos spin_end = now + spin;
  for (int polls = 1; now < spin_end && ticket.granted(); ++polls) {
    if (try_receive()) return;
    if (polls % kPollsPerYield == 0 && env::yield_core()) break;
    now = env::monotonic_now();
  }
  until = std::min({until, earliest_deadline(), now + kPumpSleepMax});
  if (env::wait_ready(fd_.get(), env::kReadable, until) != 0 && try_receive()) return;
  expire_calls(env::monotonic_now());
}

bool Channel::try_receive() {
  if (broken()) {  // the receiver may have stopped in the middle of anything
    fail_all(Error(Code::kUnavailable, peer_ + ": the connection was closed"));
    return true;
  }
  auto progress = receiver_.receive(fd_.get(), *this, kReceiveBudget);
  if (progress && *progress == Progress::kNothing) return false;
  if (progress && *progress == Progress::kSome) {
    const env::Nanos now = env::monotonic_now();
    if (now - last_expiry_ > kExpiryEvery) expire_calls(now);
    return true;
  }
  shut_down();  // a sender must not wait for a peer that is no longer read
  fail_all(progress ? Error(Code::kUnavailable, peer_ + ": the node closed the connection")
                    : progress.error());
  return true;
}

Result<PayloadSink*> Channel::on_frame(const wire::FrameHeader& header, std::string_view body) {
  if (header.kind != wire::FrameKind::kReply) {
    return fail(Code::kCorrupt, peer_ + " sent a request where a reply was due");
  }
  Call* call = nullptr;
  {
    std::unique_lock lock(calls_mutex_);
    const auto found = calls_.find(header.call_id);
    if (found != calls_.end()) call = found->second;
    // The answer may overtake the sender on its way out of send(). From a peer that answers what it
    // has not yet read, this waits until the send ends, at the latest at its deadline.
    pump_waits_ = true;
    calls_changed_.wait(lock, [call] { return call == nullptr || !call->sending_; });
    pump_waits_ = false;
  }
  if (call == nullptr) return nullptr;  // it timed out: nobody wants this answer
  PayloadSink* const sink = call->on_reply(header, body);
  if (header.payload_bytes == 0) {
    finish(*call, nullptr);
    return nullptr;
  }
  receiving_ = call;
  return sink;
}

Result<void> Channel::on_payload_end() {
  if (receiving_ != nullptr) finish(*std::exchange(receiving_, nullptr), nullptr);
  return {};
}

void Channel::finish(Call& call, const Error* error) {
  const bool waited = call.attendance_ == Attendance::kWaited;
  {
    const std::lock_guard lock(calls_mutex_);
    if (calls_.erase(call.id_) == 0) return;
    if (call.attendance_ == Attendance::kPumped) --pumped_;
    if (call.attendance_ == Attendance::kAssisted) --assisted_;
  }
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  call.on_done(error);
  if (!waited) return;
  const std::lock_guard lock(calls_mutex_);
  call.done_.store(true, std::memory_order_release);
  if (sleepers_ > 0) calls_changed_.notify_all();
}

env::Nanos Channel::earliest_deadline() {
  const std::lock_guard lock(calls_mutex_);
  env::Nanos earliest = env::monotonic_now() + env::kSecond;
  for (const auto& [id, call] : calls_) {
    if (!call->sending_) earliest = std::min(earliest, call->deadline_);
  }
  return earliest;
}

void Channel::expire_calls(env::Nanos now) {
  last_expiry_ = now;
  std::vector<Call*> expired;
  {
    const std::lock_guard lock(calls_mutex_);
    for (const auto& [id, call] : calls_) {
      if (call->deadline_ <= now && !call->sending_) expired.push_back(call);
    }
  }
  const Error error(Code::kDeadlineExceeded, peer_ + " did not answer in time");
  for (Call* call : expired) {
    // This thread is the only one that writes into the call's buffers: once the rest of its payload
    // is turned away, the buffers are quiet and may be given back.
    if (call == receiving_) {
      receiver_.discard_payload();
      receiving_ = nullptr;
    }
    finish(*call, &error);
  }
}

void Channel::fail_all(const Error& error) {
  receiver_.discard_payload();
  receiving_ = nullptr;
  std::vector<Call*> all;
  {
    const std::lock_guard lock(calls_mutex_);
    for (const auto& [id, call] : calls_) {
      if (!call->sending_) all.push_back(call);
    }
  }
  for (Call* call : all) finish(*call, &error);
}

// ---- handshake ----

namespace {

Error explain(const Error& error, const ChannelOptions& options) {
  std::string text = options.address.to_string() + ": " + error.message();
  if (error.code() == Code::kUnavailable) text += "; is a node running there? (larder node)";
  return {error.code(), std::move(text)};
}

Result<void> prove_token(const Handshaken& connection, const ChannelOptions& options,
                         const wire::ClientHello& hello, const wire::ServerHello& answer,
                         env::Nanos deadline) {
  if (!answer.token_required) {
    // Whoever took the node's place would say the same: a client with a token insists on it.
    if (options.token.empty()) return {};
    return fail(Code::kPermissionDenied,
                "this node asks for no cluster token, but one was given; start the node with the "
                "token, or leave --token-file out");
  }
  if (options.token.empty()) {
    return fail(Code::kPermissionDenied, "this node asks for a cluster token; give --token-file");
  }
  const Digest256 proof = wire::prove(options.token, wire::Role::kClient, hello, answer);
  static_cast<void>(env::send_all(connection.fd.get(), proof, deadline));
  return {};
}

// A Unix socket in a place that others can write to may be somebody else's.
Result<void> check_server_user(const ChannelOptions& options, int fd) {
  if (options.address.kind != env::SocketAddress::Kind::kUnix) {
    env::set_keep_alive(fd);
    return {};
  }
  LARDER_ASSIGN(const env::PeerUser user, env::peer_user(fd));
  if (user.uid == ::geteuid() || user.uid == 0 || ::geteuid() == 0) return {};
  return fail(Code::kPermissionDenied,
              "the node there runs as another user (uid " + std::to_string(user.uid) + ")");
}

Result<Handshaken> shake(const ChannelOptions& options, const wire::ClientHello& hello, int pass_fd,
                         env::Nanos deadline) {
  Handshaken connection;
  LARDER_ASSIGN(connection.fd, env::connect_to(options.address, deadline));
  const int fd = connection.fd.get();
  LARDER_TRY(check_server_user(options, fd));
  // A node that is full says so and closes, at times before hello, proof or descriptor have come:
  // what it said counts, not whether they could be sent.
  static_cast<void>(env::send_all(fd, wire::encode(hello), deadline));
  std::array<std::byte, wire::kServerHelloBytes> answer_bytes;
  LARDER_TRY(env::receive_all(fd, answer_bytes, deadline));
  LARDER_ASSIGN(const wire::ServerHello answer, wire::decode_server_hello(answer_bytes));
  if (answer.version < hello.version_min || answer.version > hello.version_max) {
    return fail(Code::kVersionMismatch, "the node speaks protocol version " +
                                            std::to_string(answer.version) + ", this client " +
                                            std::to_string(wire::kProtocolVersion));
  }
  connection.epoch = answer.epoch;
  LARDER_TRY(prove_token(connection, options, hello, answer, deadline));
  if (pass_fd >= 0) static_cast<void>(env::send_fds(fd, std::span(&pass_fd, 1), deadline));
  std::array<std::byte, wire::kVerdictBytes> verdict_bytes;
  LARDER_TRY(env::receive_all(fd, verdict_bytes, deadline));
  LARDER_ASSIGN(const wire::Verdict verdict, wire::decode_verdict(verdict_bytes));
  if (verdict.code != Code::kOk) return fail(verdict.code, verdict.text);
  // A node that does not know the token could let anyone in and hand out anything: it is refused
  // too.
  if (!options.token.empty() && answer.token_required &&
      !equal_constant_time(verdict.proof,
                           wire::prove(options.token, wire::Role::kServer, hello, answer))) {
    return fail(Code::kPermissionDenied, "the node does not know the cluster token");
  }
  connection.value = verdict.value;
  return connection;
}

}  // namespace

Result<Handshaken> connect_and_shake(const ChannelOptions& options, wire::Purpose purpose,
                                     std::uint64_t buffer_bytes, int pass_fd) {
  wire::ClientHello hello;
  hello.purpose = purpose;
  hello.version_min = wire::kProtocolVersion;
  hello.version_max = wire::kProtocolVersion;
  hello.buffer_bytes = buffer_bytes;
  env::random_bytes(hello.nonce);
  auto connection = shake(options, hello, pass_fd, env::monotonic_now() + options.connect_timeout);
  if (!connection) return fail(explain(connection.error(), options));
  return connection;
}

}  // namespace larder::rpc
