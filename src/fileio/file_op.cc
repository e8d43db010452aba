// SPDX-License-Identifier: Apache-2.0
#include "fileio/file_op.h"

#include <string>

#include "fileio/file_errors.h"

namespace larder::fileio {
namespace {

const char* doing(FileOpKind kind) noexcept {
  switch (kind) {
    case FileOpKind::kRead:
      return "reading";
    case FileOpKind::kWrite:
      return "writing";
    case FileOpKind::kFlush:
      return "flushing";
  }
  return "using";
}

}  // namespace

Error describe(const FileDone& done) {
  const std::string path = done.file != nullptr ? done.file->path() : "(no file)";
  const std::string at = "at byte " + std::to_string(done.position) + " of";
  if (done.sys_errno != 0) {
    const std::string what = std::string(doing(done.kind)) + " " + at;
    return {done.code, file_error(what, path, done.sys_errno).message()};
  }
  switch (done.code) {
    case Code::kConflict:
      return {done.code,
              path + " ends at " + std::to_string(done.position) + " (truncated while in use?)"};
    case Code::kCancelled:
      return {done.code, std::string(doing(done.kind)) + " " + path + " was stopped on request"};
    default:
      return {done.code, std::string(doing(done.kind)) + " " + path +
                             ": the file queue's backend broke or lost it; use a new queue"};
  }
}

}  // namespace larder::fileio
