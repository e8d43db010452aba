// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/disk_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "apps/bench/memory.h"
#include "apps/bench/page_pattern.h"
#include "base/units.h"
#include "env/socket.h"

namespace larder::apps {
namespace {

constexpr std::size_t kFillBytes = 4 << 20;

Result<env::Fd> make_file(const std::string& directory) {
  std::string path = directory + "/larder-bench-XXXXXX";
  env::Fd fd(::mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) {
    return fail(Code::kInvalidArgument,
                fmt::format("cannot make a file in {}: {} (--dir names another directory)",
                            base::quoted(directory, 256), env::errno_text(errno)));
  }
  ::unlink(path.c_str());
  return fd;
}

std::string path_of(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

// Where the file system cannot reserve, a full disk shows when the file is filled.
Result<void> reserve(int fd, std::uint64_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  const bool sized = ::ftruncate(fd, size) == 0;
  if (sized && (::fallocate(fd, 0, 0, size) == 0 || errno == EOPNOTSUPP)) return {};
  return fail(Code::kExhausted,
              fmt::format("no room for a file of {}: {} (a smaller --file-bytes, or another --dir)",
                          base::format_size(bytes), env::errno_text(errno)));
}

Result<void> write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return fail(Code::kExhausted,
                  "cannot write the benchmark's file: " + env::errno_text(n == 0 ? EIO : errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DiskFile>> DiskFile::create(const std::string& directory,
                                                   std::uint64_t bytes, std::uint64_t seed) {
  std::unique_ptr<DiskFile> file(new DiskFile());
  file->bytes_ = bytes / kPatternPageBytes * kPatternPageBytes;
  file->seed_ = seed;
  LARDER_ASSIGN(file->fd_, make_file(directory));
  LARDER_TRY(reserve(file->fd_.get(), file->bytes_));
  file->direct_fd_.reset(::open(file->path().c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  file->direct_ = file->direct_fd_.valid();
  LARDER_TRY(file->fill());
  return file;
}

Result<std::unique_ptr<DiskFile>> DiskFile::open(const std::string& path, std::uint64_t begin,
                                                 std::uint64_t bytes) {
  std::unique_ptr<DiskFile> file(new DiskFile());
  file->begin_ = begin;
  file->bytes_ = bytes / kPatternPageBytes * kPatternPageBytes;
  file->fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file->fd_.valid()) {
    return fail(Code::kUnavailable, "cannot open " + path + ": " + env::errno_text(errno));
  }
  file->direct_fd_.reset(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  file->direct_ = file->direct_fd_.valid();
  return file;
}

std::string DiskFile::path() const {
  return path_of(fd_.get());
}

Result<void> DiskFile::fill() {
  LARDER_ASSIGN(const Mapping buffer, Mapping::private_memory(kFillBytes));
  for (std::uint64_t at = 0; at < bytes_; at += kFillBytes) {
    const auto part = buffer.bytes().first(std::min<std::uint64_t>(kFillBytes, bytes_ - at));
    fill_pages(part, seed_, at / kPatternPageBytes);
    LARDER_TRY(write_all_at(fd(), part, at));
  }
  if (::fsync(fd_.get()) != 0) {
    return fail(Code::kExhausted, "cannot write the benchmark's file: " + env::errno_text(errno));
  }
  return {};
}

}  // namespace larder::apps
