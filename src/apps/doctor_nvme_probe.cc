// SPDX-License-Identifier: Apache-2.0
// The part of `larder doctor --disk nvme-tcp://...` that talks to the target.
#include <algorithm>
#include <memory>
#include <vector>

#include "apps/disk_trial.h"
#include "apps/doctor_nvme.h"
#include "block/blocking.h"
#include "env/random.h"
#include "nvmf/host/device.h"
#include "nvmf/host/discover.h"

namespace larder::apps {
namespace {

constexpr std::size_t kReadsMax = 10'000;  // of small ones
constexpr std::uint32_t kSmallRead = 4096;

void note(NvmeReport& report, const Error& error) {
  report.code = error.code();
  report.error = error.to_string();
}

void note(NvmeReport& report, const nvmf::Identified& found) {
  const nvmf::ControllerLimits& limits = found.controller.limits;
  report.attached = true;
  report.subsystem = limits.subnqn;
  report.model = limits.model;
  report.serial = limits.serial;
  report.firmware = limits.firmware;
  report.io_queues = found.io_queues;
  report.queue_entries = found.controller.cap.queue_entries_max();
  report.transfer_max = limits.transfer_max;
  report.in_capsule_max = limits.in_capsule_max;
}

void note(NvmeReport& report, const nvmf::NamespaceFacts& space) {
  report.nsid = space.nsid;
  report.bytes = space.shape.blocks * space.shape.block_bytes;
  report.block_bytes = space.shape.block_bytes;
  report.write_protected = space.shape.write_protected;
}

// Single reads at places that follow no pattern.
Result<void> measure_latency(NvmeReport& report, DiskTrial& trial, env::Nanos span) {
  const std::uint32_t bytes = std::max(kSmallRead, report.block_bytes);
  const auto into = trial.memory().span().first(bytes);
  const std::uint64_t places = report.bytes / bytes;
  std::vector<env::Nanos> times;
  const env::Nanos end = env::monotonic_now() + span;
  while (times.empty() || (times.size() < kReadsMax && env::monotonic_now() < end)) {
    const std::uint64_t offset = env::random_u64() % places * bytes;
    const env::Nanos begin = env::monotonic_now();
    LARDER_TRY(block::read_all(trial.queue(), offset, into));
    times.push_back(env::monotonic_now() - begin);
  }
  std::ranges::sort(times);
  report.read_p50 = times[times.size() / 2];
  report.read_p99 = times[times.size() * 99 / 100];
  return {};
}

Result<void> measure_flush(NvmeReport& report, DiskTrial& trial, std::size_t count) {
  std::vector<env::Nanos> times(std::max<std::size_t>(count, 1));
  for (env::Nanos& time : times) {
    const env::Nanos begin = env::monotonic_now();
    LARDER_TRY(block::flush(trial.queue()));
    time = env::monotonic_now() - begin;
  }
  std::ranges::sort(times);
  report.flush = times[times.size() / 2];
  return {};
}

Result<void> measure(NvmeReport& report, block::BlockDevice& device,
                     const NvmeProbeOptions& options) {
  const std::uint64_t room =
      std::min(options.bytes, device.geometry().bytes()) / kTrialBytes * kTrialBytes;
  if (room == 0) return fail(Code::kExhausted, "the namespace is smaller than 1 MiB");
  LARDER_ASSIGN(const auto trial, DiskTrial::create(device, room));
  LARDER_TRY(measure_latency(report, *trial, options.span));
  LARDER_ASSIGN(report.read_bytes_per_s,
                trial->run(block::OpKind::kRead, trial->stride(), options.span));
  return measure_flush(report, *trial, options.flushes);
}

Result<void> try_device(NvmeReport& report, const nvmf::NvmeUrl& url,
                        const NvmeProbeOptions& options) {
  nvmf::NvmeDeviceOptions how;
  how.url = url;
  how.host.state_directory = options.host_state;
  how.connect_timeout = options.timeout;
  how.reattach = nvmf::Reattach::kNever;  // what breaks here is to be seen
  LARDER_ASSIGN(const auto device, nvmf::NvmeDevice::open(how));
  report.id = device->identity().id;
  report.volatile_cache = device->geometry().volatile_cache;
  report.discard = device->geometry().discard_bytes != 0;
  LARDER_TRY(measure(report, *device, options));
  report.store = probe_store(device);
  report.tried = true;
  return {};
}

}  // namespace

NvmeReport probe_nvme(const nvmf::NvmeUrl& url, const NvmeProbeOptions& options) {
  NvmeReport report;
  report.url = url.to_string();
  report.header_digest = url.header_digest;
  report.data_digest = url.data_digest;
  nvmf::ToolOptions how;
  how.url = url;
  how.host.state_directory = options.host_state;
  how.timeout = options.timeout;
  const auto host = nvmf::host_identity(how.host);
  if (host) report.host_nqn = url.host_nqn.empty() ? host->nqn : url.host_nqn;
  const auto found = nvmf::identify(how);
  if (!found) {
    note(report, found.error());
    return report;
  }
  note(report, *found);
  if (found->namespaces.empty()) {
    report.code = Code::kNotFound;
    report.error = found->others.empty() ? "it has no namespace" : found->others.front();
    return report;
  }
  note(report, found->namespaces.front());
  if (const auto done = try_device(report, url, options); !done) note(report, done.error());
  return report;
}

}  // namespace larder::apps
