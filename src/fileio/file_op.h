// SPDX-License-Identifier: Apache-2.0
// What a FileQueue takes and gives back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fileio/file.h"
#include "larder/status.h"

namespace larder::fileio {

enum class FileOpKind : std::uint8_t {
  kRead = 0,
  kWrite = 1,
  kFlush = 2,  // makes durable what writes that had ended before it was submitted wrote
};

inline constexpr std::uint64_t kFileOpBytesMax = std::uint64_t{1} << 40;

// One operation. The file and the memory stay as they are until it has ended.
struct FileOp {
  FileOpKind kind = FileOpKind::kRead;
  const File* file = nullptr;
  std::uint64_t offset = 0;     // bytes; any alignment
  std::byte* memory = nullptr;  // any alignment; of a write only read from
  std::uint64_t bytes = 0;      // 1 to kFileOpBytesMax; a flush has none
  std::uint64_t tag = 0;        // comes back in FileDone; need not be unique

  static FileOp read(const File& file, std::uint64_t offset, std::span<std::byte> into,
                     std::uint64_t tag) noexcept {
    return {FileOpKind::kRead, &file, offset, into.data(), into.size(), tag};
  }
  static FileOp write(const File& file, std::uint64_t offset, std::span<const std::byte> from,
                      std::uint64_t tag) noexcept {
    // Reads and writes share one struct all the way to the kernel, which keeps its promise.
    return {FileOpKind::kWrite, &file, offset, const_cast<std::byte*>(from.data()),
            from.size(),        tag};
  }
  static FileOp flush(const File& file, std::uint64_t tag) noexcept {
    return {FileOpKind::kFlush, &file, 0, nullptr, 0, tag};
  }
};

// The end of one operation: from here on nothing touches its memory or its file.
struct FileDone {
  std::uint64_t tag = 0;
  // kOk, or:
  //   kConflict      the file ended inside the range of a read: at `position`
  //   kCancelled     cancel() or quiesce() stopped it
  //   kUnavailable   the disk fails; or the backend died or lost it (sys_errno 0)
  //   others         what sys_errno means: see describe()
  Code code = Code::kOk;
  int sys_errno = 0;           // 0: none
  std::uint64_t bytes = 0;     // the whole length when kOk, else 0: any part may have moved
  std::uint64_t position = 0;  // where in the file it failed, in bytes
  FileOpKind kind = FileOpKind::kRead;
  const File* file = nullptr;
  std::uint64_t offset = 0;

  bool ok() const noexcept { return code == Code::kOk; }
};

// The error in words, with path and what to do. Its file must still be there. Not for kOk.
Error describe(const FileDone& done);

}  // namespace larder::fileio
