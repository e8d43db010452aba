// SPDX-License-Identifier: Apache-2.0
#include "client/core.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/checksum.h"
#include "client/ops_meta.h"
#include "env/paths.h"
#include "env/socket.h"
#include "wire/keys.h"
#include "wire/message.h"

namespace larder {

std::string_view path_name(Path path) noexcept {
  switch (path) {
    case Path::kAuto:
      return "auto";
    case Path::kSharedMemory:
      return "shared-memory";
    case Path::kUnixSocket:
      return "unix-socket";
    case Path::kTcp:
      return "tcp";
  }
  return "unknown";
}

std::string_view tier_name(Tier tier) noexcept {
  switch (tier) {
    case Tier::kHot:
      return "hot";
    case Tier::kCold:
      return "cold";
    case Tier::kHotAndCold:
      return "hot+cold";
  }
  return "unknown";
}

}  // namespace larder

namespace larder::client {
namespace {

// A window holds a few chunks (put_source.cc), whatever was asked for.
constexpr std::uint64_t kWindowBytesMin = 1 << 20;

Result<rpc::ChannelOptions> channel_options(const ClientOptions& options) {
  rpc::ChannelOptions channel;
  const std::string address =
      options.address.empty() ? "unix:" + default_socket_path() : options.address;
  LARDER_ASSIGN(channel.address, env::SocketAddress::parse(address));
  if (!options.token_file.empty()) {
    LARDER_ASSIGN(channel.token, env::read_token_file(options.token_file));
  }
  channel.connect_timeout = options.connect_timeout.count() * env::kMilli;
  channel.spin = options.spin.count() * env::kMicro;
  return channel;
}

}  // namespace

// ---- Op ----

rpc::PayloadSink* Op::on_reply(const wire::FrameHeader& header, std::string_view body) {
  auto sink = on_answer(header, body);
  if (sink) return *sink;
  error_ = sink.error();
  return nullptr;
}

void Op::on_done(const Error* error) {
  if (error != nullptr) error_ = *error;
  if (!error_) {
    if (const Result<void> answered = on_answered(); !answered) error_ = answered.error();
  }
  if (async_) core_.go_on(std::unique_ptr<Op>(this));
}

qos::Label Op::label(TransportType transport, Opcode opcode) const noexcept {
  return {transport, purpose_.traffic_class, purpose_.intent, opcode};
}

// ---- making one ----

ClientCore::ClientCore(ClientOptions options, rpc::ChannelOptions channel)
    : options_(std::move(options)), cache_(options_.route_cache_entries) {
  pool_ = std::make_unique<Pool>(std::move(channel),
                                 std::max<std::size_t>(1, options_.connections_max));
  const std::array<std::string_view, 3> names = {options_.space.tenant, options_.space.domain,
                                                 options_.space.object_set};
  for (const std::string_view name : names) seed_ = hash64(name, seed_ + 1);
}

Result<std::unique_ptr<ClientCore>> ClientCore::create(ClientOptions options) {
  LARDER_TRY(wire::validate_space(options.space));
  if (options.timeout.count() <= 0 || options.connect_timeout.count() <= 0) {
    return fail(Code::kInvalidArgument, "client: time-outs must be greater than 0");
  }
  LARDER_ASSIGN(rpc::ChannelOptions channel, channel_options(options));
  std::unique_ptr<ClientCore> core(new ClientCore(std::move(options), std::move(channel)));
  LARDER_TRY(core->choose_path());
  return core;
}

ClientCore::~ClientCore() {
  pool_->shut_down();
}

// Connects once, and finds out how this client may reach the node's memory.
Result<void> ClientCore::choose_path() {
  LARDER_TRY(pool_->acquire(deadline_of({})));
  const bool unix_socket = pool_->options().address.kind == env::SocketAddress::Kind::kUnix;
  path_ = unix_socket ? Path::kUnixSocket : Path::kTcp;
  switch (options_.path) {
    case Path::kTcp:
      if (unix_socket)
        return fail(Code::kInvalidArgument, "path tcp needs a tcp:HOST:PORT address");
      return {};
    case Path::kUnixSocket:
      if (!unix_socket) return fail(Code::kInvalidArgument, "path unix needs a unix:PATH address");
      return {};
    case Path::kSharedMemory:
    case Path::kAuto:
      break;
  }
  const bool reachable = unix_socket || find_local_socket();
  auto attached = reachable ? Attachment::open(pool_->options())
                            : fail(Code::kUnsupported, "shared memory needs a node on this host");
  if (attached) {
    attachment_ = std::move(*attached);
    path_ = Path::kSharedMemory;
    return {};
  }
  if (options_.path == Path::kSharedMemory) return fail(attached.error());
  return {};
}

// A node reached over loopback TCP tells its Unix socket; if what answers there is the same
// incarnation, the rest goes that way.
bool ClientCore::find_local_socket() {
  if (!pool_->options().address.is_loopback()) return false;
  InfoOp info(*this);
  if (!run(info, {}) || info.socket().empty()) return false;
  auto local = env::SocketAddress::parse("unix:" + info.socket());
  if (!local) return false;
  rpc::ChannelOptions channel = pool_->options();
  channel.address = std::move(*local);
  auto pool = std::make_unique<Pool>(std::move(channel),
                                     std::max<std::size_t>(1, options_.connections_max));
  const auto there = pool->acquire(deadline_of({}));
  const auto here = pool_->acquire(deadline_of({}));
  if (!there || !here || (*there)->channel->epoch() != (*here)->channel->epoch()) return false;
  InfoOp again(*this);
  pool_.swap(pool);
  if (run(again, {}) && again.info().id == info.info().id) return true;
  pool_.swap(pool);
  return false;
}

std::shared_ptr<Attachment> ClientCore::attachment(env::Nanos deadline) {
  if (path_ != Path::kSharedMemory) return {};
  {
    const std::lock_guard lock(attach_mutex_);
    if (attachment_ && attachment_->current()) return attachment_;
    // Nobody waits for the one that attaches: its deadline may be later than theirs.
    if (attaching_) return {};
    attaching_ = true;
    // The node went away or was replaced: nothing that was learnt about it holds.
    cache_.clear();
    disks_.clear();
    attachment_.reset();
  }
  auto attached = Attachment::open(pool_->options_until(deadline));
  const std::lock_guard lock(attach_mutex_);
  attaching_ = false;
  if (!attached) return {};
  attachment_ = std::move(*attached);
  return attachment_;
}

void ClientCore::forget_dead_node() {
  pool_->drop_closed();
  const std::lock_guard lock(attach_mutex_);
  if (!attachment_ || attachment_->node_alive()) return;
  cache_.clear();
  disks_.clear();
  attachment_.reset();
}

std::uint64_t ClientCore::hash(std::string_view key) const noexcept {
  return hash64(key, seed_);
}

// ---- running operations ----

env::Nanos ClientCore::deadline_of(const CallOptions& options) const noexcept {
  const auto timeout = options.timeout.count() > 0 ? options.timeout : options_.timeout;
  return env::monotonic_now() + timeout.count() * env::kMilli;
}

Result<std::shared_ptr<Lane>> ClientCore::lane_for(Op& op) {
  return op.pinned_lane() ? pin_lane(op.deadline_) : pool_->acquire(op.deadline_);
}

Result<void> ClientCore::launch(Op& op, bool waited) {
  LARDER_ASSIGN(std::shared_ptr<Lane> lane, lane_for(op));
  LARDER_ASSIGN(Question question, op.ask(*lane));
  wire::FrameHeader header;
  header.op = question.op;
  header.payload_bytes = question.payload_bytes;
  header.trace_id = op.trace_id_;
  header.intent = static_cast<std::uint8_t>(op.purpose_.intent);
  header.traffic_class = static_cast<std::uint8_t>(op.purpose_.traffic_class);
  header.timeout_ms = static_cast<std::uint32_t>(
      std::max<env::Nanos>(1, (op.deadline_ - env::monotonic_now()) / env::kMilli));
  op.lane_ = lane;
  // Sent without a waiter, the operation may be complete and gone when this returns.
  lane->channel->send(op, header, std::move(question.frame), question.payload, op.deadline_,
                      waited ? rpc::Attendance::kWaited : rpc::Attendance::kPumped);
  if (waited) lane->channel->wait(op);
  return {};
}

// After a round: an error that is final, or none.
std::optional<Error> ClientCore::judge(Op& op) {
  if (!op.error_) return std::nullopt;
  const Error error = *std::exchange(op.error_, std::nullopt);
  if (error.code() == Code::kUnavailable) forget_dead_node();
  const bool again = error.code() == Code::kUnavailable && op.repeatable() && !op.retried_;
  if (!again) return error;
  op.retried_ = true;
  return std::nullopt;
}

void ClientCore::set_up(Op& op, const CallOptions& options) const {
  op.deadline_ = deadline_of(options);
  op.trace_id_ = options.trace_id;
  const Intent intent = options.intent != Intent::kUnknown ? options.intent : op.own_intent();
  op.purpose_ = qos::purpose_of(static_cast<std::uint8_t>(intent),
                                static_cast<std::uint8_t>(options.traffic_class));
}

Result<void> ClientCore::run(Op& op, const CallOptions& options) {
  set_up(op, options);
  Result<void> ended = take_to_end(op);
  op.on_end(ended ? nullptr : &ended.error());
  return ended;
}

Result<void> ClientCore::take_to_end(Op& op) {
  while (true) {
    LARDER_ASSIGN(const bool complete, op.local_pass());
    if (complete) return {};
    LARDER_TRY(launch(op, true));
    if (const std::optional<Error> error = judge(op)) return fail(*error);
  }
}

void ClientCore::start(std::unique_ptr<Op> op, const CallOptions& options) {
  set_up(*op, options);
  op->async_ = true;
  go_on(std::move(op));
}

void ClientCore::go_on(std::unique_ptr<Op> op) {
  if (const std::optional<Error> error = judge(*op)) return op->conclude(&*error);
  const Result<bool> complete = op->local_pass();
  if (!complete) return op->conclude(&complete.error());
  if (*complete) return op->conclude(nullptr);
  Op* flying = op.release();
  if (const Result<void> launched = launch(*flying, false); !launched) {
    op.reset(flying);  // it was not sent
    op->conclude(&launched.error());
  }
}

// ---- pins, windows, buffers ----

Result<std::shared_ptr<Lane>> ClientCore::pin_lane(env::Nanos deadline) {
  {
    const std::lock_guard lock(pins_mutex_);
    if (pin_lane_ && !pin_lane_->channel->broken()) return pin_lane_;
  }
  // Connecting takes time, and others must not wait for it beyond their deadlines.
  LARDER_ASSIGN(std::shared_ptr<Lane> lane, pool_->acquire(deadline));
  const std::lock_guard lock(pins_mutex_);
  if (!pin_lane_ || pin_lane_->channel->broken()) pin_lane_ = std::move(lane);
  return pin_lane_;
}

Result<Window*> ClientCore::window_of(Lane& lane, env::Nanos deadline) {
  {
    const std::lock_guard lock(lane.window_mutex);
    if (lane.window) return lane.window.get();
  }
  LARDER_ASSIGN(std::unique_ptr<Window> window,
                Window::create(pool_->options_until(deadline),
                               std::max(options_.window_bytes, kWindowBytesMin)));
  const std::lock_guard lock(lane.window_mutex);
  if (!lane.window) lane.window = std::move(window);
  return lane.window.get();
}

std::shared_ptr<Window> ClientCore::shared_buffer_of(ConstBytes range) {
  const std::lock_guard lock(buffers_mutex_);
  for (const auto& weak : shared_buffers_) {
    std::shared_ptr<Window> buffer = weak.lock();
    if (!buffer || range.data() < buffer->data()) continue;
    const auto at = static_cast<std::uint64_t>(range.data() - buffer->data());
    if (at <= buffer->data_bytes() && range.size() <= buffer->data_bytes() - at) return buffer;
  }
  return {};
}

void ClientCore::add_shared_buffer(const std::shared_ptr<Window>& buffer) {
  const std::lock_guard lock(buffers_mutex_);
  std::erase_if(shared_buffers_, [](const auto& weak) { return weak.expired(); });
  shared_buffers_.push_back(buffer);
}

Result<void> ClientCore::register_buffer(MutableBytes range) {
  if (range.empty()) return fail(Code::kInvalidArgument, "register_buffer: the range is empty");
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(range.data()) + range.size();
  // Faults every page in for writing, and says so when one is not mapped or not writable. An empty
  // range only tells whether this kernel can (5.14 and later).
  void* const start = reinterpret_cast<void*>(begin);
  const bool can_populate = ::madvise(start, 0, MADV_POPULATE_WRITE) == 0;
  if (can_populate && ::madvise(start, end - begin, MADV_POPULATE_WRITE) != 0) {
    return fail(Code::kInvalidArgument,
                "register_buffer: the range is not mapped and writable: " + env::errno_text(errno));
  }
  const std::lock_guard lock(buffers_mutex_);
  if (registered_.emplace(range.data(), range.size()).second) {
    disks_.add_buffer(range);
    return {};
  }
  return fail(Code::kConflict, "register_buffer: this range is registered already");
}

Result<void> ClientCore::unregister_buffer(MutableBytes range) {
  const std::lock_guard lock(buffers_mutex_);
  if (registered_.erase({range.data(), range.size()}) != 0) {
    disks_.remove_buffer(range);
    return {};
  }
  return fail(Code::kInvalidArgument, "unregister_buffer: no such range is registered");
}

}  // namespace larder::client
