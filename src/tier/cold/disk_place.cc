// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/disk_place.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/units.h"
#include "block/file_device.h"
#include "env/clock.h"
#include "env/socket.h"
#include "nvmf/host/device.h"
#include "nvmf/host/url.h"

namespace larder::tier {
namespace {

constexpr const char* kStoreFile = "larder.store";
constexpr std::uint32_t kBlockBytes = 4096;
// A value that takes longer is worth less than the miss. What the URL says comes first.
constexpr env::Nanos kRemotePatience = 5 * env::kSecond;
constexpr env::Nanos kRemoteAway = 2 * env::kSecond;  // until a lost target is taken for gone

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

}  // namespace

tl::unexpected<Error> refuse_disk(const std::string& path, const Error& error) {
  return fail(error.code(), "disk " + path + ": " + error.message());
}

bool Location::exists() const {
  struct stat info {};
  return remote || ::stat(path.c_str(), &info) == 0;
}

Result<Location> place_of(const DiskSpec& spec) {
  if (nvmf::is_nvme_url(spec.path)) {
    Location place;
    place.path = spec.path;
    place.remote = true;
    return place;
  }
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

Result<std::shared_ptr<block::BlockDevice>> open_device(const Location& place,
                                                        obs::Registry* metrics) {
  if (place.remote) {
    nvmf::NvmeDeviceOptions remote;
    LARDER_ASSIGN(remote.url, nvmf::parse_nvme_url(place.path));
    remote.metrics = metrics;
    remote.io_timeout = kRemotePatience;
    remote.reattach_timeout = kRemoteAway;
    LARDER_ASSIGN(std::shared_ptr<block::BlockDevice> far, nvmf::NvmeDevice::open(remote));
    return far;
  }
  block::FileDeviceOptions options;
  options.path = place.path;
  options.create = place.create;
  options.bytes = place.bytes;
  LARDER_ASSIGN(std::shared_ptr<block::BlockDevice> device, block::FileDevice::open(options));
  return device;
}

Result<DiskSpec> parse_disk(const std::string& text) {
  DiskSpec spec;
  spec.path = text;
  if (nvmf::is_nvme_url(text)) {
    LARDER_ASSIGN(const nvmf::NvmeUrl url, nvmf::parse_nvme_url(text));
    if (url.nqn.empty()) {
      return fail(Code::kInvalidArgument,
                  "disk " + text +
                      ": the name of the subsystem is missing; `larder nvme discover " + text +
                      "` lists those of this target");
    }
    spec.path = url.to_string();
    return spec;
  }
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

}  // namespace larder::tier
