// SPDX-License-Identifier: Apache-2.0
#include "transfer/core.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/units.h"
#include "env/clock.h"
#include "env/paths.h"
#include "env/random.h"
#include "env/thread.h"
#include "fileio/file.h"
#include "obs/log.h"
#include "transfer/copy_transport.h"
#include "transfer/explain.h"
#include "transfer/shared_memory.h"
#include "transfer/stager.h"

namespace larder {

using namespace transfer;

namespace {

constexpr std::string_view kFilePrefix = "file://";

Result<void> check(const TransferConfig& config) {
  if (config.high_slice_bytes == 0 || config.low_slice_bytes == 0) {
    return fail(Code::kInvalidArgument, "transfer: a slice limit of 0 bytes");
  }
  if (config.copy_workers > 64 || config.file_workers == 0 || config.file_workers > 64) {
    return fail(Code::kInvalidArgument,
                "transfer: copy_workers is 0 to 64 and file_workers 1 to 64");
  }
  if (config.file_depth == 0 || config.file_depth > 4096) {
    return fail(Code::kInvalidArgument, "transfer: file_depth is 1 to 4096");
  }
  if (config.batches_max == 0 || config.batches_max > (1U << 24)) {
    return fail(Code::kInvalidArgument, "transfer: batches_max is 1 to 16777216");
  }
  if (config.streams < 2 || config.streams > 16 || config.streams % 2 != 0) {
    return fail(Code::kInvalidArgument, "transfer: streams is 2 to 16, and even");
  }
  return {};
}

// Of the built-in rules those that the installed transports can serve. A policy that somebody wrote
// is taken whole or not at all.
Result<Policy> default_policy(std::span<const InstalledTransport> installed) {
  const Policy defaults = Policy::defaults();
  std::vector<Rule> rules;
  for (const Rule& rule : defaults.rules()) {
    const bool served =
        std::any_of(rule.transports.begin(), rule.transports.end(), [&](TransportType type) {
          return std::any_of(installed.begin(), installed.end(),
                             [&](const InstalledTransport& have) { return have.type == type; });
        });
    if (served) rules.push_back(rule);
  }
  return Policy::create(std::move(rules));
}

}  // namespace

Result<std::unique_ptr<TransferEngine::Core>> TransferEngine::Core::create(TransferConfig config) {
  LARDER_TRY(check(config));
  std::vector<TransportType> wanted;
  for (const std::string& name : config.transports) {
    LARDER_ASSIGN(const TransportType type, parse_transport(name));
    if (std::find(wanted.begin(), wanted.end(), type) != wanted.end()) {
      return fail(Code::kInvalidArgument, "transfer: transport '" + name + "' is named twice");
    }
    wanted.push_back(type);
  }
  std::unique_ptr<Core> core(new Core(std::move(config)));
  const TransferConfig& with = core->config_;
  LARDER_ASSIGN(auto platforms, platform::PlatformSet::create(with.platforms));
  core->platforms_ = std::make_unique<platform::PlatformSet>(std::move(platforms));
  core->telemetry_ = std::make_unique<qos::Telemetry>(with.metrics);
  core->batches_ = std::make_unique<BatchTable>(with.batches_max);
  core->dispatcher_ = std::make_unique<Dispatcher>(
      DispatcherOptions{.slices = {with.high_slice_bytes, with.low_slice_bytes}}, *core->telemetry_,
      core->breakers_);
  if (!with.token_file.empty()) {
    LARDER_ASSIGN(core->token_, env::read_token_file(with.token_file));
  }
  LARDER_TRY(core->make_transports(wanted));
  std::vector<InstalledTransport> installed;
  std::vector<Transport*> transports;
  for (const auto& transport : core->transports_) {
    installed.push_back({transport->type(), transport->abilities()});
    transports.push_back(transport.get());
  }
  LARDER_ASSIGN(Policy policy, with.policy.empty()
                                   ? default_policy(installed)
                                   : Policy::parse(with.policy, with.policy_source));
  LARDER_ASSIGN(Selector selector, Selector::create(std::move(policy), installed));
  core->selector_ = std::make_unique<Selector>(std::move(selector));
  std::vector<Transport*> stagers;
  for (const auto& stager : core->stagers_) stagers.push_back(stager.get());
  core->dispatcher_->install(*core->selector_, std::move(transports), std::move(stagers));
  core->submitter_ = std::make_unique<Submitter>(
      SubmitterParts{core->memory_, core->segments_, *core->selector_, core->breakers_,
                     *core->dispatcher_, *core->telemetry_},
      with.quarantine_bytes_max);
  LARDER_TRY(core->export_gauges());
  LARDER_TRY(core->listen());
  return core;
}

Result<void> TransferEngine::Core::make_transports(const std::vector<TransportType>& wanted) {
  const auto& platforms = platforms_->all();
  const bool devices = std::any_of(platforms.begin(), platforms.end(), [](const auto& platform) {
    return is_device_memory(platform->type());
  });
  for (const TransportType type : wanted) {
    LARDER_ASSIGN(auto transport, make_transport(type, config_.copy_workers, *dispatcher_));
    transports_.push_back(std::move(transport));
    if (devices) LARDER_TRY(make_stager(type));
  }
  if (!transports_.empty()) return {};
  return fail(Code::kInvalidArgument, "transfer: no transport is configured");
}

Result<std::unique_ptr<Transport>> TransferEngine::Core::make_transport(TransportType type,
                                                                        unsigned copy_workers,
                                                                        PieceSink& sink) {
  if (type == TransportType::kMemcpy || type == TransportType::kShm) {
    return std::make_unique<CopyTransport>(type, copy_workers, sink);
  }
  if (type == TransportType::kTcp) {
    auto tcp = std::make_unique<TcpTransport>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(config_.peer_timeout).count(), sink);
    tcps_.push_back(tcp.get());
    return tcp;
  }
  if (type == TransportType::kIoUring) {
    // A stager's buffers are in no table.
    const bool own = &sink == dispatcher_.get();
    const FileTransportOptions options{config_.file_workers, config_.file_depth, config_.io_uring,
                                       own ? &memory_ : nullptr};
    LARDER_ASSIGN(auto transport, FileTransport::create(options, sink));
    if (own) files_ = transport.get();
    return transport;
  }
  return fail(Code::kUnsupported,
              fmt::format("transfer: this build has no transport '{}'; leave it out of transports",
                          transport_name(type)));
}

// With a transport of its own behind it, whose pieces end at the stager. Nobody who waits helps
// that one, so it has a worker.
Result<void> TransferEngine::Core::make_stager(TransportType type) {
  LARDER_ASSIGN(auto stager, Stager::create({}, *platforms_, *dispatcher_));
  LARDER_ASSIGN(auto inner, make_transport(type, 1, stager->inner_sink()));
  stager->set_inner(std::move(inner));
  stagers_.push_back(std::move(stager));
  return {};
}

Result<void> TransferEngine::Core::export_gauges() {
  const auto add = [&](std::string_view name, std::string_view help,
                       std::function<double()> read) -> Result<void> {
    LARDER_ASSIGN(auto handle, telemetry_->registry().callback(name, help, std::move(read)));
    gauges_.push_back(std::move(handle));
    return {};
  };
  LARDER_TRY(add("larder_transfer_quarantined_bytes",
                 "Memory lent to requests that were given up and are not quiescent.",
                 [this] { return static_cast<double>(dispatcher_->quarantined_bytes()); }));
  LARDER_TRY(add("larder_transfer_jobs", "Jobs in flight.",
                 [this] { return static_cast<double>(dispatcher_->jobs()); }));
  LARDER_TRY(add("larder_transfer_batches", "Batches that have an id.",
                 [this] { return static_cast<double>(batches_->live()); }));
  LARDER_TRY(add("larder_transfer_batches_kept", "Freed batches that work in flight still keeps.",
                 [this] { return static_cast<double>(batches_->kept()); }));
  LARDER_TRY(add("larder_transfer_breakers", "Targets and transports that have failed lately.",
                 [this] { return static_cast<double>(breakers_.open()); }));
  if (files_ != nullptr) {
    LARDER_TRY(add("larder_transfer_file_pinned_bytes",
                   "Registered memory that the rings of the file transport have pinned.",
                   [this] { return static_cast<double>(files_->pinned_bytes()); }));
    LARDER_TRY(add("larder_transfer_file_pins_refused_total",
                   "Parts of memory that the kernel would not pin: see the memory-lock limit.",
                   [this] { return static_cast<double>(files_->pins_refused()); }));
  }
  return add("larder_transfer_stray_ends_total",
             "Ends that a transport reported of pieces that were over.",
             [this] { return static_cast<double>(dispatcher_->stray_ends()); });
}

Result<void> TransferEngine::Core::listen() {
  if (config_.listen.empty()) return {};
  rpc::ServerOptions options;
  PeerServiceOptions service;
  for (const std::string& text : config_.listen) {
    LARDER_ASSIGN(auto address, env::SocketAddress::parse(text));
    if (!address.is_loopback() && token_.empty() && !config_.insecure) {
      return fail(Code::kPermissionDenied,
                  "transfer: '" + text +
                      "' is open to other machines; give a token_file, or say "
                      "insecure");
    }
    if (address.kind == env::SocketAddress::Kind::kUnix) service.socket = address.path;
    options.listen.push_back(std::move(address));
  }
  if (service.socket.empty()) {  // peers on this machine get at the memory through it
    LARDER_ASSIGN(auto directory, env::TempDirectory::create("larder-transfer"));
    service.socket = directory.file("engine.sock");
    socket_directory_.emplace(std::move(directory));
    LARDER_ASSIGN(auto address, env::SocketAddress::parse("unix:" + service.socket));
    options.listen.push_back(std::move(address));
  }
  while (service.incarnation <= 1) service.incarnation = env::random_u64();
  options.epoch = service.incarnation;
  options.token = token_;
  service_ =
      std::make_unique<PeerService>(memory_, mailbox_, std::move(service), &telemetry_->registry());
  LARDER_ASSIGN(server_, rpc::Server::create(options, *service_, env::system_clock()));
  return export_unmanaged();
}

Result<void> TransferEngine::Core::export_unmanaged() {
  const rpc::ServerCounters& rpc = server_->counters();
  LARDER_ASSIGN(auto handles, service_->books().export_unmanaged_payload("peers", rpc.payload_in,
                                                                         rpc.payload_out));
  for (auto& handle : handles) gauges_.push_back(std::move(handle));
  return {};
}

bool TransferEngine::Core::drain() {
  const env::Nanos deadline =
      env::monotonic_now() +
      std::chrono::duration_cast<std::chrono::nanoseconds>(config_.drain_timeout).count();
  if (server_ != nullptr) server_->stop(deadline);
  dispatcher_->cancel_all();
  for (const auto& [address, peer] : peers_) peer->shut_down();
  const bool quiet = dispatcher_->drain_all(deadline);
  gauges_.clear();
  if (quiet) return true;
  telemetry_->detach();
  obs::log(obs::Level::kError, "transfer_not_quiescent",
           {{"jobs", dispatcher_->jobs()},
            {"bytes", dispatcher_->quarantined_bytes()},
            {"hint", "the memory of these transfers is kept for good"}});
  return false;
}

// ---- memory ----

Result<void> TransferEngine::Core::register_memory(std::span<const MemoryRange> ranges) {
  if (ranges.empty()) return fail(Code::kInvalidArgument, "register memory: no range is given");
  std::vector<std::unique_ptr<MemoryRangeRecord>> records;
  for (const MemoryRange& range : ranges) {
    if (range.address == nullptr || range.bytes == 0) {
      return fail(Code::kInvalidArgument, "register memory: an empty range");
    }
    auto record = std::make_unique<MemoryRangeRecord>();
    record->base = static_cast<std::byte*>(range.address);
    record->bytes = range.bytes;
    LARDER_ASSIGN(const Location declared, platform::parse_location(range.location));
    LARDER_ASSIGN(record->location, platforms_->check(range.address, range.bytes, declared));
    records.push_back(std::move(record));
  }
  return memory_.add(std::move(records));
}

Result<void> TransferEngine::Core::unregister_memory(std::span<void* const> addresses) {
  LARDER_ASSIGN(const auto removed, memory_.remove(addresses));
  if (files_ == nullptr) return {};
  for (const auto& range : removed) files_->forget_memory({range->base, range->bytes});
  return {};
}

Result<void> TransferEngine::Core::allocate_on(const Location& where, std::uint64_t bytes,
                                               MemoryRangeRecord& record) {
  platform::Platform* const platform = platforms_->of(where.type);
  if (platform == nullptr) {
    return fail(Code::kUnsupported,
                fmt::format("allocate memory: no platform for '{}' is configured (platforms)",
                            memory_type_name(where.type)));
  }
  LARDER_ASSIGN(auto memory, platform->allocate(bytes, where.index));
  record.base = memory.data();
  record.bytes = memory.bytes();
  record.location = memory.location();
  record.owner = std::make_shared<platform::Allocation>(std::move(memory));
  return {};
}

// Host memory is a memfd, so that peers on this machine can map it.
Result<void*> TransferEngine::Core::allocate_memory(std::uint64_t bytes,
                                                    std::string_view location) {
  LARDER_ASSIGN(Location where, platform::parse_location(location));
  if (where.type == MemoryType::kUnknown) where = {MemoryType::kCpu, -1};
  auto record = std::make_unique<MemoryRangeRecord>();
  if (where.type == MemoryType::kCpu && where.index <= 0) {
    LARDER_ASSIGN(std::shared_ptr<SharedMemory> memory, SharedMemory::create(bytes));
    record->base = memory->data();
    record->bytes = memory->bytes();
    record->shared_fd = memory->fd();
    record->shared_inode = memory->inode();
    LARDER_ASSIGN(record->location, platforms_->locate(record->base, record->bytes));
    record->owner = std::move(memory);
  } else {
    LARDER_TRY(allocate_on(where, bytes, *record));
  }
  void* const address = record->base;
  std::vector<std::unique_ptr<MemoryRangeRecord>> records;
  records.push_back(std::move(record));
  LARDER_TRY(memory_.add(std::move(records)));
  return address;
}

// ---- segments ----

Result<SegmentId> TransferEngine::Core::open_segment(std::string_view name) {
  if (name.empty() || name == "local") return kLocalSegment;
  if (name.starts_with(kFilePrefix)) {
    return open_file(name, std::string(name.substr(kFilePrefix.size())));
  }
  return open_peer(name);
}

Result<SegmentId> TransferEngine::Core::open_peer(std::string_view name) {
  auto address = env::SocketAddress::parse(name);
  if (!address) {
    return fail(Code::kInvalidArgument,
                fmt::format("open segment: {} is not 'local', file:///path, tcp:HOST:PORT or "
                            "unix:PATH",
                            base::quoted(name)));
  }
  const std::string key = address->to_string();
  PeerOptions options;
  options.channel.address = std::move(*address);
  options.channel.token = token_;
  options.streams = config_.streams;
  options.map_memory = dispatcher_->transport(TransportType::kShm) != nullptr;
  Segment segment;
  segment.name = key;
  const std::lock_guard lock(peers_mutex_);
  drop_unused_peers();
  std::shared_ptr<Peer>& peer = peers_[key];
  if (peer == nullptr) {
    auto opened = Peer::open(options);
    if (!opened) {
      peers_.erase(key);
      return fail(opened.error());
    }
    peer = std::move(*opened);
  }
  segment.peer = peer;
  segment.same_machine = peer->current()->same_machine;
  return segments_.add(std::move(segment));
}

// Those that no segment and no transfer holds. Under the lock; not on a thread of a peer.
void TransferEngine::Core::drop_unused_peers() {
  for (auto at = peers_.begin(); at != peers_.end();) {
    const auto know = std::count_if(tcps_.begin(), tcps_.end(), [&](const TcpTransport* tcp) {
      return tcp->knows(*at->second);
    });
    if (at->second.use_count() > 1 + know) {
      ++at;
      continue;
    }
    for (TcpTransport* const tcp : tcps_) tcp->forget(at->second);
    at = peers_.erase(at);
  }
}

Result<std::shared_ptr<Peer>> TransferEngine::Core::peer_of(SegmentId id) {
  const auto segment = segments_.find(id);
  if (segment == nullptr) return fail(Code::kNotFound, "the segment is not open (any more)");
  if (segment->peer != nullptr) return segment->peer;
  return fail(Code::kInvalidArgument, segment->name + " is no peer");
}

Result<void> TransferEngine::Core::notify(SegmentId segment, const Notification& notification) {
  LARDER_TRY(check_notification(notification));
  if (segment == kLocalSegment) return mailbox_.put(notification);
  LARDER_ASSIGN(const auto peer, peer_of(segment));
  return peer->notify(notification);
}

std::vector<std::string> TransferEngine::Core::addresses() const {
  std::vector<std::string> texts;
  if (server_ == nullptr) return texts;
  for (const auto& address : server_->addresses()) texts.push_back(address.to_string());
  return texts;
}

Result<SegmentId> TransferEngine::Core::open_file(std::string_view name, const std::string& path) {
  if (!path.starts_with('/')) {
    return fail(Code::kInvalidArgument,
                "open segment: file:// takes an absolute path, as in "
                "file:///data/blocks");
  }
  LARDER_ASSIGN(auto file, FileTransport::open(path));
  Segment segment;
  segment.type = SegmentType::kFile;
  segment.name = std::string(name);
  segment.same_machine = true;
  segment.file = std::move(file);
  return segments_.add(std::move(segment));
}

Result<void> TransferEngine::Core::close_segment(SegmentId segment) {
  LARDER_TRY(segments_.remove(segment));
  breakers_.forget(segment);
  return {};
}

Result<SegmentInfo> TransferEngine::Core::segment_info(SegmentId id) {
  const auto segment = segments_.find(id);
  if (segment == nullptr) return fail(Code::kNotFound, "segment info: it is not open (any more)");
  SegmentInfo info;
  info.type = segment->type;
  info.name = segment->name;
  info.same_process = segment->same_process;
  info.same_machine = segment->same_machine;
  if (segment->peer != nullptr) {
    const auto description = segment->peer->renewed(true);
    info.incarnation = description->incarnation;
    for (const RemoteBuffer& buffer : description->buffers) {
      info.buffers.push_back({buffer.address, buffer.bytes, buffer.location});
    }
    return info;
  }
  if (segment->file != nullptr) {
    LARDER_ASSIGN(info.bytes, segment->file->size());
    return info;
  }
  const MemoryTable::Reader reader(memory_);
  for (const auto& range : reader.all()) {
    info.buffers.push_back(
        {reinterpret_cast<std::uintptr_t>(range->base), range->bytes, range->location});
  }
  return info;
}

// ---- transfers ----

Result<BatchRef> TransferEngine::Core::batch(BatchId id) {
  BatchRef found = batches_->find(id);
  if (!found) return fail(Code::kNotFound, "no such batch (any more)");
  return found;
}

Result<BatchRef> TransferEngine::Core::batch_with(BatchId id, std::uint32_t task) {
  LARDER_ASSIGN(BatchRef found, batch(id));
  if (task < found->tasks()) return found;
  return fail(Code::kNotFound,
              fmt::format("task {} of a batch with {} tasks", task, found->tasks()));
}

Result<std::vector<SubmitResult>> TransferEngine::Core::submit(
    BatchId id, std::span<const TransferRequest> requests, const NotifyAfter* after) {
  LARDER_ASSIGN(const BatchRef found, batch(id));
  if (after == nullptr) return submitter_->submit(found, requests, {});
  LARDER_TRY(check_notification(after->notification));
  if (after->segment == kLocalSegment) {
    return submitter_->submit(found, requests, [this, what = after->notification] {
      static_cast<void>(mailbox_.put(what));
    });
  }
  LARDER_ASSIGN(auto peer, peer_of(after->segment));
  return submitter_->submit(found, requests, [this, peer, what = after->notification] {
    peer->notify_later(what, [this](const Result<void>& how) {
      if (!how) telemetry_->notification_lost(how.error());
    });
  });
}

namespace {

// Waiting for many bytes takes a while: to sleep through it saves little, and the wake-up is paid
// on top. A nanosecond for each byte is about what a slow path takes.
env::Nanos spin_for(Batch& batch) {
  constexpr env::Nanos kSpin = 50 * env::kMicro;
  constexpr std::uint64_t kMoreMax = 2 * env::kMilli;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < batch.tasks() && bytes < kMoreMax; ++i) {
    bytes += batch.task(i).record.length;
  }
  return kSpin + static_cast<env::Nanos>(std::min(bytes, kMoreMax));
}

}  // namespace

// Moves bytes itself while there are any to move; spins for as long as a wake-up would take, and
// then sleeps.
Result<BatchStatus> TransferEngine::Core::wait(BatchId id, std::chrono::nanoseconds timeout) {
  constexpr env::Nanos kSleepMax = 3600 * env::kSecond;
  constexpr int kPollsPerYield = 32;
  LARDER_ASSIGN(const BatchRef found, batch(id));
  if (found->idle()) return found->status();
  const env::Nanos start = env::monotonic_now();
  const env::Nanos deadline = start + std::clamp<env::Nanos>(timeout.count(), 0, kSleepMax);
  const env::Nanos spin = spin_for(*found.get());
  const env::SpinTicket ticket;
  env::Nanos now = start;
  env::Nanos spin_end = start + spin;
  for (int polls = 1; !found->idle() && now < deadline; ++polls) {
    const bool helped = std::any_of(transports_.begin(), transports_.end(),
                                    [](const auto& transport) { return transport->help(); });
    now = env::monotonic_now();
    if (helped) {
      spin_end = now + spin;
      continue;
    }
    const bool crowded = polls % kPollsPerYield == 0 && env::yield_core();
    if (!crowded && now <= spin_end && ticket.granted() && worth_polling()) continue;
    if (!doze(*found.get(), deadline) && rest_until_idle(*found.get(), deadline)) break;
    now = env::monotonic_now();
  }
  // Those that sleep had left what is in flight to this thread.
  if (sleepers_.load() > 0) rest();
  const BatchStatus status = found->status();
  if (status.idle()) return status;
  return fail(Code::kDeadlineExceeded,
              fmt::format("wait: {} tasks have no outcome yet and the memory of {} is still lent; "
                          "they go on",
                          status.pending, status.unquiet));
}

// Of what goes on in other threads alone (files, device memory) polling would only take the core.
bool TransferEngine::Core::worth_polling() const {
  return std::any_of(transports_.begin(), transports_.end(),
                     [](const auto& transport) { return transport->worth_polling(); });
}

void TransferEngine::Core::rest() {
  for (const auto& transport : transports_) transport->rest();
}

// Where the answers arrive, if that is possible. False: it is not, and this did not sleep.
bool TransferEngine::Core::doze(Batch& batch, std::int64_t deadline) {
  thread_local const env::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid() || !worth_polling()) return false;
  std::uint64_t old = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake.get(), &old, sizeof(old));
  if (!batch.wake_by(wake.get())) return true;
  // This thread does not come back to those before it is told.
  for (const auto& transport : transports_) {
    if (transport->type() != TransportType::kTcp) transport->rest();
  }
  const bool dozed =
      std::any_of(transports_.begin(), transports_.end(),
                  [&](const auto& transport) { return transport->doze(wake.get(), deadline); });
  batch.wake_no_more(wake.get());
  return dozed;
}

// True: the batch is idle.
bool TransferEngine::Core::rest_until_idle(Batch& batch, std::int64_t deadline) {
  sleepers_.fetch_add(1);
  rest();
  const bool over = batch.wait_idle(deadline);
  sleepers_.fetch_sub(1);
  return over;
}

void TransferEngine::Core::look(const BatchRef& batch) {
  if (batch->idle()) return;
  for (const auto& transport : transports_) transport->look();
}

Result<void> TransferEngine::Core::cancel(BatchId id, std::uint32_t task) {
  LARDER_ASSIGN(const BatchRef found, batch_with(id, task));
  // One that is over already is left as it is: the caller sees how it ended.
  static_cast<void>(dispatcher_->give_up(found->task(task), Outcome::kCancelled,
                                         Error(Code::kCancelled, "cancelled by its owner")));
  return {};
}

Result<void> TransferEngine::Core::free_batch(BatchId id) {
  LARDER_ASSIGN(const BatchRef freed, batches_->free(id));
  const Error error(Code::kCancelled, "its batch was freed");
  for (std::uint32_t i = 0; i < freed->tasks() && !freed->idle(); ++i) {
    static_cast<void>(dispatcher_->give_up(freed->task(i), Outcome::kCancelled, error));
  }
  return {};
}

Result<std::string> TransferEngine::Core::explain(BatchId id, std::uint32_t task) {
  LARDER_ASSIGN(const BatchRef found, batch_with(id, task));
  return explain_task(found->task(task), *selector_);
}

}  // namespace larder
