// SPDX-License-Identifier: Apache-2.0
// The reports of `larder doctor` for programs.
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/doctor.h"
#include "apps/doctor_disk.h"
#include "apps/doctor_nvme.h"

namespace larder::apps {
namespace {

using nlohmann::ordered_json;

constexpr int kJsonVersion = 1;  // raised when a name goes or changes its meaning

ordered_json optional_number(std::optional<std::uint64_t> value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json host_json(const env::HostReport& host) {
  const auto& [kernel, major, minor, cpu, memory, huge, memfd, ring, dir, limits, net] = host;
  return {
      {"kernel", kernel},
      {"cores", cpu.usable},
      {"cores_cgroup", cpu.quota ? ordered_json(*cpu.quota) : ordered_json(nullptr)},
      {"numa_nodes", cpu.numa_nodes},
      {"avx2", cpu.has("avx2")},
      {"avx512", cpu.has("avx512f")},
      {"memory_bytes", memory.total},
      {"memory_available_bytes", memory.available},
      {"memory_cgroup_bytes", optional_number(memory.cgroup_limit)},
      {"dev_shm_bytes", memory.shm_size},
      {"huge_pages", huge.total},
      {"huge_pages_free", huge.free},
      {"huge_page_bytes", huge.page_size},
      {"thp", huge.thp},
      {"thp_shared", huge.shmem},
      {"huge_memfd", huge.memfd_errno == 0},
      {"memfd", memfd.create_errno == 0},
      {"memfd_seal", memfd.seal_held},
      {"io_uring", ring.setup_errno == 0},
      {"io_uring_disabled", ring.disabled ? ordered_json(*ring.disabled) : ordered_json(nullptr)},
      {"directory", dir.path},
      {"directory_writable", dir.write_errno == 0},
      {"directory_filesystem", dir.filesystem},
      {"directory_free_bytes", dir.free},
      {"o_direct", dir.direct_errno == 0},
      {"memlock_bytes", optional_number(limits.memlock_soft)},
      {"open_files", optional_number(limits.files_soft)},
      {"tcp_rmem_max_bytes", net.tcp_rmem_max},
      {"tcp_wmem_max_bytes", net.tcp_wmem_max},
      {"socket_folder", net.socket_dir},
      {"socket_folder_works", net.socket_errno == 0},
  };
}

ordered_json checks_json(const std::vector<Check>& checks) {
  ordered_json list = ordered_json::array();
  for (const Check& check : checks) {
    list.push_back({{"id", check.id},
                    {"mark", mark_name(check.mark)},
                    {"found", check.found},
                    {"cost", check.cost},
                    {"mend", check.mend}});
  }
  return list;
}

// A path may hold any bytes; what is no UTF-8 is replaced instead of refused.
std::string dump(const ordered_json& all) {
  return all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string render_json(const env::HostReport& report, const std::vector<Check>& checks) {
  const ordered_json all{{"version", kJsonVersion},
                         {"verdict", mark_name(worst(checks))},
                         {"checks", checks_json(checks)},
                         {"host", host_json(report)}};
  return dump(all);
}

namespace {

ordered_json store_json(const StoreReport& store) {
  if (!store.there) return nullptr;
  return {{"bytes", store.bytes}, {"in_use", store.in_use}, {"error", store.error},
          {"uuid", store.uuid},   {"owner", store.owner},   {"clean", store.clean}};
}

}  // namespace

std::string render_disk_json(const DiskReport& report, const std::vector<Check>& checks) {
  const auto measured = [&report](auto value) {
    return report.tried ? ordered_json(value) : ordered_json(nullptr);
  };
  const auto cache = report.volatile_cache;
  const ordered_json disk{
      {"path", report.path},
      {"asked_bytes", report.asked != 0 ? ordered_json(report.asked) : ordered_json(nullptr)},
      {"writable", report.dir.write_errno == 0},
      {"filesystem", report.dir.filesystem},
      {"free_bytes", report.dir.free},
      {"same_as_root", report.same_as_root},
      {"io_uring", report.io_uring.setup_errno == 0},
      {"o_direct", measured(report.direct)},
      {"block_bytes", measured(report.block_bytes)},
      {"volatile_cache", cache ? ordered_json(*cache) : ordered_json(nullptr)},
      {"flush_ns", measured(report.flush)},
      {"write_bytes_per_s", measured(report.write_bytes_per_s)},
      {"read_bytes_per_s", measured(report.read_bytes_per_s)},
      {"error", report.error},
      {"store", store_json(report.store)},
  };
  const ordered_json all{{"version", kJsonVersion},
                         {"verdict", mark_name(worst(checks))},
                         {"checks", checks_json(checks)},
                         {"disk", disk}};
  return dump(all);
}

std::string render_nvme_json(const NvmeReport& report, const std::vector<Check>& checks) {
  const auto known = [&report](auto value) {
    return report.attached ? ordered_json(value) : ordered_json(nullptr);
  };
  const auto measured = [&report](auto value) {
    return report.tried ? ordered_json(value) : ordered_json(nullptr);
  };
  const ordered_json nvme{
      {"url", report.url},
      {"host_nqn", report.host_nqn},
      {"attached", report.attached},
      {"error", report.error},
      {"header_digest", report.header_digest},
      {"data_digest", report.data_digest},
      {"subsystem", known(report.subsystem)},
      {"model", known(report.model)},
      {"serial", known(report.serial)},
      {"firmware", known(report.firmware)},
      {"io_queues", known(report.io_queues)},
      {"queue_entries", known(report.queue_entries)},
      {"transfer_bytes_max", known(report.transfer_max)},
      {"in_capsule_bytes_max", known(report.in_capsule_max)},
      {"nsid", known(report.nsid)},
      {"id", known(report.id)},
      {"bytes", known(report.bytes)},
      {"block_bytes", known(report.block_bytes)},
      {"write_protected", known(report.write_protected)},
      {"volatile_cache", measured(report.volatile_cache)},
      {"discard", measured(report.discard)},
      {"read_4k_p50_ns", measured(report.read_p50)},
      {"read_4k_p99_ns", measured(report.read_p99)},
      {"read_bytes_per_s", measured(report.read_bytes_per_s)},
      {"flush_ns", measured(report.flush)},
      {"store", store_json(report.store)},
  };
  const ordered_json all{{"version", kJsonVersion},
                         {"verdict", mark_name(worst(checks))},
                         {"checks", checks_json(checks)},
                         {"nvme", nvme}};
  return dump(all);
}

}  // namespace larder::apps
