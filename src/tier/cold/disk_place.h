// SPDX-License-Identifier: Apache-2.0
// What the name of a disk stands for, and how it is opened.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "block/block_device.h"
#include "larder/status.h"
#include "tier/cold/cold_options.h"

namespace larder::tier {

struct Location {
  std::string path;  // of a file or disk, or the URL of a remote namespace
  bool remote = false;
  bool create = false;                 // of a file that is not there
  std::optional<std::uint64_t> bytes;  // of a file: made, or grown, to so many

  // Something may be there to be read.
  bool exists() const;
};

// Makes the directory that a disk is to be in, and nothing else. Errors name the disk.
Result<Location> place_of(const DiskSpec& spec);
Result<std::shared_ptr<block::BlockDevice>> open_device(const Location& place,
                                                        obs::Registry* metrics);
// The error of a disk, with its name before it.
tl::unexpected<Error> refuse_disk(const std::string& path, const Error& error);

}  // namespace larder::tier
