// SPDX-License-Identifier: Apache-2.0
#include "nvmf/spdk/state.h"

#include <algorithm>

#include "obs/log.h"

namespace larder::nvmf {
namespace {

// Addresses go to the controller there: PRPs and SGLs are of dwords (Base 4.3.1, 4.3.2).
constexpr std::uint32_t kAlignment = 4;

Result<SpdkDeviceOptions> settled(const SpdkDeviceOptions& given) {
  SpdkDeviceOptions out = given;
  LARDER_ASSIGN(out.remote, settled(given.remote));
  const bool digests = out.remote.url.header_digest || out.remote.url.data_digest;
  if (out.transport == SpdkTransport::kRdma && digests) {
    return fail(Code::kInvalidArgument, "RDMA has no digests of NVMe/TCP");
  }
  if (out.transport == SpdkTransport::kRdma && !out.environment.huge_pages) {
    return fail(Code::kInvalidArgument, "RDMA by SPDK needs huge pages");
  }
  if (out.bounce_buffers == 0 || out.bounce_bytes == 0 ||
      out.bounce_bytes % block::kBlockBytesMax != 0 || out.bounce_bytes > (8U << 20U)) {
    return fail(Code::kInvalidArgument,
                "a queue needs a bounce buffer, of a multiple of 64 KiB up to 8 MiB");
  }
  return out;
}

block::Identity identity_through_spdk(const SpdkDeviceOptions& options,
                                      const ControllerFacts& controller,
                                      const NamespaceFacts& facts) {
  block::Identity out = identity_of(options.remote.url, controller, facts);
  const bool tcp = options.transport == SpdkTransport::kTcp;
  out.kind = tcp ? "spdk-tcp" : "spdk-rdma";
  const std::size_t scheme = out.name.find("://");
  out.name = (tcp ? "spdk+tcp" : "spdk+rdma") + out.name.substr(scheme);
  return out;
}

}  // namespace

Result<std::shared_ptr<SpdkState>> SpdkState::open(const SpdkDeviceOptions& given) {
  LARDER_ASSIGN(SpdkDeviceOptions options, settled(given));
  LARDER_ASSIGN(HostIdentity host, host_identity(options.remote.host));
  LARDER_ASSIGN(Waker waker, Waker::create());
  LARDER_TRY(start_spdk(options.environment));
  std::shared_ptr<SpdkState> state(
      new SpdkState(std::move(options), std::move(host), std::move(waker)));
  LARDER_TRY(state->begin());
  return state;
}

Result<void> SpdkState::begin() {
  LARDER_ASSIGN(Found found, find());
  const std::string& expected = options_.remote.expected_id;
  if (!expected.empty() && expected != found.identity.id) {
    return fail(Code::kConflict, found.identity.name + " is another namespace: " +
                                     found.identity.id + ", not " + expected);
  }
  nsid_ = found.facts.nsid;
  books_ =
      std::make_shared<block::DeviceBooks>(found.geometry, found.identity, options_.remote.health);
  counters_ = std::make_unique<NvmeCounters>(options_.remote.metrics, options_.remote.url.nqn,
                                             found.controller->queues());
  adopt(std::move(found));
  thread_ = std::thread([this] { run(); });
  return {};
}

SpdkState::~SpdkState() {
  stopping_ = true;
  waker_.notify();
  if (thread_.joinable()) thread_.join();
}

Result<SpdkState::Found> SpdkState::find() {
  Found out;
  LARDER_ASSIGN(out.controller, SpdkController::attach(options_, host_));
  const ControllerFacts& controller = out.controller->facts();
  if (controller.limits.discovery) {
    return fail(Code::kInvalidArgument, options_.remote.url.to_string() +
                                            " is a discovery service, not a subsystem with "
                                            "namespaces; larder nvme discover lists those");
  }
  const std::optional<std::uint32_t> wanted =
      nsid_ != 0 ? std::optional(nsid_) : options_.remote.url.nsid;
  LARDER_ASSIGN(out.facts, out.controller->find_namespace(wanted));
  LARDER_ASSIGN(out.geometry, geometry_of(controller, out.facts));
  out.geometry.memory_alignment = kAlignment;
  out.identity = identity_through_spdk(options_, controller, out.facts);
  if (out.controller->queues() == 0) {
    return fail(Code::kExhausted, out.identity.name + ": the target grants no I/O queue");
  }
  return out;
}

void SpdkState::adopt(Found found) {
  command_bytes_max_ = nvmf::command_bytes_max(found.controller->facts(), found.facts,
                                               options_.remote.command_bytes_max);
  zeroes_bytes_max_ = nvmf::zeroes_bytes_max(found.controller->facts(), found.facts);
  controller_ = std::move(found.controller);
  const std::lock_guard lock(mutex_);
  granted_ = controller_->queues();
  lost_because_.clear();
}

// ---- queues come and go

Result<std::uint16_t> SpdkState::free_number() {
  for (std::uint16_t number = 1; number <= granted_; ++number) {
    const bool used = std::any_of(channels_.begin(), channels_.end(),
                                  [&](const auto& one) { return one->number() == number; });
    if (!used) return number;
  }
  return fail(Code::kExhausted, books_->identity().name + ": all " + std::to_string(granted_) +
                                    " I/O queues that the target grants are in use; close one, or "
                                    "ask for more");
}

Result<std::shared_ptr<SpdkChannel>> SpdkState::enter() {
  LARDER_ASSIGN(Waker waker, Waker::create());
  std::shared_ptr<SpdkChannel> channel;
  {
    const std::lock_guard lock(mutex_);
    LARDER_ASSIGN(const std::uint16_t number, free_number());
    LARDER_ASSIGN(channel, SpdkChannel::create(number, std::move(waker), options_));
    channels_.push_back(channel);
  }
  channel->want(env::monotonic_now() + options_.remote.reattach_timeout);
  tell();
  for (;;) {
    if (const auto news = channel->take_news()) {
      if (*news) return channel;
      leave(*channel);
      return fail(news->error());
    }
    // News always come: what is wanted is refused in time.
    sleep_on(-1, 0, channel->waker().descriptor(), env::monotonic_now() + env::kSecond);
    channel->waker().drain();
  }
}

void SpdkState::leave(SpdkChannel& channel) {
  channel.retire();
  const std::lock_guard lock(mutex_);
  std::erase_if(channels_, [&](const auto& one) { return one.get() == &channel; });
}

std::vector<std::shared_ptr<SpdkChannel>> SpdkState::channels() const {
  const std::lock_guard lock(mutex_);
  return channels_;
}

void SpdkState::lose(std::atomic<bool>& lost, const std::string& reason) {
  if (!begin_loss(lost, "spdk_controller_lost", reason)) return;
  {
    const std::lock_guard lock(mutex_);
    lost_because_ = reason;
  }
  end_loss(reason);
  for (const auto& channel : channels()) channel->waker().notify();
}

}  // namespace larder::nvmf
