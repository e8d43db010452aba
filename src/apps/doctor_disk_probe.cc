// SPDX-License-Identifier: Apache-2.0
// The part of `larder doctor --disk` that touches the disk.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/disk_trial.h"
#include "apps/doctor_disk.h"
#include "block/blocking.h"
#include "block/file_device.h"
#include "block/host_disk.h"
#include "env/random.h"
#include "extent/record_store.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kPart = kTrialBytes;
constexpr std::uint64_t kFileMin = 8 * kPart;  // less says nothing

// Takes the file away again, also when something fails.
class ProbeFile {
 public:
  explicit ProbeFile(const std::string& folder)
      : path_(folder + "/.larder-probe-" + std::to_string(::getpid()) + "-" +
              std::to_string(env::random_u64())) {}
  ~ProbeFile() { ::unlink(path_.c_str()); }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

Result<env::Nanos> median_flush(DiskTrial& trial, std::uint32_t block_bytes, std::size_t count) {
  std::vector<env::Nanos> times(std::max<std::size_t>(count, 1));
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto block = trial.memory().span().first(block_bytes);
    const std::uint64_t offset = i * block_bytes % kFileMin;
    LARDER_TRY(block::write_all(trial.queue(), offset, block));
    const env::Nanos begin = env::monotonic_now();
    LARDER_TRY(block::flush(trial.queue()));
    times[i] = env::monotonic_now() - begin;
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

Result<void> measure(DiskReport& report, const DiskProbeOptions& options) {
  const std::uint64_t room = std::min(options.file_bytes, report.dir.free / 8) / kPart * kPart;
  if (room < kFileMin) return fail(Code::kExhausted, "too little space to try it");
  const ProbeFile file(report.path);
  block::FileDeviceOptions how;
  how.path = file.path();
  how.create = true;
  how.bytes = room;
  LARDER_ASSIGN(const auto device, block::FileDevice::open(how));
  report.direct = device->direct();
  report.block_bytes = device->geometry().block_bytes;
  LARDER_ASSIGN(const auto trial, DiskTrial::create(*device, room));
  // The first pass is for the file system, which has to note that the blocks were written.
  LARDER_TRY(trial->run(block::OpKind::kWrite, 1, 0));
  LARDER_ASSIGN(report.write_bytes_per_s, trial->run(block::OpKind::kWrite, 1, options.span));
  LARDER_ASSIGN(report.read_bytes_per_s,
                trial->run(block::OpKind::kRead, trial->stride(), options.span));
  LARDER_ASSIGN(report.flush, median_flush(*trial, report.block_bytes, options.flushes));
  report.tried = true;
  return {};
}

// Of the folder's store.
StoreReport probe_folder(const std::string& folder) {
  block::FileDeviceOptions how;
  how.path = folder + "/" + std::string(kStoreName);
  struct stat info {};
  if (::stat(how.path.c_str(), &info) != 0) return {};
  const std::uint64_t bytes = static_cast<std::uint64_t>(info.st_blocks) * 512;
  StoreReport report;
  if (auto device = block::FileDevice::open(how); device) {
    report = probe_store(std::move(*device));
  } else {
    report.in_use = device.error().code() == Code::kConflict;
    report.error = device.error().to_string();
  }
  report.there = true;
  report.bytes = bytes;
  return report;
}

}  // namespace

StoreReport probe_store(std::shared_ptr<block::BlockDevice> device) {
  StoreReport report;
  const std::uint64_t bytes = device->geometry().bytes();
  const auto store = extent::RecordStore::open(std::move(device), {.read_only = true});
  if (!store) {
    report.error = store.error().to_string();
    report.there = store.error().code() != Code::kNotFound;
    return report;
  }
  report.there = true;
  report.bytes = bytes;
  report.uuid = (*store)->uuid().to_string();
  report.owner = (*store)->previous_owner();
  report.clean = (*store)->was_clean();
  return report;
}

DiskReport probe_disk(const DiskSpec& spec, const DiskProbeOptions& options) {
  DiskReport report;
  report.path = spec.path;
  report.asked = spec.bytes;
  report.dir = env::probe_directory(spec.path);
  report.io_uring = env::probe_io_uring();
  struct stat here {};
  struct stat root {};
  if (::stat(spec.path.c_str(), &here) == 0 && ::stat("/", &root) == 0) {
    report.same_as_root = here.st_dev == root.st_dev;
    const std::string number =
        std::to_string(major(here.st_dev)) + ":" + std::to_string(minor(here.st_dev));
    std::error_code ignored;
    if (std::filesystem::exists("/sys/dev/block/" + number, ignored)) {
      report.volatile_cache =
          block::disk_facts(major(here.st_dev), minor(here.st_dev)).volatile_cache;
    }
  }
  if (report.dir.write_errno != 0 || report.dir.in_memory) return report;
  report.store = probe_folder(spec.path);
  if (const auto done = measure(report, options); !done) report.error = done.error().to_string();
  return report;
}

}  // namespace larder::apps
