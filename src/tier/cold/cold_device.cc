// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/cold_device.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/units.h"
#include "block/file_device.h"
#include "env/clock.h"
#include "env/socket.h"
#include "route/authority.h"

namespace larder::tier {
namespace {

constexpr const char* kStoreFile = "larder.store";
constexpr std::uint32_t kBlockBytes = 4096;
constexpr env::Nanos kDirectMax = 50 * env::kMilli;  // that writes stand back for direct reads

// What is to be opened, and made where it is not.
struct Location {
  std::string path;
  bool create = false;
  std::optional<std::uint64_t> bytes;
};

tl::unexpected<Error> refuse(const std::string& path, const Error& error) {
  return fail(error.code(), "disk " + path + ": " + error.message());
}

Result<Location> in_directory(const DiskSpec& spec) {
  Location place;
  place.path = spec.path + "/" + kStoreFile;
  struct stat info {};
  if (::stat(place.path.c_str(), &info) == 0 && info.st_size > 0) {
    const auto bytes = static_cast<std::uint64_t>(info.st_size);
    if (spec.bytes != 0 && spec.bytes / kBlockBytes != bytes / kBlockBytes) {
      return fail(Code::kInvalidArgument,
                  "disk " + spec.path + ": the store there has " + base::format_size(bytes) +
                      ", not the " + base::format_size(spec.bytes) +
                      " asked for; give no size to use it as it is, or another directory");
    }
    return place;
  }
  place.create = true;
  place.bytes = spec.bytes / kBlockBytes * kBlockBytes;
  if (spec.bytes == 0) {
    std::error_code error;
    const auto space = std::filesystem::space(spec.path, error);
    if (error) return fail(Code::kUnavailable, "disk " + spec.path + ": " + error.message());
    place.bytes = space.available / 2 / kBlockBytes * kBlockBytes;
  }
  return place;
}

Result<Location> place_of(const DiskSpec& spec) {
  struct stat info {};
  if (::stat(spec.path.c_str(), &info) != 0) {
    if (errno != ENOENT) {
      return fail(Code::kUnavailable, "disk " + spec.path + ": " + env::errno_text(errno));
    }
    if (::mkdir(spec.path.c_str(), 0700) != 0) {
      return fail(Code::kNotFound,
                  "disk " + spec.path + ": making this directory: " + env::errno_text(errno));
    }
    return in_directory(spec);
  }
  if (S_ISDIR(info.st_mode)) return in_directory(spec);
  Location place;
  place.path = spec.path;
  if (S_ISREG(info.st_mode) && spec.bytes != 0) place.bytes = spec.bytes;
  return place;
}

std::optional<SharedFile> shared_file_at(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  struct stat info {};
  if (error || ::stat(absolute.c_str(), &info) != 0) return std::nullopt;
  return SharedFile{absolute.string(), static_cast<std::uint64_t>(info.st_dev),
                    static_cast<std::uint64_t>(info.st_ino)};
}

Result<std::shared_ptr<block::BlockDevice>> open_device(const Location& place) {
  block::FileDeviceOptions options;
  options.path = place.path;
  options.create = place.create;
  options.bytes = place.bytes;
  LARDER_ASSIGN(std::shared_ptr<block::BlockDevice> device, block::FileDevice::open(options));
  return device;
}

}  // namespace

Result<DiskSpec> parse_disk(const std::string& text) {
  DiskSpec spec;
  spec.path = text;
  // A colon may be part of a path; a size behind one is not.
  if (const std::size_t colon = text.rfind(':'); colon != std::string::npos) {
    if (const auto bytes = base::parse_size(text.substr(colon + 1)); bytes) {
      spec.path = text.substr(0, colon);
      spec.bytes = *bytes;
    } else if (text.find('/', colon) == std::string::npos) {
      return fail(Code::kInvalidArgument, "disk " + text + ": " + bytes.error().message() +
                                              "; a disk is PATH or PATH:SIZE");
    }
  }
  if (spec.path.empty()) return fail(Code::kInvalidArgument, "a disk is PATH or PATH:SIZE");
  while (spec.path.size() > 1 && spec.path.back() == '/') spec.path.pop_back();
  return spec;
}

Result<std::uint64_t> ColdDevice::last_epoch(const DiskSpec& spec) {
  LARDER_ASSIGN(const Location place, place_of(spec));
  struct stat info {};
  if (::stat(place.path.c_str(), &info) != 0) return 0;
  auto device = open_device({place.path, false, std::nullopt});
  if (!device) return refuse(spec.path, device.error());
  extent::OpenOptions options;
  options.read_only = true;
  auto store = extent::RecordStore::open(std::move(*device), options);
  if (store) {
    const std::uint64_t epoch = (*store)->last_epoch();
    if (epoch < route::kEpochMax) return epoch;
    return fail(Code::kCorrupt, "disk " + spec.path +
                                    ": its superblock has seen more incarnations (" +
                                    std::to_string(epoch) + ") than there can be");
  }
  if (store.error().code() == Code::kNotFound) return 0;
  return refuse(spec.path, store.error());
}

Result<std::shared_ptr<ColdDevice>> ColdDevice::open(const DiskSpec& spec,
                                                     const ColdOptions& options,
                                                     const std::string& owner, std::uint64_t epoch,
                                                     const WrapDevice& wrap) {
  LARDER_ASSIGN(const Location place, place_of(spec));
  auto opened = open_device(place);
  if (!opened) return refuse(spec.path, opened.error());
  std::shared_ptr<block::BlockDevice> device = std::move(*opened);
  if (wrap) device = wrap(std::move(device));
  extent::OpenOptions open_options;
  open_options.owner = owner;
  open_options.epoch = epoch;
  auto store = extent::RecordStore::open(device, open_options);
  if (!store && store.error().code() == Code::kNotFound) {
    extent::FormatOptions format_options;
    format_options.record_bytes = options.record_bytes;
    const auto formatted = extent::format(*device, format_options);
    if (!formatted) return refuse(spec.path, formatted.error());
    store = extent::RecordStore::open(device, open_options);
  }
  if (!store) return refuse(spec.path, store.error());
  std::shared_ptr<ColdDevice> made(new ColdDevice());
  made->path_ = spec.path;
  made->store_ = std::move(*store);
  made->id_ = made->store_->uuid().to_string();
  made->epoch_ = std::max(epoch, made->store_->last_epoch());
  if (!wrap) made->shared_file_ = shared_file_at(place.path);
  return made;
}

Result<void> ColdDevice::start(std::uint8_t number, WriteSource& source,
                               const ColdOptions& options) {
  number_ = number;
  LARDER_ASSIGN(RecordIndex index,
                RecordIndex::create(static_cast<std::uint32_t>(store_->stats().cells)));
  index_ = std::make_unique<RecordIndex>(std::move(index));
  extent::ReaderOptions reads;
  reads.depth = options.read_depth;
  LARDER_ASSIGN(reads_, ReadLane::start(*store_, reads));
  extent::WriterOptions writes;
  writes.depth = options.write_depth;
  // Groups as large as DRAM can spare: a flush costs the same whatever it covers.
  writes.records_max = 512;
  writes.bytes_max = 256U << 20U;
  writes.group_records = 128;
  writes.group_bytes = 128U << 20U;
  LARDER_ASSIGN(writes_, WriteLane::start(*store_, source, writes));
  return {};
}

ColdDevice::~ColdDevice() {
  static_cast<void>(stop());
}

Result<void> ColdDevice::stop() {
  if (std::exchange(stopped_, true)) return {};
  if (writes_) writes_->stop();
  if (reads_) reads_->stop();
  return store_->close();
}

void ColdDevice::note_direct_read(std::uint64_t bytes) noexcept {
  counters_.direct.fetch_add(1, std::memory_order_relaxed);
  counters_.direct_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const env::Nanos now = env::monotonic_now();
  const env::Nanos begin = std::max(now, direct_until_.load(std::memory_order_relaxed));
  const auto takes = static_cast<env::Nanos>(bytes);  // at 1 GB/s
  direct_until_.store(std::min(begin + takes, now + kDirectMax), std::memory_order_relaxed);
}

bool ColdDevice::reads_waiting() const noexcept {
  return reads_->outstanding() > 0 ||
         env::monotonic_now() < direct_until_.load(std::memory_order_relaxed);
}

std::string ColdDevice::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void ColdDevice::set_last_error(std::string text) {
  const std::lock_guard lock(mutex_);
  last_error_ = std::move(text);
}

}  // namespace larder::tier
