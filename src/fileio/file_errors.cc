// SPDX-License-Identifier: Apache-2.0
#include "fileio/file_errors.h"

#include <array>
#include <cerrno>

#include "env/socket.h"

namespace larder::fileio {
namespace {

struct Meaning {
  int error;
  Code code;
  const char* mend;  // after "; "
};

// house: table
constexpr std::array kMeanings = {
    Meaning{ENOENT, Code::kNotFound, "check the path, or let it be created"},
    Meaning{ENOTDIR, Code::kNotFound, "a part of the path is not a folder"},
    Meaning{EEXIST, Code::kAlreadyExists, "remove it or take another name"},
    Meaning{EACCES, Code::kPermissionDenied, "give this user the right to it"},
    Meaning{EPERM, Code::kPermissionDenied, "give this user the right to it"},
    Meaning{EROFS, Code::kPermissionDenied, "its file system is mounted read-only"},
    Meaning{ETXTBSY, Code::kConflict, "it is a program that runs"},
    Meaning{EBUSY, Code::kConflict, "somebody else holds it, a mount perhaps"},
    Meaning{EISDIR, Code::kInvalidArgument, "name a file in it"},
    Meaning{ELOOP, Code::kInvalidArgument, "its links lead in a circle"},
    Meaning{ENAMETOOLONG, Code::kInvalidArgument, "take a shorter path"},
    Meaning{EBADF, Code::kInvalidArgument, "the file is not open for that"},
    Meaning{EINVAL, Code::kInvalidArgument, "the file system does not take this request"},
    Meaning{EFAULT, Code::kInvalidArgument, "the memory is not mapped"},
    Meaning{EFBIG, Code::kTooLarge, "it would pass the limit for one file"},
    Meaning{EOVERFLOW, Code::kTooLarge, "it would pass the limit for one file"},
    Meaning{ENOSPC, Code::kExhausted, "make room on its disk"},
    Meaning{EDQUOT, Code::kExhausted, "raise this user's quota there"},
    Meaning{EMFILE, Code::kExhausted, "raise the limit of open files (ulimit -n)"},
    Meaning{ENFILE, Code::kExhausted, "raise fs.file-max"},
    Meaning{ENOMEM, Code::kExhausted, "the kernel is short of memory"},
    Meaning{EAGAIN, Code::kBackpressure, "the kernel is out of requests; try again later"},
    Meaning{EINTR, Code::kBackpressure, "try again"},
    Meaning{EOPNOTSUPP, Code::kUnsupported, "take another file system"},
    Meaning{ENOSYS, Code::kUnsupported, "take another file system"},
    Meaning{ECANCELED, Code::kUnavailable, "the kernel gave it up"},
    Meaning{EIO, Code::kUnavailable, "the disk fails; look into the kernel's log"},
    Meaning{ENXIO, Code::kUnavailable, "there is no device behind it"},
    Meaning{ENODEV, Code::kUnavailable, "there is no device behind it"},
    Meaning{ESTALE, Code::kUnavailable, "its server no longer knows it; open it again"},
};

const Meaning* find(int error) noexcept {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.error == error) return &meaning;
  }
  return nullptr;
}

}  // namespace

Code code_of_errno(int error) noexcept {
  const Meaning* meaning = find(error);
  return meaning != nullptr ? meaning->code : Code::kUnavailable;
}

Error file_error(std::string_view doing, const std::string& path, int error) {
  std::string text(doing);
  text += " " + path + ": " + env::errno_text(error);
  if (const Meaning* meaning = find(error); meaning != nullptr) {
    text += std::string("; ") + meaning->mend;
  }
  return {code_of_errno(error), std::move(text)};
}

}  // namespace larder::fileio
