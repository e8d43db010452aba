// SPDX-License-Identifier: Apache-2.0
#include "block/device_lock.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "env/socket.h"

namespace larder::block {
namespace {

// "process 1234". A lock of fcntl() would not need /proc/locks for that, but is lost when any
// descriptor of the file is closed, and one of an open file description has no process.
std::string owner_of(int fd) {
  const std::string unknown = "another process";
  struct stat info {};
  if (::fstat(fd, &info) != 0) return unknown;
  char where[64];
  std::snprintf(where, sizeof where, "%02x:%02x:%llu", major(info.st_dev), minor(info.st_dev),
                static_cast<unsigned long long>(info.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, place;
    long process = 0;
    words >> number >> kind >> advisory >> access >> process >> place;
    if (words && kind == "FLOCK" && place == where && process > 0) {
      return "process " + std::to_string(process);
    }
  }
  return unknown;
}

}  // namespace

Result<void> lock_device(const fileio::File& file) {
  int error = 0;
  do {
    error = ::flock(file.buffered_fd(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == 0) return {};
  if (error == EWOULDBLOCK) {
    return fail(Code::kConflict, file.path() + " is in use by " + owner_of(file.buffered_fd()) +
                                     "; a device has one owner: stop that one or take another");
  }
  return fail(error == ENOLCK ? Code::kExhausted : Code::kUnsupported,
              "locking " + file.path() + ": " + env::errno_text(error) +
                  "; put it on a file system that has locks");
}

}  // namespace larder::block
