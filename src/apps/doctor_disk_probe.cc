// SPDX-License-Identifier: Apache-2.0
// The part of `larder doctor --disk` that touches the disk.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>

#include "apps/doctor_disk.h"
#include "block/aligned_buffer.h"
#include "block/blocking.h"
#include "block/file_device.h"
#include "block/host_disk.h"
#include "env/random.h"
#include "extent/record_store.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kPart = 1U << 20U;           // of the file: what one operation moves
constexpr std::uint64_t kFileMin = 8 * kPart;        // less says nothing
constexpr env::Nanos kPatience = 30 * env::kSecond;  // with one operation

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

// Reads or writes 1 MiB at a time, with kDiskDepth in flight.
class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(block::BlockDevice& device) {
    std::unique_ptr<Runner> made(new Runner);
    LARDER_ASSIGN(made->memory_, block::AlignedBuffer::create(kDiskDepth * kPart, kPart));
    // What can be compressed or deduplicated would flatter some disks.
    env::random_bytes(made->memory_.span());
    for (std::size_t i = 0; i < kDiskDepth; ++i) {
      made->pieces_[i] = {made->memory_.data() + i * kPart, kPart};
    }
    LARDER_ASSIGN(made->queue_, device.open_queue(kDiskDepth));
    made->parts_ = device.geometry().bytes() / kPart;
    return made;
  }

  block::BlockQueue& queue() noexcept { return *queue_; }
  block::AlignedBuffer& memory() noexcept { return memory_; }

  // Bytes per second over `span`, and over the whole file once. Places are `stride` apart.
  Result<double> run(block::OpKind kind, std::uint64_t stride, env::Nanos span) {
    const env::Nanos begin = env::monotonic_now();
    next_ = 0;
    done_ = 0;
    for (std::size_t i = 0; i < kDiskDepth; ++i) LARDER_TRY(submit(kind, i, stride));
    while (queue_->in_flight() > 0) {
      std::array<block::BlockDone, kDiskDepth> ended;
      const std::size_t count = queue_->wait(ended, env::monotonic_now() + kPatience);
      if (count == 0) return fail(Code::kDeadlineExceeded, "the disk did not answer for 30 s");
      const bool more = next_ < parts_ || env::monotonic_now() - begin < span;
      for (std::size_t i = 0; i < count; ++i) {
        if (!ended[i].ok()) return fail(block::describe(queue_->identity(), ended[i]));
        ++done_;
        if (more) LARDER_TRY(submit(kind, ended[i].tag, stride));
      }
    }
    if (kind == block::OpKind::kWrite) LARDER_TRY(block::flush(*queue_));
    const auto seconds =
        static_cast<double>(std::max<env::Nanos>(env::monotonic_now() - begin, env::kMicro)) / 1e9;
    return static_cast<double>(done_ * kPart) / seconds;
  }

 private:
  Runner() = default;

  Result<void> submit(block::OpKind kind, std::uint64_t piece, std::uint64_t stride) {
    const std::uint64_t offset = next_++ * stride % parts_ * kPart;
    const std::span<const block::Piece> pieces(&pieces_[piece], 1);
    return queue_->submit({kind, offset, pieces, 0, piece, {}, 0});
  }

  block::AlignedBuffer memory_;  // outlives the queue, whose operations use it
  std::array<block::Piece, kDiskDepth> pieces_{};
  std::unique_ptr<block::BlockQueue> queue_;
  std::uint64_t parts_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t done_ = 0;
};

Result<env::Nanos> median_flush(Runner& runner, std::uint32_t block_bytes, std::size_t count) {
  std::vector<env::Nanos> times(std::max<std::size_t>(count, 1));
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto block = runner.memory().span().first(block_bytes);
    const std::uint64_t offset = i * block_bytes % kFileMin;
    LARDER_TRY(block::write_all(runner.queue(), offset, block));
    const env::Nanos begin = env::monotonic_now();
    LARDER_TRY(block::flush(runner.queue()));
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
  LARDER_ASSIGN(const auto runner, Runner::create(*device));
  // The first pass is for the file system, which has to note that the blocks were written.
  LARDER_TRY(runner->run(block::OpKind::kWrite, 1, 0));
  LARDER_ASSIGN(report.write_bytes_per_s, runner->run(block::OpKind::kWrite, 1, options.span));
  // A step that shares no factor with the count visits every part, and none after its neighbour.
  const std::uint64_t stride = room / kPart % 7 == 0 ? 11 : 7;
  LARDER_ASSIGN(report.read_bytes_per_s, runner->run(block::OpKind::kRead, stride, options.span));
  LARDER_ASSIGN(report.flush, median_flush(*runner, report.block_bytes, options.flushes));
  report.tried = true;
  return {};
}

// Reads the superblocks, and nothing but those.
StoreReport probe_store(const std::string& folder) {
  StoreReport report;
  block::FileDeviceOptions how;
  how.path = folder + "/" + std::string(kStoreName);
  struct stat info {};
  if (::stat(how.path.c_str(), &info) != 0) return report;
  report.there = true;
  report.bytes = static_cast<std::uint64_t>(info.st_blocks) * 512;
  auto device = block::FileDevice::open(how);
  if (!device) {
    report.in_use = device.error().code() == Code::kConflict;
    report.error = device.error().to_string();
    return report;
  }
  const auto store = extent::RecordStore::open(std::move(*device), {.read_only = true});
  if (!store) {
    report.error = store.error().to_string();
    return report;
  }
  report.uuid = (*store)->uuid().to_string();
  report.owner = (*store)->previous_owner();
  report.clean = (*store)->was_clean();
  return report;
}

}  // namespace

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
  report.store = probe_store(spec.path);
  if (const auto done = measure(report, options); !done) report.error = done.error().to_string();
  return report;
}

}  // namespace larder::apps
