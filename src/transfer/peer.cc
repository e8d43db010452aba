// SPDX-License-Identifier: Apache-2.0
#include "transfer/peer.h"

#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <optional>
#include <string>

#include "env/host_probe.h"
#include "larder.pb.h"
#include "wire/message.h"

namespace larder::transfer {
namespace {

constexpr env::Nanos kRefreshEvery = 100 * env::kMilli;
constexpr env::Nanos kLookEvery = 10 * env::kMilli;
constexpr env::Nanos kReconnectAfter = 100 * env::kMilli;
constexpr std::size_t kDescriptorsMax = 128;

// One question with its answer.
class Question final : public rpc::Call {
 public:
  rpc::PayloadSink* on_reply(const wire::FrameHeader& reply, std::string_view body) override {
    header = reply;
    text.assign(body);
    return nullptr;
  }
  void on_done(const Error* failure) override {
    if (failure != nullptr) error = *failure;
  }
  wire::FrameHeader header;
  std::string text;
  std::optional<Error> error;
};

// One that nobody waits for.
class LateAnswer final : public rpc::Call {
 public:
  explicit LateAnswer(std::function<void(Result<void>)> ended) : ended_(std::move(ended)) {}
  rpc::PayloadSink* on_reply(const wire::FrameHeader& reply, std::string_view body) override {
    if (reply.code == Code::kOk) return nullptr;
    pb::ErrorReply text;
    const auto parsed = wire::parse_body(body, reply.op, text);
    how_ = fail(reply.code, parsed ? text.text() : std::string("its answer is malformed"));
    return nullptr;
  }
  void on_done(const Error* failure) override {
    const std::unique_ptr<LateAnswer> self(this);
    if (failure != nullptr) how_ = fail(*failure);
    ended_(std::move(how_));
  }

 private:
  const std::function<void(Result<void>)> ended_;
  Result<void> how_;
};

// The peer's word, until it is checked.
Result<std::vector<RemoteBuffer>> buffers_of(const pb::TransferInfoReply& reply) {
  const int count = reply.addresses_size();
  if (reply.lengths_size() != count || reply.types_size() != count ||
      reply.indices_size() != count || reply.inodes_size() != count) {
    return fail(Code::kCorrupt, "the peer's description of its memory is malformed");
  }
  std::vector<RemoteBuffer> buffers;
  std::uint64_t end = 0;
  for (int i = 0; i < count; ++i) {
    RemoteBuffer buffer;
    buffer.address = reply.addresses(i);
    buffer.bytes = reply.lengths(i);
    buffer.location = {static_cast<MemoryType>(reply.types(i)), reply.indices(i)};
    buffer.inode = reply.inodes(i);
    const bool in_order =
        buffer.address >= end && buffer.bytes > 0 && buffer.address + buffer.bytes > buffer.address;
    if (!in_order || reply.types(i) > static_cast<std::uint32_t>(MemoryType::kNpu)) {
      return fail(Code::kCorrupt, "the peer's description of its memory makes no sense");
    }
    end = buffer.address + buffer.bytes;
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

bool closed(const env::Fd& fd) noexcept {
  char byte = 0;
  return ::recv(fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

const RemoteBuffer* RemoteDescription::find(std::uint64_t address, std::uint64_t length,
                                            const RemoteBuffer* guess) const noexcept {
  const auto holds = [&](const RemoteBuffer& buffer) {
    return address >= buffer.address && length <= buffer.bytes &&
           address - buffer.address <= buffer.bytes - length;
  };
  if (guess != nullptr && holds(*guess)) return guess;
  const auto after = std::upper_bound(
      buffers.begin(), buffers.end(), address,
      [](std::uint64_t value, const RemoteBuffer& buffer) { return value < buffer.address; });
  if (after == buffers.begin() || !holds(*std::prev(after))) return nullptr;
  return &*std::prev(after);
}

Peer::Peer(const PeerOptions& options) : options_(options) {
  for (unsigned i = 0; i < 2 * options_.streams; ++i) {
    streams_.push_back(std::make_unique<Stream>());
  }
}

Result<std::shared_ptr<Peer>> Peer::open(const PeerOptions& options) {
  std::shared_ptr<Peer> peer(new Peer(options));
  LARDER_TRY(peer->refresh());
  return peer;
}

// ---- what is known ----

std::shared_ptr<const RemoteDescription> Peer::current() {
  std::shared_ptr<const RemoteDescription> known;
  {
    const std::shared_lock lock(description_mutex_);
    known = description_;
  }
  bool stale = latest_incarnation_.load(std::memory_order_acquire) != known->incarnation;
  const env::Nanos now = env::monotonic_now();
  env::Nanos after = look_after_.load(std::memory_order_relaxed);
  if (now >= after && look_after_.compare_exchange_strong(after, now + kLookEvery)) {
    stale = stale || gone() || (known->attachment != nullptr && closed(*known->attachment));
  }
  return stale ? renewed(now >= refresh_after_.load(std::memory_order_relaxed)) : known;
}

bool Peer::gone() const {
  const auto streams = open_streams();
  return std::any_of(streams.begin(), streams.end(),
                     [](const auto& channel) { return channel->peer_closed(); });
}

std::shared_ptr<const RemoteDescription> Peer::renewed(bool insist) {
  const env::Nanos now = env::monotonic_now();
  env::Nanos after = refresh_after_.load(std::memory_order_relaxed);
  const bool due =
      now >= after && refresh_after_.compare_exchange_strong(after, now + kRefreshEvery);
  if ((due || insist) && !refresh()) {
    // Whatever it was, it is not mapped any more: copies would go nowhere.
    auto bare = std::make_shared<RemoteDescription>();
    const std::unique_lock lock(description_mutex_);
    *bare = *description_;
    for (RemoteBuffer& buffer : bare->buffers) buffer.mapping = nullptr;
    bare->attachment = nullptr;
    description_ = std::move(bare);
  }
  const std::shared_lock lock(description_mutex_);
  return description_;
}

Result<void> Peer::refresh() {
  const std::lock_guard one(refresh_mutex_);
  pb::TransferInfoReply reply;
  auto fresh = std::make_shared<RemoteDescription>();
  LARDER_TRY(ask(wire::Op::kTransferInfo, pb::TransferInfoRequest(), reply, &fresh->incarnation));
  LARDER_ASSIGN(fresh->buffers, buffers_of(reply));
  fresh->generation = reply.generation();
  fresh->same_machine = !reply.boot_id().empty() && reply.boot_id() == env::boot_id();
  fresh->socket = reply.socket();
  std::shared_ptr<const RemoteDescription> before;
  {
    const std::shared_lock lock(description_mutex_);
    before = description_;
  }
  map_buffers(before.get(), *fresh);
  const std::unique_lock lock(description_mutex_);
  description_ = std::move(fresh);
  return {};
}

// Maps what can be mapped; the rest goes over a socket. Mappings of the same incarnation are kept.
void Peer::map_buffers(const RemoteDescription* before, RemoteDescription& description) const {
  const bool any = std::any_of(description.buffers.begin(), description.buffers.end(),
                               [](const RemoteBuffer& buffer) { return buffer.inode != 0; });
  if (!any || !options_.map_memory || !description.same_machine || description.socket.empty()) {
    return;
  }
  rpc::ChannelOptions options = options_.channel;
  auto address = env::SocketAddress::parse("unix:" + description.socket);
  if (!address) return;
  options.address = *address;
  auto connection = rpc::connect_and_shake(options, wire::Purpose::kAttach);
  if (!connection || connection->epoch != description.incarnation ||
      connection->value > kDescriptorsMax) {
    return;
  }
  auto fds = env::receive_fds(connection->fd.get(), connection->value,
                              env::monotonic_now() + options.connect_timeout);
  if (!fds) return;
  description.attachment = std::make_shared<env::Fd>(std::move(connection->fd));
  for (const env::Fd& fd : *fds) {
    const std::uint64_t inode = SharedMapping::inode_of(fd);
    for (RemoteBuffer& buffer : description.buffers) {
      if (inode == 0 || buffer.inode != inode) continue;
      const RemoteBuffer* const old =
          before != nullptr && before->incarnation == description.incarnation
              ? before->find(buffer.address, buffer.bytes)
              : nullptr;
      if (old != nullptr && old->mapping != nullptr && old->inode == inode &&
          old->mapping->lent()) {
        buffer.mapping = old->mapping;
        continue;
      }
      auto mapping = SharedMapping::map(fd, buffer.bytes);
      if (mapping) buffer.mapping = std::move(*mapping);
    }
  }
}

// ---- connections ----

Result<std::shared_ptr<rpc::Channel>> Peer::stream(TrafficClass traffic_class, unsigned number) {
  const unsigned first = traffic_class == TrafficClass::kHigh ? 0 : options_.streams;
  Stream& stream = *streams_[first + number % options_.streams];
  const std::lock_guard lock(stream.mutex);
  if (stream.channel != nullptr && !stream.channel->broken()) return stream.channel;
  const env::Nanos now = env::monotonic_now();
  if (now < stream.retry_at) return fail(Code::kUnavailable, stream.last_error);
  stream.channel.reset();
  auto made = rpc::Channel::connect(options_.channel);
  if (!made) {
    stream.retry_at = env::monotonic_now() + kReconnectAfter;
    stream.last_error = made.error().message();
    return fail(made.error());
  }
  stream.channel = std::move(*made);
  latest_incarnation_.store(stream.channel->epoch(), std::memory_order_release);
  return stream.channel;
}

std::vector<std::shared_ptr<rpc::Channel>> Peer::open_streams() const {
  std::vector<std::shared_ptr<rpc::Channel>> open;
  for (const auto& stream : streams_) {
    const std::lock_guard lock(stream->mutex);
    if (stream->channel != nullptr) open.push_back(stream->channel);
  }
  return open;
}

void Peer::shut_down() {
  for (const auto& channel : open_streams()) channel->shut_down();
}

Result<void> Peer::ask(wire::Op op, const google::protobuf::MessageLite& request,
                       google::protobuf::MessageLite& reply, std::uint64_t* incarnation) {
  LARDER_ASSIGN(const auto channel, stream(TrafficClass::kHigh, 0));
  wire::FrameHeader header;
  header.op = op;
  Question question;
  channel->send(question, header, wire::frame_with(request), nullptr,
                env::monotonic_now() + options_.channel.connect_timeout, rpc::Attendance::kWaited);
  channel->wait(question);
  if (question.error) return fail(*question.error);
  if (question.header.code != Code::kOk) {
    pb::ErrorReply error;
    LARDER_TRY(wire::parse_body(question.text, op, error));
    return fail(question.header.code, error.text());
  }
  if (incarnation != nullptr) *incarnation = channel->epoch();
  return wire::parse_body(question.text, op, reply);
}

Result<std::chrono::nanoseconds> Peer::probe() {
  const env::Nanos start = env::monotonic_now();
  pb::TransferInfoReply reply;
  LARDER_TRY(ask(wire::Op::kTransferInfo, pb::TransferInfoRequest(), reply));
  return std::chrono::nanoseconds(env::monotonic_now() - start);
}

std::string Peer::notification_frame(const Notification& notification) {
  pb::TransferNotifyRequest request;
  request.set_incarnation(current()->incarnation);
  request.set_name(notification.name);
  request.set_message(notification.message);
  return wire::frame_with(request);
}

Result<void> Peer::notify(const Notification& notification) {
  std::promise<Result<void>> ended;
  notify_later(notification, [&](Result<void> how) { ended.set_value(std::move(how)); });
  return ended.get_future().get();
}

void Peer::notify_later(const Notification& notification, std::function<void(Result<void>)> ended) {
  auto channel = stream(TrafficClass::kHigh, 0);
  if (!channel) return ended(fail(channel.error()));
  wire::FrameHeader header;
  header.op = wire::Op::kTransferNotify;
  auto* const call = new LateAnswer(std::move(ended));  // destroys itself when it is done
  (*channel)->send(*call, header, notification_frame(notification), nullptr,
                   env::monotonic_now() + options_.channel.connect_timeout,
                   rpc::Attendance::kPumped);
}

}  // namespace larder::transfer
