// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/target.h"

#include <fmt/format.h>

#include <bit>

#include "nvmf/pdu/connect.h"
#include "nvmf/target/reactor.h"
#include "nvmf/target/subsystem.h"

namespace larder::nvmf {
namespace {

constexpr int kBacklog = 1024;
constexpr std::uint32_t kQueueEntriesMax = 1024;
constexpr std::uint32_t kInCapsuleMax = 16U << 10U;
constexpr std::uint32_t kTransferMax = 1U << 20U;
constexpr unsigned kThreadsMax = 64;

tl::unexpected<Error> wrong(std::string what) {
  return fail(Code::kInvalidArgument, "NVMe target: " + std::move(what));
}

Result<void> check_sizes(const TargetOptions& o) {
  if (o.queue_entries_max < 2 || o.queue_entries_max > kQueueEntriesMax) {
    return wrong(fmt::format("queues have 2 to {} entries", kQueueEntriesMax));
  }
  if (o.io_queues_max < 1 || o.io_queues_max > kQueueEntriesMax) {
    return wrong("a controller has 1 to 1024 I/O queues");
  }
  if (o.in_capsule_bytes > kInCapsuleMax || o.in_capsule_bytes % 16 != 0) {
    return wrong("data in capsules have 0 to 16384 bytes, a multiple of 16");
  }
  if (o.transfer_max < 8192 || o.transfer_max > kTransferMax ||
      !std::has_single_bit(o.transfer_max)) {
    return wrong("a command moves 8 KiB to 1 MiB at most, a power of two");
  }
  if (o.h2c_data_max < kMaxH2cDataLeast || o.h2c_data_max % 4 != 0 || o.r2t_bytes_max % 4 != 0) {
    return wrong("data after an R2T come in 4096 bytes or more at a time, a multiple of 4");
  }
  if (o.bounce_bytes_max / o.threads < 4ULL * o.transfer_max) {
    return wrong("memory for devices' data must be four transfers for each thread at least");
  }
  return {};
}

Result<void> check_options(const TargetOptions& o) {
  if (auto nqn = check_nqn(o.nqn); !nqn) return wrong(nqn.error().message());
  if (o.nqn == kDiscoveryNqn) return wrong("this NQN is that of discovery services");
  for (const std::string& host : o.allow_hosts) {
    if (auto nqn = check_nqn(host); !nqn) return wrong("allowed host: " + nqn.error().message());
  }
  if (o.threads < 1 || o.threads > kThreadsMax) return wrong("1 to 64 threads");
  if (o.listen.kind != env::SocketAddress::Kind::kTcp) return wrong("it listens on TCP only");
  if (o.cpda > 31) return wrong("CPDA is at most 31");
  return check_sizes(o);
}

Error bind_error(const Error& error, const env::SocketAddress& address) {
  std::string text = error.message();
  if (text.find("in use") != std::string::npos) {
    text += fmt::format("; is another target running? Try another port, or port 0 for any");
  } else if (text.find("ermission") != std::string::npos && address.port < 1024) {
    text += "; ports below 1024 need privileges";
  }
  return {error.code(), std::move(text)};
}

void add(TargetStats& to, const ReactorCounters& from) noexcept {
  const auto load = [](const ReactorCounters::Count& count) {
    return count.load(std::memory_order_relaxed);
  };
  to.connections += load(from.connections);
  to.accepted += load(from.accepted);
  to.refused += load(from.refused);
  to.connects_refused += load(from.connects_refused);
  to.protocol_errors += load(from.protocol_errors);
  to.digest_errors += load(from.digest_errors);
  to.keep_alive_expired += load(from.keep_alive_expired);
  to.stalled += load(from.stalled);
  to.reads += load(from.reads);
  to.writes += load(from.writes);
  to.flushes += load(from.flushes);
  to.others += load(from.others);
  to.admin += load(from.admin);
  to.errors += load(from.errors);
  to.bytes_read += load(from.bytes_read);
  to.bytes_written += load(from.bytes_written);
  to.bounce_bytes += load(from.bounce_bytes);
}

}  // namespace

class TargetCore {
 public:
  explicit TargetCore(TargetOptions options)
      : options_(std::move(options)), subsystem_(options_, [this] { sweep(); }) {}
  ~TargetCore() {
    for (auto& reactor : reactors_) reactor->begin_stop();
    for (auto& reactor : reactors_) reactor->join();
  }

  Result<void> start(std::vector<NamespaceOptions> namespaces) {
    for (const NamespaceOptions& space : namespaces) LARDER_TRY(subsystem_.add(space));
    auto listener = env::listen_on(options_.listen, kBacklog);
    if (!listener) return fail(bind_error(listener.error(), options_.listen));
    LARDER_ASSIGN(options_.listen.port, env::local_port(listener->get()));
    env::Clock& clock = options_.clock != nullptr ? *options_.clock : env::system_clock();
    std::vector<std::unique_ptr<Reactor>> made;
    std::vector<Reactor*> raw;
    for (unsigned i = 0; i < options_.threads; ++i) {
      LARDER_ASSIGN(auto reactor, Reactor::create(subsystem_, clock));
      reactor->set_stats([this] { return stats(); });
      raw.push_back(reactor.get());
      made.push_back(std::move(reactor));
    }
    LARDER_TRY(made.front()->add_listener(std::move(*listener), raw));
    reactors_ = std::move(made);
    for (auto& reactor : reactors_) reactor->start();
    return {};
  }

  TargetStats stats() const {
    TargetStats out;
    for (const auto& reactor : reactors_) add(out, reactor->counters());
    out.controllers = subsystem_.controllers();
    return out;
  }
  const TargetOptions& options() const noexcept { return options_; }
  Subsystem& subsystem() noexcept { return subsystem_; }

 private:
  void sweep() {
    for (const auto& reactor : reactors_) reactor->ask_sweep();
  }

  TargetOptions options_;
  Subsystem subsystem_;
  std::vector<std::unique_ptr<Reactor>> reactors_;  // fixed once they run
};

Target::Target(std::unique_ptr<TargetCore> core) : core_(std::move(core)) {}
Target::~Target() = default;

Result<std::unique_ptr<Target>> Target::create(TargetOptions options,
                                               std::vector<NamespaceOptions> namespaces) {
  LARDER_TRY(check_options(options));
  auto core = std::make_unique<TargetCore>(std::move(options));
  LARDER_TRY(core->start(std::move(namespaces)));
  return std::unique_ptr<Target>(new Target(std::move(core)));
}

const env::SocketAddress& Target::address() const noexcept {
  return core_->options().listen;
}
const std::string& Target::nqn() const noexcept {
  return core_->options().nqn;
}

std::string Target::url(std::uint32_t nsid) const {
  const env::SocketAddress& at = address();
  const bool v6 = at.host.find(':') != std::string::npos;
  const std::string fragment = nsid == 1 ? "" : fmt::format("#{}", nsid);
  return fmt::format("nvme-tcp://{}{}{}:{}/{}{}", v6 ? "[" : "", at.host, v6 ? "]" : "", at.port,
                     nqn(), fragment);
}

std::vector<std::uint32_t> Target::namespaces() const {
  std::vector<std::uint32_t> out;
  const auto table = core_->subsystem().table();
  for (std::uint32_t nsid = 1; nsid <= kNamespaceIdMax; ++nsid) {
    if (table->find(nsid) != nullptr) out.push_back(nsid);
  }
  return out;
}

TargetStats Target::stats() const {
  return core_->stats();
}

Result<std::uint32_t> Target::add_namespace(const NamespaceOptions& options) {
  return core_->subsystem().add(options);
}
Result<void> Target::remove_namespace(std::uint32_t nsid) {
  return core_->subsystem().remove(nsid);
}
Result<void> Target::replace_namespace(const NamespaceOptions& options) {
  return core_->subsystem().replace(options);
}
Result<void> Target::resize_namespace(std::uint32_t nsid, std::uint64_t bytes) {
  return core_->subsystem().resize(nsid, bytes);
}

}  // namespace larder::nvmf
