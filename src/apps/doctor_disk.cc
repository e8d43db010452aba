// SPDX-License-Identifier: Apache-2.0
// The verdicts of `larder doctor --disk`, one function per check.
#include "apps/doctor_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "apps/console.h"
#include "base/units.h"

namespace larder::apps {
namespace {

using base::human_bytes;
using base::human_rate;

constexpr std::uint64_t kFreeGood = 1ULL << 30U;  // below: a tier too small to help
// A disk that empties a cache for a flush takes longer than this; a round trip alone takes 5 us.
constexpr env::Nanos kFlushQuick = 20 * env::kMicro;
constexpr double kRateGood = 200.0 * (1 << 20);  // below: prefill may be as fast

std::string micros(env::Nanos time) {
  return base::human_duration(std::chrono::nanoseconds(time));
}

bool on_network(std::string_view filesystem) {
  constexpr std::array<std::string_view, 3> kNames{"nfs", "cifs", "fuse"};
  return std::ranges::find(kNames, filesystem) != kNames.end();
}

Check check_folder(const DiskReport& disk) {
  const std::string path = base::quoted(disk.path, 200);
  if (disk.dir.write_errno != 0) {
    return Check::fail("disk_folder", fmt::format("{}: {}", path, errno_text(disk.dir.write_errno)),
                       "no block can be kept there",
                       "make it, and give it to the user of the node");
  }
  if (!disk.dir.in_memory) return Check::ok("disk_folder", path + " writable");
  return Check::fail("disk_folder", fmt::format("{} is memory ({})", path, disk.dir.filesystem),
                     "it takes from the DRAM tier and dies with the host: no disk at all",
                     "give a folder on a local disk");
}

Check check_filesystem(const DiskReport& disk) {
  const std::string& name = disk.dir.filesystem;
  if (on_network(name)) {
    return Check::warn("disk_kind", name,
                       "flush and O_DIRECT promise less than those of a local disk",
                       "give a folder on ext4 or xfs, on a disk of this host");
  }
  if (name == "ext4" || name == "xfs") return Check::ok("disk_kind", name);
  return Check::warn("disk_kind", name.empty() ? "unknown" : name,
                     "copy on write or another layer below: more bytes written than asked for",
                     "give a folder on ext4 or xfs");
}

Check check_space(const DiskReport& disk) {
  const std::uint64_t room = disk.dir.free + disk.store.bytes;
  std::string found = human_bytes(disk.dir.free) + " free";
  if (disk.store.bytes != 0)
    found += fmt::format(", {} in its store", human_bytes(disk.store.bytes));
  if (disk.asked != 0) found += fmt::format(", {} asked", human_bytes(disk.asked));
  if (disk.asked > room) {
    return Check::fail("disk_space", found, "the space cannot be reserved: the node does not start",
                       "ask for less (--disk DIR:SIZE), or free some");
  }
  if (std::max(disk.asked, disk.asked == 0 ? room : 0) >= kFreeGood) {
    return Check::ok("disk_space", found);
  }
  return Check::warn("disk_space", found, "a small tier: few hits",
                     "free some space, or ask for more");
}

Check check_root(const DiskReport& disk) {
  if (!disk.same_as_root) return Check::ok("disk_own", "not the file system of /");
  return Check::warn("disk_own", "the file system of /",
                     "a full cache fills the system's disk, and shares its speed",
                     "give a disk of its own, or a size that leaves room (--disk DIR:SIZE)");
}

Check check_ring(const DiskReport& disk) {
  if (disk.io_uring.setup_errno == 0) return Check::ok("disk_io_uring", "works");
  return Check::warn("disk_io_uring", errno_text(disk.io_uring.setup_errno),
                     "a pool of threads reads and writes: more CPU, less depth",
                     "allow the io_uring calls (seccomp profile, kernel.io_uring_disabled=0)");
}

Check check_store(const DiskReport& disk) {
  const StoreReport& store = disk.store;
  if (!store.there) return Check::ok("disk_store", "none yet");
  if (store.in_use) {
    return Check::warn("disk_store", "in use: " + base::quoted(store.error, 300),
                       "a second node is refused; the figures below are beside its load",
                       "stop the node that has it, or give another folder");
  }
  if (!store.error.empty()) {
    return Check::fail("disk_store", base::quoted(store.error, 300),
                       "the node does not start: it would not erase what it cannot read",
                       "do what the message says, or give another folder");
  }
  return Check::ok("disk_store",
                   fmt::format("{} of {}, {}", store.uuid, base::quoted(store.owner, 160),
                               store.clean ? "closed well" : "not closed: recovered at the start"));
}

// The reason why nothing could be measured, once.
Check check_trial(const DiskReport& disk) {
  if (disk.tried) {
    return Check::ok("disk_trial", fmt::format("blocks of {}", human_bytes(disk.block_bytes)));
  }
  if (disk.error.empty()) {
    return Check::warn("disk_trial", "not tried", "unknown", "mend the check `disk_folder` first");
  }
  return Check::fail("disk_trial", base::quoted(disk.error, 300), "a node cannot use it",
                     "mend what the message says");
}

Check check_direct(const DiskReport& disk) {
  if (disk.direct) return Check::ok("disk_direct", "O_DIRECT works");
  return Check::warn("disk_direct", "no O_DIRECT on " + disk.dir.filesystem,
                     "every byte goes through the page cache: a copy more, memory taken twice",
                     "give a folder on ext4 or xfs");
}

Check check_flush(const DiskReport& disk) {
  std::string found = fmt::format("{} for a flush", micros(disk.flush));
  if (!disk.volatile_cache) return Check::ok("disk_flush", found + ", cache unknown");
  if (!*disk.volatile_cache) return Check::ok("disk_flush", found + ", no volatile cache");
  found += ", volatile cache";
  if (disk.flush >= kFlushQuick) return Check::ok("disk_flush", found);
  return Check::warn(
      "disk_flush", found,
      "too quick to have emptied a cache: power lost may take what was called durable",
      "look for `cache=unsafe` of a virtual machine, mounts with nobarrier, eatmydata");
}

Check check_rates(const DiskReport& disk) {
  const std::string found = fmt::format("read {}, write {}", human_rate(disk.read_bytes_per_s),
                                        human_rate(disk.write_bytes_per_s));
  if (std::min(disk.read_bytes_per_s, disk.write_bytes_per_s) >= kRateGood) {
    return Check::ok("disk_rate", found);
  }
  return Check::warn("disk_rate", found,
                     "a hit on disk may cost as much as computing the block again",
                     "use an NVMe disk of this host");
}

}  // namespace

Result<DiskSpec> parse_disk_spec(std::string_view text) {
  DiskSpec spec{std::string(text), 0};
  if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    if (const auto bytes = base::parse_size(text.substr(colon + 1)); bytes) {
      spec = {std::string(text.substr(0, colon)), *bytes};
      if (*bytes == 0) return fail(Code::kInvalidArgument, "--disk: the size must not be 0");
    }
  }
  if (!spec.path.empty()) return spec;
  return fail(Code::kInvalidArgument, "--disk needs a folder, as in --disk /mnt/nvme:512GiB");
}

std::vector<Check> judge_disk(const DiskReport& report) {
  std::vector<Check> checks{check_folder(report)};
  if (checks.front().mark == Mark::kFail) return checks;
  for (const auto check :
       {check_filesystem, check_space, check_root, check_store, check_ring, check_trial}) {
    checks.push_back(check(report));
  }
  if (!report.tried) return checks;
  for (const auto check : {check_direct, check_flush, check_rates}) {
    checks.push_back(check(report));
  }
  return checks;
}

int run_disk_doctor(const DiskSpec& spec, bool json) {
  const DiskReport report = probe_disk(spec);
  const std::vector<Check> checks = judge_disk(report);
  const auto done = print(json ? render_disk_json(report, checks) : render_table(checks));
  if (!done) return report_error(done.error());
  return worst(checks) != Mark::kFail ? 0 : 1;
}

}  // namespace larder::apps
