// SPDX-License-Identifier: Apache-2.0
// `larder doctor --disk nvme-tcp://...`: whether a remote namespace is fit for a cold tier, tried
// for real and only by reading.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/doctor.h"
#include "apps/doctor_disk.h"
#include "env/clock.h"
#include "larder/status.h"
#include "nvmf/host/url.h"

namespace larder::apps {

struct NvmeReport {
  std::string url;
  bool header_digest = false;  // asked for in the URL
  bool data_digest = false;

  bool attached = false;  // the controller answered, and what follows is known
  Code code = Code::kOk;  // why not, or why it could not be used
  std::string error;      // the same in words
  std::string host_nqn;   // who we said we are
  std::string subsystem;  // its NQN
  std::string model;
  std::string serial;
  std::string firmware;
  std::uint16_t io_queues = 0;       // granted
  std::uint32_t queue_entries = 0;   // of one, the most
  std::uint64_t transfer_max = 0;    // bytes of one command; 0: no limit
  std::uint64_t in_capsule_max = 0;  // bytes that travel with a command
  std::uint32_t nsid = 0;
  std::string id;  // the namespace's, as larder knows it
  std::uint64_t bytes = 0;
  std::uint32_t block_bytes = 0;
  bool write_protected = false;
  bool volatile_cache = false;
  bool discard = false;

  bool tried = false;  // and what follows was measured
  StoreReport store;
  env::Nanos read_p50 = 0;  // of 4 KiB, one at a time
  env::Nanos read_p99 = 0;
  double read_bytes_per_s = 0;  // with 32 operations of 1 MiB in flight
  env::Nanos flush = 0;         // median of one with nothing to flush
};

struct NvmeProbeOptions {
  env::Nanos timeout = 10 * env::kSecond;  // of connecting
  env::Nanos span = env::kSecond / 2;      // of each kind of reads
  std::uint64_t bytes = 256U << 20U;       // of the namespace that are read, at most
  std::size_t flushes = 9;                 // 1 at least
  std::string host_state = {};             // HostIdentityOptions::state_directory
};

// Never fails: the report says what went wrong.
NvmeReport probe_nvme(const nvmf::NvmeUrl& url, const NvmeProbeOptions& options = {});

// Prints the report; the exit status as of run_doctor().
int run_nvme_doctor(const std::string& url, bool json);

// Pure, as in doctor.h.
std::vector<Check> judge_nvme(const NvmeReport& report);
std::string render_nvme_json(const NvmeReport& report, const std::vector<Check>& checks);

}  // namespace larder::apps
