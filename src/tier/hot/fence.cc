// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/fence.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/checksum.h"
#include "env/socket.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kFenceMagic = 0x31434e464452414c;  // "LARDFNC1"
constexpr std::size_t kFenceBytes = 4096;

tl::unexpected<Error> refuse(const std::string& path, const std::string& why) {
  return fail(Code::kUnavailable, "the node's fence file " + path + ": " + why);
}

// Opens the file for writing, refusing links and files of other users.
Result<env::Fd> open_own(const std::string& path) {
  env::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return refuse(path, env::errno_text(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid() ||
      info.st_nlink > 1) {
    return refuse(path, "it is not a file of this user; remove it or use another socket path");
  }
  return fd;
}

bool same_file(int a, int b) {
  struct stat one {};
  struct stat two {};
  return ::fstat(a, &one) == 0 && ::fstat(b, &two) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

// However the path is written, one socket has one fence.
std::string plain_path(const std::string& socket_path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(socket_path, error);
  if (error) return socket_path;
  const auto plain = std::filesystem::weakly_canonical(absolute, error);
  return error ? socket_path : plain.string();
}

}  // namespace

std::string fence_path(const std::string& socket_path) {
  char name[64];
  std::snprintf(name, sizeof(name), "larder-%u-%016llx.fence", static_cast<unsigned>(::geteuid()),
                static_cast<unsigned long long>(hash64(plain_path(socket_path))));
  if (::access("/dev/shm", W_OK) == 0) return std::string("/dev/shm/") + name;
  return socket_path + ".fence";
}

Result<Fence> Fence::take(const std::string& socket_path) {
  const std::string path = fence_path(socket_path);
  LARDER_ASSIGN(env::Fd held, open_own(path));
  if (::flock(held.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::kConflict, "another node already serves " + socket_path +
                                     "; stop it, or give this one another --socket");
  }
  if (::ftruncate(held.get(), kFenceBytes) != 0) return refuse(path, env::errno_text(errno));
  // A hole that cannot be filled later, on a full /dev/shm, would be a SIGBUS.
  const int filled = ::posix_fallocate(held.get(), 0, kFenceBytes);
  if (filled != 0) return refuse(path, env::errno_text(filled));
  env::Fd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!read_only.valid()) return refuse(path, env::errno_text(errno));
  // Someone may have removed the file between open and lock: then the lock guards nothing.
  if (!same_file(held.get(), read_only.get())) {
    return refuse(path, "it was replaced while this node took it; start again");
  }
  void* memory = ::mmap(nullptr, kFenceBytes, PROT_READ | PROT_WRITE, MAP_SHARED, held.get(), 0);
  if (memory == MAP_FAILED) return refuse(path, env::errno_text(errno));
  auto* page = static_cast<FencePage*>(memory);
  // A file that is not ours in content starts again; one that is keeps counting.
  const bool known = page->magic == kFenceMagic;
  const std::uint64_t epoch = (known ? page->epoch.load(std::memory_order_acquire) : 0) + 1;
  page->magic = kFenceMagic;
  page->epoch.store(epoch, std::memory_order_seq_cst);
  return Fence(std::move(held), std::move(read_only), page, epoch);
}

void forget_fence(const std::string& socket_path) noexcept {
  const std::string path = fence_path(socket_path);
  const env::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
}

void Fence::raise_to(std::uint64_t epoch) noexcept {
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  page_->epoch.store(epoch, std::memory_order_seq_cst);
}

Fence::Fence(Fence&& other) noexcept
    : held_(std::move(other.held_)),
      read_only_(std::move(other.read_only_)),
      page_(std::exchange(other.page_, nullptr)),
      epoch_(other.epoch_) {}

Fence::~Fence() {
  if (page_ == nullptr) return;
  // A node that stops in order turns its readers away at once.
  page_->epoch.store(epoch_ + 1, std::memory_order_seq_cst);
  ::munmap(page_, kFenceBytes);
}

Result<FenceView> FenceView::map(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_size != static_cast<off_t>(kFenceBytes)) {
    return fail(Code::kCorrupt, "the node's fence is not what it should be");
  }
  void* memory = ::mmap(nullptr, kFenceBytes, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return fail(Code::kExhausted, "mapping the node's fence: " + env::errno_text(errno));
  }
  const auto* page = static_cast<const FencePage*>(memory);
  if (page->magic != kFenceMagic) {
    ::munmap(memory, kFenceBytes);
    return fail(Code::kCorrupt, "the node's fence is not what it should be");
  }
  return FenceView(page);
}

FenceView::FenceView(FenceView&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}

FenceView::~FenceView() {
  if (page_ != nullptr) ::munmap(const_cast<FencePage*>(page_), kFenceBytes);
}

}  // namespace larder::tier
