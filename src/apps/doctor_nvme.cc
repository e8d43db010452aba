// SPDX-License-Identifier: Apache-2.0
// The verdicts of `larder doctor --disk nvme-tcp://...`, one function per check.
#include "apps/doctor_nvme.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "apps/console.h"
#include "base/units.h"

namespace larder::apps {
namespace {

using base::human_bytes;

constexpr std::uint64_t kBytesGood = 1ULL << 30U;     // below: a tier too small to help
constexpr std::uint64_t kTransferGood = 128U << 10U;  // below: many commands for a block
constexpr std::uint16_t kQueuesGood = 8;              // a node opens so many for one disk
constexpr env::Nanos kReadGood = env::kMilli;         // above: small values are not worth it
constexpr double kRateGood = 200.0 * (1 << 20);       // below: prefill may be as fast

std::string micros(env::Nanos time) {
  return base::human_duration(std::chrono::nanoseconds(time));
}

std::string shown(const std::string& text) {
  return base::quoted(text, 300);
}

std::string what_to_do(const NvmeReport& report) {
  switch (report.code) {
    case Code::kPermissionDenied:
      return "let this host in on the target; it says it is " + report.host_nqn;
    case Code::kNotFound:
      return "see what is there: larder nvme discover nvme-tcp://HOST:PORT";
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return "start the target; let its port through; larder nvme discover nvme-tcp://HOST:PORT";
    default:
      return "mend what the message says";
  }
}

Check check_connect(const NvmeReport& report) {
  if (report.attached) return Check::ok("nvme_connect", shown(report.subsystem));
  return Check::fail("nvme_connect", shown(report.error), "a node cannot use it",
                     what_to_do(report));
}

Check check_target(const NvmeReport& report) {
  return Check::ok("nvme_target",
                   fmt::format("{} {}, serial {}", printable(report.model),
                               printable(report.firmware), printable(report.serial)));
}

Check check_namespace(const NvmeReport& report) {
  const std::string found =
      fmt::format("namespace {}: {} in blocks of {}, {}", report.nsid, human_bytes(report.bytes),
                  human_bytes(report.block_bytes), shown(report.id));
  if (report.bytes == 0) {
    return Check::fail("nvme_space", shown(report.error), "a node cannot use it",
                       what_to_do(report));
  }
  if (report.write_protected) {
    return Check::fail("nvme_space", found + ", write protected", "a node cannot use it",
                       "take the protection off on the target, or give another namespace");
  }
  if (report.bytes >= kBytesGood) return Check::ok("nvme_space", found);
  return Check::warn("nvme_space", found, "a small tier: few hits", "give a larger namespace");
}

Check check_limits(const NvmeReport& report) {
  std::string found = report.transfer_max == 0 ? std::string("commands of any size")
                                               : human_bytes(report.transfer_max) + " a command";
  found += fmt::format(", {} within it, {} queues of {}", human_bytes(report.in_capsule_max),
                       report.io_queues, report.queue_entries);
  if (report.transfer_max != 0 && report.transfer_max < kTransferGood) {
    return Check::warn("nvme_limits", found, "large blocks take many commands",
                       "raise the largest transfer (MDTS) on the target");
  }
  if (report.io_queues >= kQueuesGood) return Check::ok("nvme_limits", found);
  return Check::warn("nvme_limits", found, "a node wants more queues: it may not start",
                     "allow 8 or more I/O queues a host on the target");
}

Check check_digests(const NvmeReport& report) {
  if (report.header_digest && report.data_digest) {
    return Check::ok("nvme_digest", "of headers and data");
  }
  if (report.header_digest) return Check::ok("nvme_digest", "of headers");
  if (report.data_digest) return Check::ok("nvme_digest", "of data");
  return Check::ok("nvme_digest", "none; Larder checks what it reads itself");
}

Check check_store(const NvmeReport& report) {
  const StoreReport& store = report.store;
  if (!store.there) return Check::ok("nvme_store", "none yet");
  if (!store.error.empty()) {
    return Check::fail("nvme_store", shown(store.error),
                       "the node does not start: it would not erase what it cannot read",
                       "do what the message says, or give another namespace");
  }
  return Check::ok("nvme_store",
                   fmt::format("{} of {}, {}", store.uuid, base::quoted(store.owner, 160),
                               store.clean ? "closed well" : "open, or not closed well"));
}

// The reason why nothing could be measured, once.
Check check_trial(const NvmeReport& report) {
  if (report.tried) return Check::ok("nvme_trial", "read");
  return Check::fail("nvme_trial", shown(report.error), "a node cannot use it", what_to_do(report));
}

Check check_latency(const NvmeReport& report) {
  const std::string found =
      fmt::format("4 KiB: p50 {}, p99 {}", micros(report.read_p50), micros(report.read_p99));
  if (report.read_p50 <= kReadGood) return Check::ok("nvme_latency", found);
  return Check::warn("nvme_latency", found, "a small value may be computed again as quickly",
                     "use a target in the same data centre");
}

Check check_rate(const NvmeReport& report) {
  const std::string found = "read " + base::human_rate(report.read_bytes_per_s);
  if (report.read_bytes_per_s >= kRateGood) return Check::ok("nvme_rate", found);
  return Check::warn("nvme_rate", found,
                     "a hit on it may cost as much as computing the block again",
                     "look at the network in between; larder bench nvmf on both ends");
}

Check check_flush(const NvmeReport& report) {
  return Check::ok("nvme_flush",
                   fmt::format("{} for a flush, {}", micros(report.flush),
                               report.volatile_cache ? "volatile cache" : "no volatile cache"));
}

}  // namespace

std::vector<Check> judge_nvme(const NvmeReport& report) {
  std::vector<Check> checks{check_connect(report)};
  if (!report.attached) return checks;
  for (const auto check : {check_target, check_namespace, check_limits, check_digests}) {
    checks.push_back(check(report));
  }
  if (report.bytes == 0) return checks;
  checks.push_back(check_trial(report));
  if (!report.tried) return checks;
  for (const auto check : {check_store, check_latency, check_rate, check_flush}) {
    checks.push_back(check(report));
  }
  return checks;
}

int run_nvme_doctor(const std::string& text, bool json) {
  const auto url = nvmf::parse_nvme_url(text);
  if (!url) return report_error(url.error());
  if (url->nqn.empty()) {
    return report_error(Error(Code::kInvalidArgument,
                              "--disk needs the subsystem, too, as in "
                              "nvme-tcp://HOST:4420/nqn.2026-01.org.example:store; larder nvme "
                              "discover " +
                                  text + " lists those that are there"));
  }
  const NvmeReport report = probe_nvme(*url);
  const std::vector<Check> checks = judge_nvme(report);
  const auto done = print(json ? render_nvme_json(report, checks) : render_table(checks));
  if (!done) return report_error(done.error());
  return worst(checks) != Mark::kFail ? 0 : 1;
}

}  // namespace larder::apps
