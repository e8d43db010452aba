// SPDX-License-Identifier: Apache-2.0
#include "env/paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "env/fd.h"
#include "env/socket.h"
#include "larder/client.h"

namespace larder {

std::string default_socket_path() {
  const char* runtime = ::secure_getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::string(runtime) + "/larder/node.sock";
  return "/tmp/larder-" + std::to_string(::geteuid()) + "/node.sock";
}

}  // namespace larder

namespace larder::env {
namespace {

constexpr std::size_t kTokenBytesMin = 16;
constexpr std::size_t kTokenBytesMax = 4096;
constexpr std::size_t kNewlinesMax = 16;  // at the end, cut off

}  // namespace

Result<void> make_private_parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return {};
  const std::string parent = path.substr(0, slash);
  struct stat info {};
  if (::stat(parent.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) return fail(Code::kInvalidArgument, parent + " is not a directory");
    // Who owns the folder can put another socket in the place of ours.
    if (info.st_uid == ::geteuid() || info.st_uid == 0) return {};
    return fail(Code::kPermissionDenied,
                parent + " belongs to another user; choose another socket path");
  }
  LARDER_TRY(make_private_parent(parent));
  if (::mkdir(parent.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return fail(Code::kInvalidArgument, "cannot make " + parent + ": " + errno_text(errno));
}

std::string state_directory() {
  const char* const state = ::secure_getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/larder";
  const char* const home = ::secure_getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.local/state/larder";
  return {};
}

Result<std::string> read_token_file(const std::string& path) {
  struct stat info {};
  // Without O_NONBLOCK a FIFO would keep us waiting for a writer.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    return fail(Code::kInvalidArgument, "token file " + path + ": " + errno_text(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::kInvalidArgument, "token file " + path + " is not a regular file");
  }
  if ((info.st_mode & 0077) != 0) {
    return fail(Code::kInvalidArgument,
                "token file " + path + " can be read by others; chmod 600 it");
  }
  std::string token(kTokenBytesMax + kNewlinesMax + 1, '\0');
  const ssize_t n = ::read(fd.get(), token.data(), token.size());
  token.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.size() < kTokenBytesMin || token.size() > kTokenBytesMax) {
    return fail(Code::kInvalidArgument, "token file " + path + " holds " +
                                            std::to_string(token.size()) +
                                            " bytes; 16 to 4096 are needed");
  }
  return token;
}

}  // namespace larder::env
