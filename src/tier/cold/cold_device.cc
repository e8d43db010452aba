// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/cold_device.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "env/clock.h"
#include "route/authority.h"
#include "tier/cold/disk_place.h"

namespace larder::tier {
namespace {

constexpr env::Nanos kDirectMax = 50 * env::kMilli;  // that writes stand back for direct reads

// Up to the number of its incarnation ("node-1:7 (process 42)"): those of one node are its heirs.
std::string heir_of(const std::string& owner) {
  return owner.substr(0, owner.rfind(':') + 1);
}

qos::Purpose purpose_of_writes(bool remote) {
  return {remote ? Intent::kRemoteStoreWrite : Intent::kLocalStoreWrite, TrafficClass::kLow};
}

std::optional<DirectName> direct_name_of(const Location& place, const block::Identity& identity) {
  if (place.remote) return DirectName{place.path, 0, 0, identity.id};
  std::error_code error;
  const auto absolute = std::filesystem::absolute(place.path, error);
  struct stat info {};
  if (error || ::stat(absolute.c_str(), &info) != 0) return std::nullopt;
  return DirectName{absolute.string(),
                    static_cast<std::uint64_t>(info.st_dev),
                    static_cast<std::uint64_t>(info.st_ino),
                    {}};
}

}  // namespace

Result<std::uint64_t> ColdDevice::last_epoch(const DiskSpec& spec) {
  LARDER_ASSIGN(const Location place, place_of(spec));
  if (!place.exists()) return 0;
  auto device = open_device({place.path, place.remote, false, std::nullopt}, nullptr);
  if (!device) return refuse_disk(spec.path, device.error());
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
  return refuse_disk(spec.path, store.error());
}

Result<std::shared_ptr<ColdDevice>> ColdDevice::open(const DiskSpec& spec,
                                                     const ColdOptions& options,
                                                     const std::string& owner, std::uint64_t epoch,
                                                     const WrapDevice& wrap) {
  LARDER_ASSIGN(const Location place, place_of(spec));
  auto opened = open_device(place, options.metrics);
  if (!opened) return refuse_disk(spec.path, opened.error());
  std::shared_ptr<block::BlockDevice> device = std::move(*opened);
  if (wrap) device = wrap(std::move(device));
  extent::OpenOptions open_options;
  open_options.owner = owner;
  open_options.epoch = epoch;
  open_options.writes = purpose_of_writes(place.remote);
  std::string held_by;
  if (place.remote && !options.take_over) open_options.heir = heir_of(owner);
  auto store = extent::RecordStore::open(device, open_options, &held_by);
  if (!store && store.error().code() == Code::kNotFound) {
    extent::FormatOptions format_options;
    format_options.record_bytes = options.record_bytes;
    format_options.writes = open_options.writes;
    const auto formatted = extent::format(*device, format_options);
    if (!formatted) return refuse_disk(spec.path, formatted.error());
    store = extent::RecordStore::open(device, open_options, &held_by);
  }
  if (!store && !held_by.empty()) {
    return refuse_disk(spec.path, Error(store.error().code(),
                                        store.error().message() +
                                            "; if it is gone for good, set cold.take_over for one "
                                            "start"));
  }
  if (!store) return refuse_disk(spec.path, store.error());
  std::shared_ptr<ColdDevice> made(new ColdDevice());
  made->path_ = spec.path;
  made->store_ = std::move(*store);
  made->id_ = made->store_->uuid().to_string();
  made->epoch_ = std::max(epoch, made->store_->last_epoch());
  made->remote_ = place.remote;
  if (!wrap) made->direct_name_ = direct_name_of(place, device->identity());
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
  LARDER_ASSIGN(writes_, WriteLane::start(*store_, source, writes, write_purpose()));
  return {};
}

qos::Purpose ColdDevice::write_purpose() const noexcept {
  return purpose_of_writes(remote_);
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
