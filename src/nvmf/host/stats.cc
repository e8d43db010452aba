// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/stats.h"

#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// What a namespace's reads and writes can take.
qos::ChargeVector weights() noexcept {
  return qos::charges_of(qos::Stage::kNamespaceToHost)
      .add(qos::charges_of(qos::Stage::kHostToNamespace));
}

}  // namespace

NvmeCounters::NvmeCounters(obs::Registry* registry, const std::string& nqn, std::uint16_t queues)
    : queues_(queues), registry_(registry), nqn_(nqn) {
  if (registry_ != nullptr) publish();
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

qos::ChargeVector NvmeCounters::Moved::charges() const noexcept {
  return qos::charges_of(qos::Stage::kNamespaceToHost)
      .scaled(read.load(kRelaxed))
      .add(qos::charges_of(qos::Stage::kHostToNamespace).scaled(written.load(kRelaxed)));
}

// Counts alone, but for the first of a class and intent.
void NvmeCounters::charge(block::OpKind kind, const qos::Purpose& purpose, std::uint64_t bytes) {
  if (kind != block::OpKind::kRead && kind != block::OpKind::kWrite) return;
  const std::size_t low = purpose.traffic_class == TrafficClass::kHigh ? 0 : 1;
  const auto number = static_cast<std::size_t>(purpose.intent);
  const std::size_t intent = number < kIntentCount ? number : 0;  // unknown
  Moved& moved = moved_[low][intent];
  (kind == block::OpKind::kRead ? moved.read : moved.written).fetch_add(bytes, kRelaxed);
  if (registry_ == nullptr || moved.exported.load(kRelaxed)) return;
  if (!moved.exported.exchange(true)) export_charges(low, intent);
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
  for (std::size_t low = 0; low < moved_.size(); ++low) {
    for (std::size_t intent = 0; intent < kIntentCount; ++intent) {
      out.by_intent[low][intent] = moved_[low][intent].charges();
      out.charges[low].add(out.by_intent[low][intent]);
    }
  }
  return out;
}

// What the registry has no room for is not exported; the device works without.
void NvmeCounters::expose(const char* name, const char* help, std::function<double()> value,
                          obs::Labels labels) {
  auto handle = registry_->callback(name, help, std::move(value), std::move(labels));
  if (handle) {
    const std::lock_guard lock(handles_mutex_);
    handles_.push_back(std::move(*handle));
  } else {
    obs::log(obs::Level::kWarn, "nvmf_metric_left_out",
             {{"name", name}, {"error", handle.error().message()}});
  }
}

void NvmeCounters::expose(const char* name, const char* help,
                          const std::atomic<std::uint64_t>& value, obs::Labels labels) {
  expose(
      name, help, [&value] { return static_cast<double>(value.load(kRelaxed)); },
      std::move(labels));
}

void NvmeCounters::export_charges(std::size_t low, std::size_t intent) {
  const Moved& moved = moved_[low][intent];
  const TrafficClass traffic_class = low == 0 ? TrafficClass::kHigh : TrafficClass::kLow;
  weights().for_each([&](Resource resource, std::uint64_t) {
    expose("larder_nvmf_charged_bytes_total", "bytes charged to a resource by reads and writes",
           [&moved, resource] { return static_cast<double>(moved.charges()[resource]); },
           {{"subsystem", nqn_},
            {"class", std::string(class_name(traffic_class))},
            {"intent", std::string(intent_name(static_cast<Intent>(intent)))},
            {"resource", std::string(resource_name(resource))}});
  });
}

void NvmeCounters::publish() {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const std::string kind = block::op_name(static_cast<block::OpKind>(i));
    const obs::Labels labels{{"subsystem", nqn_}, {"kind", kind}};
    expose("larder_nvmf_commands_total", "NVMe commands that ended well", kinds_[i].commands,
           labels);
    expose("larder_nvmf_bytes_total", "bytes of those", kinds_[i].bytes, labels);
    expose("larder_nvmf_errors_total", "NVMe commands that ended badly", kinds_[i].errors, labels);
    if (auto made = registry_->histogram("larder_nvmf_latency_seconds",
                                         "from taking an operation to its end", labels)) {
      latency_[i] = *made;
    }
  }
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const obs::Labels labels{{"subsystem", nqn_}, {"queue", std::to_string(i + 1)}};
    expose("larder_nvmf_queue_commands_total", "NVMe commands that ended well, by queue",
           queues_[i].commands, labels);
    expose("larder_nvmf_queue_bytes_total", "bytes of those", queues_[i].bytes, labels);
    expose("larder_nvmf_queue_errors_total", "NVMe commands that ended badly, by queue",
           queues_[i].errors, labels);
  }
  const obs::Labels labels{{"subsystem", nqn_}};
  expose("larder_nvmf_reattached_total", "associations made anew after a loss", reattached, labels);
  expose("larder_nvmf_lost_total", "associations that were lost", lost, labels);
  expose("larder_nvmf_retried_total", "operations sent again after a loss", retried, labels);
  expose("larder_nvmf_keep_alive_misses_total", "keep-alives that were not answered",
         keep_alive_misses, labels);
  expose("larder_nvmf_digest_errors_total", "PDUs with a digest that was not theirs", digest_errors,
         labels);
  expose("larder_nvmf_events_total", "asynchronous events from the controller", events, labels);
}

}  // namespace larder::nvmf
