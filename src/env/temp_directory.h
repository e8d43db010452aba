// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "larder/status.h"

namespace larder::env {

// A new directory of this user alone (mode 0700) under $TMPDIR, else /tmp; removed, with what is in
// it, in the end.
class TempDirectory {
 public:
  // Named PREFIX-XXXXXX. kInvalidArgument when the place is not writable.
  static Result<TempDirectory> create(std::string_view prefix);
  TempDirectory(TempDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempDirectory& operator=(TempDirectory&&) = delete;
  ~TempDirectory();

  const std::string& path() const noexcept { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  explicit TempDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace larder::env
