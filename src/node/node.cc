// SPDX-License-Identifier: Apache-2.0
#include "node/node.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <utility>

#include "base/checksum.h"
#include "env/paths.h"
#include "env/socket.h"
#include "env/thread.h"
#include "larder/client.h"
#include "meta/backend.h"
#include "node/cold_service.h"
#include "node/request_service.h"
#include "node/store_core.h"
#include "obs/http.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "rpc/server.h"

namespace larder::node {
namespace {

constexpr env::Nanos kHotTickEvery = 20 * env::kMilli;     // watermark checks and read hints
constexpr env::Nanos kLeaseTickEvery = 100 * env::kMilli;  // how late a pin's lease may end
constexpr unsigned kReactorsMax = 8;

Result<tier::PageMode> page_mode(const std::string& text) {
  if (text == "auto") return tier::PageMode::kAuto;
  if (text == "4k") return tier::PageMode::k4K;
  if (text == "thp") return tier::PageMode::kThp;
  if (text == "2m") return tier::PageMode::kHuge2M;
  return fail(Code::kInvalidArgument, "hot.pages: '" + text + "' is not auto, 4k, thp or 2m");
}

// Of this host and this socket: nodes of two hosts with equal sockets are two.
std::string id_of(const std::string& socket) {
  char host[HOST_NAME_MAX + 1] = {};
  static_cast<void>(::gethostname(host, sizeof host - 1));
  char name[32];
  std::snprintf(name, sizeof(name), "node-%08x",
                static_cast<unsigned>(hash64(socket, hash64(host))));
  return name;
}

meta::Micros micros(std::chrono::nanoseconds duration) {
  return duration.count() / 1000;
}

}  // namespace

struct Node::Impl {
  NodeOptions options;
  obs::Registry registry;
  StoreCore core;
  std::vector<obs::CallbackHandle> gauges;
  std::shared_ptr<meta::MetadataBackend> backend;
  meta::Lease lease;
  std::unique_ptr<RequestService> service;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<obs::HttpServer> http;
  std::unique_ptr<env::Executor> executor;
  std::unique_ptr<ColdService> cold;  // null: no disks
  bool stopped = false;

  Result<void> open_store();
  Result<void> open_cold();
  Result<void> join_cluster();
  Result<void> start_server();
  Result<void> start_http();
  Result<void> add_gauges();
  Result<void> add_gauge(const char* name, const char* help, std::function<double()> read);
  Result<void> add_unmanaged();
  void start_ticks();
  void hot_tick();
  env::Nanos heartbeat();
};

Result<void> Node::Impl::open_store() {
  if (options.socket.empty()) options.socket = default_socket_path();
  LARDER_TRY(env::make_private_parent(options.socket));
  LARDER_ASSIGN(tier::Fence fence, tier::Fence::take(options.socket));
  core.fence = std::make_unique<tier::Fence>(std::move(fence));
  core.socket = options.socket;
  core.clock = &env::system_clock();
  core.share_memory = options.share_memory;
  tier::HotOptions hot;
  hot.capacity = options.hot_capacity;
  LARDER_ASSIGN(hot.pages, page_mode(options.hot_pages));
  hot.populate = options.hot_populate;
  hot.high_watermark = options.hot_high_watermark;
  hot.low_watermark = options.hot_low_watermark;
  hot.objects_max = options.hot_objects_max;
  LARDER_ASSIGN(core.hot, tier::HotStore::create(hot));
  LARDER_ASSIGN(const std::vector<tier::DiskSpec> disks, cold_disks(options.cold));
  // Versions must grow past what is on the disks, also where the fence was lost with a restart of
  // the machine.
  LARDER_ASSIGN(const std::uint64_t epoch, ColdService::last_epoch(disks));
  core.fence->raise_to(epoch + 1);
  core.routes = std::make_unique<route::RouteTable>(core.fence->epoch());
  core.hot->set_authority(*core.routes);
  LARDER_ASSIGN(core.metrics, register_store_metrics(registry));
  core.transfers = std::make_unique<qos::ManagedTransfers>(&registry);
  return {};
}

Result<void> Node::Impl::open_cold() {
  ColdServiceOptions cold_service;
  LARDER_ASSIGN(cold_service.disks, cold_disks(options.cold));
  if (cold_service.disks.empty()) return {};
  LARDER_ASSIGN(cold_service.tier, cold_options(options.cold));
  cold_service.tier.metrics = &registry;
  LARDER_ASSIGN(cold, ColdService::create(cold_service, core, registry));
  return cold->start(backend, {lease.stable_id, lease.epoch});
}

Result<void> Node::Impl::join_cluster() {
  auto opened = meta::open_backend(options.meta);
  if (!opened) return fail(opened.error().code(), "node.meta: " + opened.error().message());
  backend = std::move(*opened);
  lease.stable_id = options.id.empty() ? id_of(options.socket) : options.id;
  lease.epoch = core.fence->epoch();
  lease.state = meta::NodeState::kActive;
  lease.capacity_bytes = core.hot->capacity();
  // The fence already counts this node's incarnations on this host, across crashes.
  LARDER_ASSIGN(lease, backend->upsert_lease(lease, env::system_clock().wall() / env::kMicro,
                                             micros(options.lease)));
  core.id = lease.stable_id + ":" + std::to_string(lease.epoch);
  return {};
}

Result<void> Node::Impl::start_server() {
  rpc::ServerOptions server_options;
  server_options.epoch = core.fence->epoch();
  server_options.spin = options.spin.count();
  server_options.connections_max = options.connections_max;
  server_options.handshake_timeout = options.handshake_timeout.count();
  server_options.stall_timeout = options.stall_timeout.count();
  server_options.reactors = options.reactors != 0
                                ? options.reactors
                                : std::clamp(env::core_count() / 2, 1U, kReactorsMax);
  if (!options.token_file.empty()) {
    LARDER_ASSIGN(server_options.token, env::read_token_file(options.token_file));
  }
  LARDER_ASSIGN(env::SocketAddress local, env::SocketAddress::parse("unix:" + options.socket));
  server_options.listen.push_back(std::move(local));
  for (const std::string& text : options.listen) {
    LARDER_ASSIGN(env::SocketAddress address, env::SocketAddress::parse(text));
    server_options.listen.push_back(std::move(address));
  }
  service = std::make_unique<RequestService>(core);
  LARDER_ASSIGN(server,
                rpc::Server::create(std::move(server_options), *service, env::system_clock()));
  core.connections = [this] { return server->counters().open.load(std::memory_order_relaxed); };
  return {};
}

Result<void> Node::Impl::start_http() {
  if (options.http.empty()) return {};
  LARDER_ASSIGN(const env::SocketAddress address, env::SocketAddress::parse(options.http));
  if (address.kind != env::SocketAddress::Kind::kTcp) {
    return fail(Code::kInvalidArgument, "node.http takes HOST:PORT");
  }
  obs::HttpOptions http_options;
  http_options.bind_address = address.host;
  http_options.port = address.port;
  obs::DashboardOptions dashboard;
  dashboard.title = "Larder " + core.id;
  dashboard.highlights = {"larder_hot_used_bytes", "larder_objects",
                          "larder_get_hits_total", "larder_get_misses_total",
                          "larder_puts_total",     "larder_evicted_objects_total",
                          "larder_connections"};
  LARDER_ASSIGN(http, obs::HttpServer::create(
                          http_options, obs::standard_routes(
                                            registry, [] { return std::string(); }, dashboard)));
  return {};
}

Result<void> Node::Impl::add_gauge(const char* name, const char* help,
                                   std::function<double()> read) {
  LARDER_ASSIGN(obs::CallbackHandle handle, registry.callback(name, help, std::move(read)));
  gauges.push_back(std::move(handle));
  return {};
}

Result<void> Node::Impl::add_gauges() {
  const tier::HotStore& hot = *core.hot;
  const rpc::ServerCounters& rpc = server->counters();
  const auto number = [](const std::atomic<std::uint64_t>& value) {
    return [&value] { return static_cast<double>(value.load(std::memory_order_relaxed)); };
  };
  struct Gauge {
    const char* name;
    const char* help;
    std::function<double()> read;
  };
  Gauge all[] = {
      {"larder_hot_capacity_bytes", "DRAM for values", [&hot] { return double(hot.capacity()); }},
      {"larder_hot_used_bytes", "DRAM taken", [&hot] { return double(hot.used()); }},
      {"larder_hot_largest_free_bytes", "largest free block",
       [&hot] { return double(hot.largest_free()); }},
      {"larder_hot_warmed_bytes", "DRAM whose pages were touched once",
       [&hot] { return double(hot.warmed()); }},
      {"larder_hot_reserved_bytes", "values on their way in",
       number(hot.counters().reserved_bytes)},
      {"larder_hot_metadata_bytes", "memory besides values",
       [this] { return double(core.hot->metadata_bytes() + core.routes->memory_bytes()); }},
      {"larder_objects", "objects stored", [this] { return double(core.routes->size()); }},
      {"larder_pins", "objects pinned", [this] { return double(core.pins_total()); }},
      {"larder_evicted_objects_total", "objects evicted", number(hot.counters().evicted_objects)},
      {"larder_evicted_bytes_total", "bytes evicted", number(hot.counters().evicted_bytes)},
      {"larder_backpressure_total", "puts refused for want of room",
       number(hot.counters().backpressure)},
      {"larder_evict_stalls_total", "puts that had to evict for themselves",
       number(hot.counters().evict_stalls)},
      {"larder_connections", "connections open", number(rpc.open)},
      {"larder_refused_token_total", "strangers: wrong or no token", number(rpc.refused_token)},
      {"larder_refused_user_total", "strangers: another user", number(rpc.refused_user)},
      {"larder_refused_protocol_total", "strangers: not our protocol",
       number(rpc.refused_protocol)},
      {"larder_refused_limit_total", "refused: too many connections", number(rpc.refused_limit)},
      {"larder_protocol_errors_total", "connections ended by broken frames",
       number(rpc.protocol_errors)},
      {"larder_stalled_total", "connections ended because they stalled", number(rpc.stalled)},
      {"larder_shared_buffers", "buffers shared by local clients",
       [this] { return double(core.buffers.size()); }},
  };
  for (Gauge& gauge : all) LARDER_TRY(add_gauge(gauge.name, gauge.help, std::move(gauge.read)));
  return add_unmanaged();
}

Result<void> Node::Impl::add_unmanaged() {
  const rpc::ServerCounters& rpc = server->counters();
  LARDER_ASSIGN(auto handles, core.transfers->export_unmanaged_payload("frames", rpc.payload_in,
                                                                       rpc.payload_out));
  for (auto& handle : handles) gauges.push_back(std::move(handle));
  return {};
}

void Node::Impl::hot_tick() {
  core.buffers.drain_hints([this](std::uint32_t slot) { core.hot->touch(slot); });
  core.hot->evict_tick();
}

env::Nanos Node::Impl::heartbeat() {
  const auto renewed =
      backend->upsert_lease(lease, env::system_clock().wall() / env::kMicro, micros(options.lease));
  if (!renewed) {
    static obs::LogEvery every(10'000'000'000);
    obs::log_every(every, static_cast<std::uint64_t>(env::monotonic_now()), obs::Level::kWarn,
                   "heartbeat_failed", {{"error", renewed.error().to_string()}});
  }
  return options.lease.count() / 3;
}

void Node::Impl::start_ticks() {
  executor = env::make_thread_executor(env::system_clock());
  executor->add("hot", [this](env::Nanos now) {
    hot_tick();
    return now + kHotTickEvery;
  });
  executor->add("pins", [this](env::Nanos now) {
    core.expire_pins(now);
    return now + kLeaseTickEvery;
  });
  executor->add("heartbeat", [this](env::Nanos now) { return now + heartbeat(); });
}

Result<std::unique_ptr<Node>> Node::create(NodeOptions options) {
  LARDER_TRY(validate(options));
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  LARDER_TRY(impl->open_store());
  LARDER_TRY(impl->join_cluster());
  LARDER_TRY(impl->open_cold());
  LARDER_TRY(impl->start_server());
  LARDER_TRY(impl->add_gauges());
  LARDER_TRY(impl->start_http());
  impl->start_ticks();
  obs::log(obs::Level::kInfo, "node_started",
           {{"id", impl->core.id},
            {"socket", impl->options.socket},
            {"capacity_bytes", impl->core.hot->capacity()},
            {"pages", impl->core.hot->segment().page_kind()}});
  return std::unique_ptr<Node>(new Node(std::move(impl)));
}

Node::Node(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Node::~Node() {
  stop(std::chrono::milliseconds(100));
}

void Node::stop(std::chrono::nanoseconds timeout) {
  if (std::exchange(impl_->stopped, true)) return;
  impl_->executor->stop();
  impl_->gauges.clear();
  impl_->http.reset();
  const env::Nanos deadline = env::monotonic_now() + timeout.count();
  impl_->server->stop(deadline);
  // As long again: what is owed is worth more than a slow client.
  if (impl_->cold) impl_->cold->stop(env::monotonic_now() + timeout.count());
  static_cast<void>(impl_->backend->release_lease(impl_->lease.stable_id, impl_->lease.epoch));
  ::unlink(impl_->options.socket.c_str());
  obs::log(obs::Level::kInfo, "node_stopped", {{"id", impl_->core.id}});
}

void Node::tick() {
  impl_->hot_tick();
  impl_->core.expire_pins(env::monotonic_now());
}

const std::string& Node::id() const noexcept {
  return impl_->core.id;
}
std::string Node::unix_address() const {
  return "unix:" + impl_->options.socket;
}
std::vector<std::string> Node::tcp_addresses() const {
  std::vector<std::string> addresses;
  for (const env::SocketAddress& address : impl_->server->addresses()) {
    if (address.kind == env::SocketAddress::Kind::kTcp) addresses.push_back(address.to_string());
  }
  return addresses;
}
std::string Node::http_address() const {
  return impl_->http ? impl_->http->url() : "";
}
std::string Node::memory_note() const {
  const tier::Segment& segment = impl_->core.hot->segment();
  std::string note(segment.page_kind());
  if (!segment.page_note().empty()) note += " pages (" + segment.page_note() + ")";
  return note;
}
std::uint64_t Node::used_bytes() const {
  return impl_->core.hot->used();
}
std::uint64_t Node::free_bytes() const {
  return impl_->core.hot->free_bytes();
}
std::uint64_t Node::capacity_bytes() const {
  return impl_->core.hot->capacity();
}
std::uint64_t Node::objects() const {
  return impl_->core.routes->size();
}
std::uint64_t Node::pins() const {
  return impl_->core.pins_total();
}
std::uint64_t Node::connections() const {
  return impl_->server->counters().open.load(std::memory_order_relaxed);
}
std::string Node::metrics() const {
  return impl_->registry.text();
}
std::uint64_t Node::reserved_bytes() const {
  return impl_->core.hot->counters().reserved_bytes.load(std::memory_order_relaxed);
}
std::uint64_t Node::metadata_bytes() const {
  return impl_->core.hot->metadata_bytes() + impl_->core.routes->memory_bytes();
}
std::uint64_t Node::refused() const {
  const rpc::ServerCounters& counters = impl_->server->counters();
  return counters.refused_token.load(std::memory_order_relaxed) +
         counters.refused_user.load(std::memory_order_relaxed) +
         counters.refused_protocol.load(std::memory_order_relaxed) +
         counters.refused_limit.load(std::memory_order_relaxed);
}

}  // namespace larder::node
