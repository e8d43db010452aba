// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/stats.h"

#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// A remote read takes the NIC and, over there, the drive; so does a write.
qos::ChargeVector charges_of(std::uint64_t read, std::uint64_t written) noexcept {
  qos::ChargeVector out = qos::charges_of(qos::Stage::kPeerToHost).scaled(read);
  out.add(qos::charges_of(qos::Stage::kHostToPeer).scaled(written));
  return out.add(Resource::kNvmeRead, read).add(Resource::kNvmeWrite, written);
}

}  // namespace

NvmeCounters::NvmeCounters(obs::Registry* registry, const std::string& nqn, std::uint16_t queues)
    : queues_(queues) {
  if (registry != nullptr) publish(*registry, nqn);
}

NvmeStats::Line NvmeCounters::Line::read() const noexcept {
  return {commands.load(kRelaxed), bytes.load(kRelaxed), errors.load(kRelaxed)};
}

void NvmeCounters::command(block::OpKind kind, std::uint16_t qid, std::uint64_t bytes,
                           bool well) noexcept {
  Line* const lines[] = {&kinds_[static_cast<std::size_t>(kind)],
                         qid > 0 && qid <= queues_.size() ? &queues_[qid - 1U] : nullptr};
  for (Line* line : lines) {
    if (line == nullptr) continue;
    (well ? line->commands : line->errors).fetch_add(1, kRelaxed);
    if (well) line->bytes.fetch_add(bytes, kRelaxed);
  }
}

void NvmeCounters::charge(block::OpKind kind, TrafficClass traffic_class,
                          std::uint64_t bytes) noexcept {
  if (kind != block::OpKind::kRead && kind != block::OpKind::kWrite) return;
  const std::size_t low = traffic_class == TrafficClass::kHigh ? 0 : 1;
  moved_[low][kind == block::OpKind::kWrite ? 1 : 0].fetch_add(bytes, kRelaxed);
}

void NvmeCounters::took(block::OpKind kind, env::Nanos time) noexcept {
  obs::Histogram* const histogram = latency_[static_cast<std::size_t>(kind)];
  if (histogram != nullptr) histogram->record(static_cast<std::uint64_t>(time));
}

NvmeStats NvmeCounters::read() const {
  NvmeStats out;
  for (std::size_t i = 0; i < kinds_.size(); ++i) out.kinds[i] = kinds_[i].read();
  for (const Line& line : queues_) out.queues.push_back(line.read());
  out.reattached = reattached.load(kRelaxed);
  out.lost = lost.load(kRelaxed);
  out.retried = retried.load(kRelaxed);
  out.keep_alive_misses = keep_alive_misses.load(kRelaxed);
  out.digest_errors = digest_errors.load(kRelaxed);
  out.events = events.load(kRelaxed);
  for (std::size_t i = 0; i < out.charges.size(); ++i) {
    out.charges[i] = charges_of(moved_[i][0].load(kRelaxed), moved_[i][1].load(kRelaxed));
  }
  return out;
}

// What the registry has no room for is not exported; the device works without.
void NvmeCounters::expose(obs::Registry& registry, const char* name, const char* help,
                          const std::atomic<std::uint64_t>& value, obs::Labels labels) {
  auto handle = registry.callback(
      name, help, [&value] { return static_cast<double>(value.load(kRelaxed)); },
      std::move(labels));
  if (handle) {
    handles_.push_back(std::move(*handle));
  } else {
    obs::log(obs::Level::kWarn, "nvmf_metric_left_out",
             {{"name", name}, {"error", handle.error().message()}});
  }
}

void NvmeCounters::publish(obs::Registry& registry, const std::string& nqn) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const std::string kind = block::op_name(static_cast<block::OpKind>(i));
    const obs::Labels labels{{"subsystem", nqn}, {"kind", kind}};
    expose(registry, "larder_nvmf_commands_total", "NVMe commands that ended well",
           kinds_[i].commands, labels);
    expose(registry, "larder_nvmf_bytes_total", "bytes of those", kinds_[i].bytes, labels);
    expose(registry, "larder_nvmf_errors_total", "NVMe commands that ended badly", kinds_[i].errors,
           labels);
    if (auto made = registry.histogram("larder_nvmf_latency_seconds",
                                       "from taking an operation to its end", labels)) {
      latency_[i] = *made;
    }
  }
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const obs::Labels labels{{"subsystem", nqn}, {"queue", std::to_string(i + 1)}};
    expose(registry, "larder_nvmf_queue_commands_total", "NVMe commands that ended well, by queue",
           queues_[i].commands, labels);
    expose(registry, "larder_nvmf_queue_bytes_total", "bytes of those", queues_[i].bytes, labels);
    expose(registry, "larder_nvmf_queue_errors_total", "NVMe commands that ended badly, by queue",
           queues_[i].errors, labels);
  }
  const obs::Labels labels{{"subsystem", nqn}};
  expose(registry, "larder_nvmf_reattached_total", "associations made anew after a loss",
         reattached, labels);
  expose(registry, "larder_nvmf_lost_total", "associations that were lost", lost, labels);
  expose(registry, "larder_nvmf_retried_total", "operations sent again after a loss", retried,
         labels);
  expose(registry, "larder_nvmf_keep_alive_misses_total", "keep-alives that were not answered",
         keep_alive_misses, labels);
  expose(registry, "larder_nvmf_digest_errors_total", "PDUs with a digest that was not theirs",
         digest_errors, labels);
  expose(registry, "larder_nvmf_events_total", "asynchronous events from the controller", events,
         labels);
  for (std::size_t i = 0; i < moved_.size(); ++i) {
    const std::string traffic_class = i == 0 ? "high" : "low";
    const std::pair<const char*, const std::atomic<std::uint64_t>*> lines[] = {
        {"nic_rx", &moved_[i][0]},
        {"nvme_read", &moved_[i][0]},
        {"nic_tx", &moved_[i][1]},
        {"nvme_write", &moved_[i][1]}};
    for (const auto& [resource, value] : lines) {
      expose(registry, "larder_nvmf_charged_bytes_total",
             "bytes charged to a resource by remote reads and writes", *value,
             {{"subsystem", nqn}, {"class", traffic_class}, {"resource", resource}});
    }
  }
}

}  // namespace larder::nvmf
