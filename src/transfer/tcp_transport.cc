// SPDX-License-Identifier: Apache-2.0
#include "transfer/tcp_transport.h"

#include <poll.h>

#include <algorithm>

#include "env/clock.h"
#include "env/thread.h"

namespace larder::transfer {
namespace {

// A frame's payload, unless one piece has more: neighbours on the connection get their turn.
constexpr std::uint64_t kFrameBytes = 1 << 20;
// How late a thread that dozes may notice that calls have expired.
constexpr env::Nanos kDozeMax = 20 * env::kMilli;
// Writes up to this size are sent by the thread that submits them.
constexpr std::uint64_t kSendNowBytes = 64 << 10;

bool together(const Piece& a, const Piece& b) {
  return a.target->peer == b.target->peer && a.opcode == b.opcode &&
         a.traffic_class == b.traffic_class && a.incarnation == b.incarnation &&
         a.intent == b.intent && a.attended == b.attended;
}

}  // namespace

TcpTransport::~TcpTransport() = default;

TransportAbilities TcpTransport::abilities() const noexcept {
  TransportAbilities can;
  can.moves = {Ability::kCpuToCpu};
  return can;
}

// Neighbours that go the same way share a frame.
void TcpTransport::submit(std::span<const Piece* const> pieces) {
  std::vector<const Piece*> frame;
  std::uint64_t bytes = 0;
  for (const Piece* const piece : pieces) {
    const bool full = bytes + piece->bytes > kFrameBytes || frame.size() == wire::kTransferItemsMax;
    if (!frame.empty() && (full || !together(*frame.front(), *piece))) {
      start(std::move(frame));
      frame.clear();
      bytes = 0;
    }
    frame.push_back(piece);
    bytes += piece->bytes;
  }
  if (!frame.empty()) start(std::move(frame));
}

void TcpTransport::start(std::vector<const Piece*> pieces) {
  const std::shared_ptr<Peer> peer = pieces.front()->target->peer;
  auto call = TcpCall::make(std::move(pieces), sink_);
  const bool write = call->opcode() == Opcode::kWrite;
  if (write && call->bytes() > kSendNowBytes) return send_later(peer, std::move(call));
  // Reads, and small writes, never wait behind a long write: that has streams of its own.
  send_now(*peer, std::move(call), 2 * next_.fetch_add(1, std::memory_order_relaxed));
}

void TcpTransport::send_now(Peer& peer, std::unique_ptr<TcpCall> call, unsigned stream) {
  auto channel = peer.stream(call->traffic_class(), stream);
  if (!channel) return TcpCall::fail_all(std::move(call), channel.error());
  const auto attendance = call->attended() ? rpc::Attendance::kAssisted : rpc::Attendance::kPumped;
  use(*channel);
  const env::Nanos left =
      call->deadline() == 0 ? timeout_ : call->deadline() - env::monotonic_now();
  TcpCall::send(std::move(call), **channel, std::clamp<env::Nanos>(left, env::kMilli, timeout_),
                attendance);
}

void TcpTransport::send_later(const std::shared_ptr<Peer>& peer, std::unique_ptr<TcpCall> call) {
  lane_for(peer, call->traffic_class())->add(std::move(call));
}

std::shared_ptr<WriteLane> TcpTransport::lane_for(const std::shared_ptr<Peer>& peer,
                                                  TrafficClass traffic_class) {
  const unsigned each = std::max(1U, peer->streams() / 2);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Lanes>& lanes = lanes_[peer.get()];
  if (lanes == nullptr) {
    lanes = std::make_unique<Lanes>();
    lanes->peer = peer;
    for (unsigned i = 0; i < 2 * each; ++i) {
      lanes->writes.push_back(std::make_shared<WriteLane>(
          [this, to = peer.get(), stream = 2 * (i % each) + 1](std::unique_ptr<TcpCall> call) {
            send_now(*to, std::move(call), stream);
          }));
    }
    replace_lanes();
  }
  const unsigned first = traffic_class == TrafficClass::kHigh ? 0 : each;
  return lanes->writes[first + next_.fetch_add(1, std::memory_order_relaxed) % each];
}

void TcpTransport::forget(const std::shared_ptr<Peer>& peer) {
  std::unique_ptr<Lanes> gone;
  std::shared_ptr<const Work> before;  // goes without the lock
  const auto streams = peer->open_streams();
  const std::lock_guard lock(mutex_);
  before = work_;
  const auto at = lanes_.find(peer.get());
  if (at != lanes_.end()) {
    gone = std::move(at->second);
    lanes_.erase(at);
  }
  auto work = std::make_shared<Work>(*work_);
  std::erase_if(work->channels, [&](const auto& channel) {
    return std::find(streams.begin(), streams.end(), channel) != streams.end();
  });
  work_ = std::move(work);
  replace_lanes();
}

// Under the lock.
void TcpTransport::replace_lanes() {
  auto work = std::make_shared<Work>();
  work->channels = work_->channels;
  for (const auto& [peer, lanes] : lanes_) {
    work->lanes.insert(work->lanes.end(), lanes->writes.begin(), lanes->writes.end());
  }
  work_ = std::move(work);
}

bool TcpTransport::knows(const Peer& peer) const {
  const std::lock_guard lock(mutex_);
  return lanes_.contains(&peer);
}

void TcpTransport::cancel(PieceToken token) noexcept {
  // What was sent ends with the peer's answer, or at its deadline.
  for (const auto& lane : work()->lanes) lane->cancel(token);
}

// ---- lent threads ----

void TcpTransport::use(std::shared_ptr<rpc::Channel> channel) {
  std::shared_ptr<const Work> before;  // goes without the lock
  const std::lock_guard lock(mutex_);
  const auto& known = work_->channels;
  if (std::find(known.begin(), known.end(), channel) != known.end()) return;
  before = work_;
  auto work = std::make_shared<Work>(*work_);
  std::erase_if(work->channels, [](const auto& other) { return other->in_flight() == 0; });
  work->channels.push_back(std::move(channel));
  work_ = std::move(work);
}

std::shared_ptr<const TcpTransport::Work> TcpTransport::work() const {
  const std::lock_guard lock(mutex_);
  return work_;
}

bool TcpTransport::look() {
  return look(*work());
}

bool TcpTransport::look(const Work& work) {
  bool came = false;
  for (const auto& channel : work.channels) {
    if (channel->in_flight() > 0) came = channel->assist() || came;
  }
  return came;
}

// Looks first: a thread that only sends for some milliseconds would not be seen to assist, and the
// channel's own would step in.
bool TcpTransport::help() {
  const auto all = work();
  const bool came = look(*all);
  for (const auto& lane : all->lanes) {
    if (lane->help()) return true;
  }
  return came;
}

bool TcpTransport::worth_polling() const {
  const auto all = work();
  return std::any_of(all->channels.begin(), all->channels.end(),
                     [](const auto& channel) { return channel->in_flight() > 0; });
}

void TcpTransport::rest() {
  for (const auto& channel : work()->channels) {
    if (channel->in_flight() > 0) channel->hand_over();
  }
}

// A thread that sleeps on the sockets themselves costs one wake-up less than one that is told by
// the channel's own.
bool TcpTransport::doze(int wake, std::int64_t deadline) {
  std::vector<std::shared_ptr<rpc::Channel>> attended;
  std::vector<pollfd> polled{{wake, POLLIN, 0}};
  const auto all = work();
  for (const auto& channel : all->channels) {
    if (channel->in_flight() == 0 || !channel->attend()) continue;
    polled.push_back({channel->descriptor(), POLLIN, 0});
    attended.push_back(channel);
  }
  if (attended.empty()) return false;
  const env::Nanos left = std::clamp<env::Nanos>(deadline - env::monotonic_now(), 0, kDozeMax);
  const timespec limit{left / env::kSecond, left % env::kSecond};
  ::ppoll(polled.data(), polled.size(), &limit, nullptr);
  for (const auto& channel : attended) channel->leave();
  return true;
}

bool TcpTransport::drain(std::int64_t deadline) {
  while (env::monotonic_now() < deadline) {
    bool quiet = true;
    const auto all = work();
    for (const auto& channel : all->channels) quiet = quiet && channel->in_flight() == 0;
    for (const auto& lane : all->lanes) quiet = quiet && !lane->busy();
    if (quiet) return true;
    if (!help()) env::yield_core();
  }
  return false;
}

}  // namespace larder::transfer
