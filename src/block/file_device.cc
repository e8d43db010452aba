// SPDX-License-Identifier: Apache-2.0
#include "block/file_device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "block/device_lock.h"
#include "block/file_device_state.h"
#include "block/host_disk.h"
#include "fileio/best_backend.h"
#include "fileio/file_errors.h"

namespace larder::block {
namespace {

constexpr std::uint32_t kBlockBytes = 4096;
constexpr std::uint32_t kSectorBytes = 512;
constexpr std::uint32_t kOptimalBytes = 1U << 20U;  // see FileQueueOptions::piece_bytes
constexpr std::size_t kBackendDepthMin = 8;         // a large transfer is cut into pieces

tl::unexpected<Error> refuse(const std::string& path, const std::string& why) {
  return fail(Code::kInvalidArgument, "block device " + path + ": " + why);
}

// A file that was created or grown, and did not come to use after all, is as it was before.
class Undo {
 public:
  Undo(const fileio::File& file, bool created, std::uint64_t bytes)
      : file_(file), created_(created), bytes_(bytes) {}
  ~Undo() {
    if (kept_ || file_.is_device()) return;
    if (created_) {
      ::unlink(file_.path().c_str());
    } else if (file_.size().value_or(bytes_) > bytes_) {
      (void)!::ftruncate(file_.buffered_fd(), static_cast<off_t>(bytes_));
    }
  }
  void keep() noexcept { kept_ = true; }

 private:
  const fileio::File& file_;
  const bool created_;
  const std::uint64_t bytes_;
  bool kept_ = false;
};

struct Opened {
  fileio::File file;
  bool created = false;
};

// Nothing of it is changed yet, beside that it may be new: first the lock, then the rest.
Result<Opened> open_to_lock(const FileDeviceOptions& options) {
  fileio::FileOptions first{.write = true, .direct = fileio::Direct::kNo};
  if (options.create) {
    first.create = first.exclusive = true;
    auto made = fileio::File::open(options.path, first);
    if (made && !made->is_device()) return Opened{std::move(*made), true};
    if (!made && made.error().code() != Code::kAlreadyExists) return fail(made.error());
    first.create = first.exclusive = false;
  }
  LARDER_ASSIGN(auto file, fileio::File::open(options.path, first));
  return Opened{std::move(file), false};
}

Result<void> check_options(const FileDeviceOptions& options) {
  if (options.create && !options.bytes) return refuse(options.path, "`create` needs `bytes`");
  const bool block = options.block_bytes == 0 ||
                     (std::has_single_bit(options.block_bytes) &&
                      options.block_bytes >= kSectorBytes && options.block_bytes <= kBlockBytesMax);
  if (block) return {};
  return refuse(options.path, "block_bytes is a power of two from 512 to 65536");
}

Result<void> check_size(const FileDeviceOptions& options, bool is_device, std::uint64_t now) {
  if (!options.bytes) return {};
  if (is_device) return refuse(options.path, "the size of a disk is given; leave out `bytes`");
  const std::uint32_t block = std::max(options.block_bytes, kSectorBytes);
  if (*options.bytes == 0 || *options.bytes % block != 0) {
    return refuse(options.path, "`bytes` is a multiple of the block of " + std::to_string(block));
  }
  if (now <= *options.bytes) return {};
  return refuse(options.path, "it has " + std::to_string(now) + " bytes, more than the " +
                                  std::to_string(*options.bytes) +
                                  " asked for, and is never shortened; remove it or ask for more");
}

// Reserving would take the last block of the disk from everybody before it fails.
Result<void> check_space(const FileDeviceOptions& options, const fileio::File& file) {
  struct statvfs space {};
  struct stat info {};
  const bool known = options.bytes && options.reserve &&
                     ::fstatvfs(file.buffered_fd(), &space) == 0 && space.f_blocks > 0 &&
                     ::fstat(file.buffered_fd(), &info) == 0;
  if (!known) return {};
  const std::uint64_t has = static_cast<std::uint64_t>(info.st_blocks) * 512;
  const std::uint64_t needed = *options.bytes > has ? *options.bytes - has : 0;
  const std::uint64_t free = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (needed <= free) return {};
  return fail(Code::kExhausted, "block device " + options.path + ": " + std::to_string(needed) +
                                    " more bytes are to be reserved, and " + std::to_string(free) +
                                    " are free on its disk; make room or ask for less");
}

// The file's contents and its name outlive a power cut from here on.
Result<void> settle(const fileio::File& file) {
  if (file.is_device()) return {};
  if (::fsync(file.buffered_fd()) != 0) {
    return fail(fileio::file_error("flushing", file.path(), errno));
  }
  const auto slash = file.path().find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : file.path().substr(0, slash + 1);
  const env::Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) {
    return fail(fileio::file_error("flushing", folder, errno));
  }
  return {};
}

std::string id_of_file(const fileio::File& file) {
  struct statfs info {};
  char text[64];
  // The file system's own number is the same after a restart, which its device number need not be.
  const bool known = ::fstatfs(file.buffered_fd(), &info) == 0 &&
                     (info.f_fsid.__val[0] != 0 || info.f_fsid.__val[1] != 0);
  const auto high = static_cast<unsigned>(known ? info.f_fsid.__val[0] : 0);
  const auto low = static_cast<unsigned>(known ? info.f_fsid.__val[1]
                                               : static_cast<int>(file.identity().device));
  std::snprintf(text, sizeof text, "%08x%08x-%llx", high, low,
                static_cast<unsigned long long>(file.identity().inode));
  return text;
}

void describe_disk(const fileio::File& file, Geometry& geometry, Identity& identity) {
  struct stat info {};
  if (::fstat(file.buffered_fd(), &info) != 0) return;
  const unsigned high = major(info.st_rdev);
  const unsigned low = minor(info.st_rdev);
  const DiskFacts facts = disk_facts(high, low);
  geometry.discard_bytes = facts.discard_bytes;
  geometry.discard_zeroes = false;
  // Through the page cache nothing is durable by itself.
  geometry.volatile_cache = facts.volatile_cache || !file.direct();
  geometry.optimal_bytes = std::max(facts.optimal_bytes, kOptimalBytes);
  identity.kind = "disk";
  identity.id = facts.serial;
  if (identity.id.empty()) identity.id = std::to_string(high) + ":" + std::to_string(low);
}

Result<Geometry> geometry_of(const FileDeviceOptions& options, const fileio::File& file) {
  Geometry geometry;
  const std::uint32_t unit = file.write_unit();
  geometry.block_bytes = options.block_bytes != 0 ? options.block_bytes : kBlockBytes;
  if (options.block_bytes == 0) geometry.block_bytes = std::max(geometry.block_bytes, unit);
  if (geometry.block_bytes % unit != 0) {
    return refuse(options.path,
                  "its blocks are of " + std::to_string(unit) + " bytes or a multiple of that");
  }
  geometry.memory_alignment = file.memory_alignment();
  geometry.sector_bytes = file.direct() ? file.offset_alignment() : kSectorBytes;
  geometry.sector_bytes = std::min(geometry.sector_bytes, geometry.block_bytes);
  LARDER_ASSIGN(const std::uint64_t bytes, file.size());
  geometry.blocks = bytes / geometry.block_bytes;
  geometry.transfer_max = FileDevice::kTransferMax;
  geometry.optimal_bytes = kOptimalBytes;
  geometry.discard_bytes = geometry.block_bytes;
  geometry.discard_zeroes = true;
  // Where they are written from memory, it is zeroes().
  if (geometry.memory_alignment <= kZeroesAlignment) geometry.zeroes_max = FileDevice::kZeroesMax;
  if (geometry.blocks == 0 || geometry.bytes() < options.bytes_min) {
    return refuse(options.path, "it has " + std::to_string(bytes) + " bytes, at least " +
                                    std::to_string(std::max<std::uint64_t>(options.bytes_min,
                                                                           geometry.block_bytes)) +
                                    " are needed");
  }
  return geometry;
}

Result<fileio::File> open_to_use(const FileDeviceOptions& options, const fileio::File& locked) {
  fileio::FileOptions how{.write = true, .direct = options.direct};
  how.exclusive = locked.is_device();  // also keeps mounts away
  how.size = options.bytes;
  how.reserve = options.bytes && options.reserve;
  LARDER_ASSIGN(auto file, fileio::File::open(options.path, how));
  if (!(file.identity() == locked.identity())) {
    return fail(Code::kConflict, options.path + " was replaced while it was opened; try again");
  }
  return file;
}

}  // namespace

Result<std::shared_ptr<FileDevice>> FileDevice::open(const FileDeviceOptions& options) {
  LARDER_TRY(check_options(options));
  LARDER_ASSIGN(Opened locked, open_to_lock(options));
  // Before the undoing: what another owner has is left alone.
  LARDER_TRY(lock_device(locked.file));
  LARDER_ASSIGN(const std::uint64_t before, locked.file.size());
  Undo undo(locked.file, locked.created, before);
  LARDER_TRY(check_size(options, locked.file.is_device(), before));
  LARDER_TRY(check_space(options, locked.file));
  LARDER_ASSIGN(auto file, open_to_use(options, locked.file));
  LARDER_ASSIGN(Geometry geometry, geometry_of(options, file));
  Identity identity{"file", options.path, id_of_file(file)};
  if (file.is_device()) describe_disk(file, geometry, identity);
  LARDER_TRY(check(geometry));
  if (options.bytes) LARDER_TRY(settle(file));
  undo.keep();
  auto state = std::make_shared<FileDeviceState>(std::move(locked.file), std::move(file),
                                                 options.bytes && options.reserve);
  auto books = std::make_shared<DeviceBooks>(geometry, std::move(identity), options.health);
  const MakeBackend make = options.make_backend ? options.make_backend : fileio::best_backend;
  return std::shared_ptr<FileDevice>(
      new FileDevice(std::move(books), std::move(state), make, options.health));
}

FileDevice::FileDevice(std::shared_ptr<DeviceBooks> books, std::shared_ptr<FileDeviceState> state,
                       MakeBackend make_backend, const HealthLimits& health)
    : BlockDevice(std::move(books)),
      state_(std::move(state)),
      make_backend_(std::move(make_backend)),
      health_limits_(health) {}

FileDevice::~FileDevice() = default;

Result<std::uint64_t> FileDevice::bytes_now() const {
  LARDER_ASSIGN(const std::uint64_t bytes, state_->file().size());
  return bytes / geometry().block_bytes * geometry().block_bytes;
}

Result<std::shared_ptr<FileDevice>> FileDevice::grown() const {
  const Health now = health();
  if (now.state == HealthState::kFailed) {
    return fail(Code::kUnavailable,
                "block device " + identity().name + " has failed: " + now.reason);
  }
  LARDER_ASSIGN(const std::uint64_t bytes, bytes_now());
  Geometry larger = geometry();
  if (bytes <= larger.bytes()) return refuse(identity().name, "it has not grown");
  larger.blocks = bytes / larger.block_bytes;
  LARDER_TRY(check(larger));
  auto grown = std::make_shared<DeviceBooks>(larger, identity(), health_limits_);
  return std::shared_ptr<FileDevice>(
      new FileDevice(std::move(grown), state_, make_backend_, health_limits_));
}

Result<std::unique_ptr<BlockQueue>> FileDevice::make_queue(std::size_t depth) {
  LARDER_ASSIGN(auto backend, make_backend_(std::max(depth, kBackendDepthMin)));
  return make_file_queue(books(), state_, std::move(backend), depth);
}

bool FileDevice::add_buffer(std::span<std::byte> memory) {
  return state_->add_buffer(memory);
}

void FileDevice::remove_buffer(std::span<std::byte> memory) {
  state_->remove_buffer(memory);
}

bool FileDevice::direct() const noexcept {
  return state_->file().direct();
}

}  // namespace larder::block
