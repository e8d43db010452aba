// SPDX-License-Identifier: Apache-2.0
#include "env/temp_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "env/socket.h"

namespace larder::env {

Result<TempDirectory> TempDirectory::create(std::string_view prefix) {
  const char* wanted = std::getenv("TMPDIR");
  std::string path = wanted != nullptr && *wanted != '\0' ? wanted : "/tmp";
  path += "/" + std::string(prefix) + "-XXXXXX";
  if (::mkdtemp(path.data()) != nullptr) return TempDirectory(std::move(path));
  return fail(Code::kInvalidArgument, "cannot make a directory " + path + ": " + errno_text(errno) +
                                          "; set TMPDIR to a writable one");
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;  // a leftover directory harms nobody
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace larder::env
