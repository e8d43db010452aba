// SPDX-License-Identifier: Apache-2.0
#include "fileio/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>

#include "fileio/direct_io.h"
#include "fileio/file_errors.h"

namespace larder::fileio {
namespace {

constexpr std::uint64_t kSizeMax = std::numeric_limits<off_t>::max();
// Of file systems that prefer very large ones, only the page cache's part matters here.
constexpr std::uint32_t kWriteUnitMax = 64U << 10U;

// Never blocks, not on a pipe either; the flag must go again, or io_uring would answer EAGAIN.
Result<env::Fd> open_at_once(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return fail(file_error("opening", path, errno));
  env::Fd owned(fd);
  const int now = ::fcntl(fd, F_GETFL);
  if (now < 0 || ::fcntl(fd, F_SETFL, now & ~O_NONBLOCK) != 0) {
    return fail(file_error("opening", path, errno));
  }
  return owned;
}

FileIdentity identity_of(const struct stat& info) noexcept {
  return {info.st_dev, info.st_ino};
}

int access_flags(const FileOptions& options) noexcept {
  if (!options.write) return O_RDONLY;
  return options.read ? O_RDWR : O_WRONLY;
}

Result<void> check_options(const std::string& path, const FileOptions& o) {
  const char* wrong = nullptr;
  if (path.empty()) wrong = "the path is empty";
  if (path.find('\0') != std::string::npos) wrong = "the path has a zero byte in it";
  if (!o.read && !o.write) wrong = "neither `read` nor `write` is asked for";
  if (!o.write && (o.create || o.size)) wrong = "`create` and `size` need `write`";
  if (o.size && *o.size > kSizeMax) wrong = "the size is out of range";
  if (o.reserve && !o.size) wrong = "`reserve` needs `size`";
  if (wrong == nullptr) return {};
  return fail(Code::kInvalidArgument, "opening '" + path + "': " + wrong);
}

}  // namespace

Result<File> File::open(const std::string& path, const FileOptions& options) {
  LARDER_TRY(check_options(path, options));
  File file(path, options);
  LARDER_TRY(file.open_first());
  if (options.size) LARDER_TRY(file.set_size());
  if (options.direct != Direct::kNo) LARDER_TRY(file.open_direct());
  return file;
}

Result<void> File::open_first() {
  int flags = access_flags(options_);
  if (options_.create) flags |= O_CREAT;
  if (options_.exclusive) flags |= O_EXCL;
  // O_EXCL alone is for devices; a file that must be new is one that is created.
  struct stat info {};
  const bool there = ::stat(path_.c_str(), &info) == 0;
  if (options_.exclusive && there) {
    if (!S_ISBLK(info.st_mode)) return fail(file_error("opening", path_, EEXIST));
    flags &= ~O_CREAT;
  }
  LARDER_ASSIGN(fd_, open_at_once(path_, flags));
  if (::fstat(fd_.get(), &info) != 0) return fail(file_error("opening", path_, errno));
  if (S_ISDIR(info.st_mode)) return fail(file_error("opening", path_, EISDIR));
  is_device_ = S_ISBLK(info.st_mode);
  if (!is_device_ && !S_ISREG(info.st_mode)) {
    return fail(Code::kInvalidArgument,
                "opening " + path_ + ": neither a file nor a block device; name one of these");
  }
  identity_ = identity_of(info);
  preferred_block_ = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(info.st_blksize, 0, std::int64_t{kWriteUnitMax}));
  return {};
}

// A second descriptor, because the first goes on to serve edges through the page cache.
Result<void> File::open_direct() {
  rewrites_edges_ = options_.write && (options_.edge_writes == EdgeWrites::kRewrite ||
                                       (options_.edge_writes == EdgeWrites::kAuto && is_device_));
  // Who rewrites a block reads it first, also in a file that is open for writing alone.
  const int access = rewrites_edges_ ? O_RDWR : access_flags(options_);
  auto opened = open_at_once(path_, access | O_DIRECT);
  std::optional<DirectLimits> limits;
  if (opened) {
    struct stat info {};
    if (::fstat(opened->get(), &info) != 0) return fail(file_error("opening", path_, errno));
    if (identity_of(info) != identity_) {
      return fail(Code::kConflict, "opening " + path_ + ": it was replaced meanwhile; try again");
    }
    limits = direct_limits(opened->get(), is_device_);
  } else if (opened.error().code() != Code::kInvalidArgument &&
             opened.error().code() != Code::kUnsupported) {
    return fail(std::move(opened).error());
  }
  if (limits) {
    direct_fd_ = std::move(*opened);
    use_direct(limits->memory_alignment, limits->offset_alignment, preferred_block_);
  } else if (options_.direct == Direct::kYes) {
    return fail(Code::kUnsupported, "opening " + path_ +
                                        ": its file system takes no direct I/O; put it on another "
                                        "(ext4, XFS), or allow the page cache (direct = auto)");
  }
  return {};
}

void File::use_direct(std::uint32_t memory_alignment, std::uint32_t offset_alignment,
                      std::uint32_t preferred_block) {
  direct_ = true;
  memory_alignment_ = memory_alignment;
  // One unit for both: whoever starts at it in the file is then right in memory at every other.
  offset_alignment_ = std::max(offset_alignment, memory_alignment);
  write_unit_ = offset_alignment_;
  if (is_device_ && rewrites_edges_) return;
  // A page (or a larger block that the file system writes as one) is only ever written whole past
  // the cache or in part through it. Otherwise the cache could write back a stale neighbour.
  const auto page = static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));
  write_unit_ = std::bit_ceil(std::max({write_unit_, page, preferred_block}));
}

Result<void> File::set_size() const {
  const auto wanted = static_cast<off_t>(*options_.size);
  if (is_device_) {
    return fail(Code::kInvalidArgument, "opening " + path_ + ": the size of a device is given");
  }
  if (::ftruncate(fd_.get(), wanted) != 0) return fail(file_error("sizing", path_, errno));
  if (!options_.reserve || wanted == 0) return {};
  int error = 0;
  do {
    error = ::fallocate(fd_.get(), 0, 0, wanted) == 0 ? 0 : errno;
  } while (error == EINTR);
  // Where the file system cannot, a full disk shows when it is written.
  if (error != 0 && error != EOPNOTSUPP) return fail(file_error("reserving", path_, error));
  return {};
}

Result<std::uint64_t> File::size() const {
  struct stat info {};
  std::uint64_t bytes = 0;
  const bool known =
      is_device_ ? ::ioctl(fd_.get(), BLKGETSIZE64, &bytes) == 0 : ::fstat(fd_.get(), &info) == 0;
  if (!known) return fail(file_error("measuring", path_, errno));
  return is_device_ ? bytes : static_cast<std::uint64_t>(info.st_size);
}

Result<void> File::still_there() const {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return fail(file_error("looking for", path_, errno));
    return fail(Code::kNotFound, path_ + " was removed while it was in use");
  }
  if (identity_of(info) != identity_) {
    return fail(Code::kConflict, path_ + " was replaced by another file while it was in use");
  }
  return {};
}

}  // namespace larder::fileio
