// SPDX-License-Identifier: Apache-2.0
// The file that the file cases and the disk limit use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "env/fd.h"
#include "larder/status.h"

namespace larder::apps {

// All of its blocks are taken and written once, so that no access finds a hole. It has no name
// any more: nothing is left behind however this process ends.
class DiskFile {
 public:
  // `bytes` in whole pages, filled by fill_pages(seed). kInvalidArgument: the directory is not
  // writable; kExhausted: no room.
  static Result<std::unique_ptr<DiskFile>> create(const std::string& directory, std::uint64_t bytes,
                                                  std::uint64_t seed);

  // `bytes` of one that is there, from `begin` on, for reading.
  static Result<std::unique_ptr<DiskFile>> open(const std::string& path, std::uint64_t begin,
                                                std::uint64_t bytes);

  // Past the page cache where direct().
  int fd() const noexcept { return direct_ ? direct_fd_.get() : fd_.get(); }
  bool direct() const noexcept { return direct_; }
  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  // By which this process can open it again.
  std::string path() const;

 private:
  DiskFile() = default;
  Result<void> fill();
  env::Fd fd_;
  env::Fd direct_fd_;
  bool direct_ = false;
  std::uint64_t begin_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace larder::apps
