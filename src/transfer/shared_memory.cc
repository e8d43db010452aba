// SPDX-License-Identifier: Apache-2.0
#include "transfer/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace larder::transfer {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kBytesMax = 64ULL << 40;
constexpr std::uint64_t kMagic = 0x314d53444c52414c;  // "LARLDSM1"
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The control page.
struct Control {
  std::uint64_t magic;
  std::uint64_t bytes;
  std::atomic<std::uint64_t> lent;  // 1, and 0 once taken back
};

Control& control_of(std::byte* data, std::uint64_t bytes) {
  return *reinterpret_cast<Control*>(data + bytes);
}

tl::unexpected<Error> no_memory(std::uint64_t bytes, const char* step) {
  return fail(Code::kExhausted, "shared memory of " + std::to_string(bytes) + " bytes: " + step +
                                    ": " + std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(std::uint64_t bytes) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "shared memory of 0 bytes");
  if (bytes > kBytesMax) return fail(Code::kTooLarge, "shared memory: at most 64 TiB in one piece");
  std::unique_ptr<SharedMemory> memory(new SharedMemory());
  memory->bytes_ = (bytes + kPage - 1) / kPage * kPage;
  memory->fd_.reset(::memfd_create("larder-transfer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory->fd_.valid()) return no_memory(bytes, "memfd_create");
  const std::uint64_t all = memory->bytes_ + kPage;
  // Blocks are taken now: a page that is not there later would be a SIGBUS.
  if (const int error = ::posix_fallocate(memory->fd_.get(), 0, static_cast<off_t>(all))) {
    errno = error;
    return no_memory(bytes, "reserving");
  }
  if (::fcntl(memory->fd_.get(), F_ADD_SEALS, kSeals) != 0) return no_memory(bytes, "sealing");
  void* const at =
      ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory->fd_.get(), 0);
  if (at == MAP_FAILED) return no_memory(bytes, "mapping");
  memory->data_ = static_cast<std::byte*>(at);
  memory->inode_ = SharedMapping::inode_of(memory->fd_);
  Control& control = control_of(memory->data_, memory->bytes_);
  control.magic = kMagic;
  control.bytes = memory->bytes_;
  control.lent.store(1, std::memory_order_release);
  return memory;
}

SharedMemory::~SharedMemory() {
  if (data_ == nullptr) return;
  control_of(data_, bytes_).lent.store(0, std::memory_order_release);
  ::munmap(data_, bytes_ + kPage);
}

std::uint64_t SharedMapping::inode_of(const env::Fd& fd) noexcept {
  struct stat status {};
  return ::fstat(fd.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_ino) : 0;
}

Result<std::shared_ptr<SharedMapping>> SharedMapping::map(const env::Fd& fd, std::uint64_t bytes) {
  struct stat status {};
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  const std::uint64_t all = bytes + kPage;
  if (bytes == 0 || bytes > kBytesMax || ::fstat(fd.get(), &status) != 0 || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0 || static_cast<std::uint64_t>(status.st_size) != all) {
    return fail(Code::kCorrupt, "a peer's shared memory is not what it said");
  }
  void* const at =
      ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (at == MAP_FAILED) return no_memory(bytes, "mapping a peer's");
  std::shared_ptr<SharedMapping> mapping(new SharedMapping(static_cast<std::byte*>(at), bytes));
  const Control& control = control_of(mapping->data_, bytes);
  if (control.magic == kMagic && control.bytes == bytes) return mapping;
  return fail(Code::kCorrupt, "a peer's shared memory has no control page");
}

SharedMapping::~SharedMapping() {
  ::munmap(data_, bytes_ + kPage);
}

bool SharedMapping::lent() const noexcept {
  return control_of(data_, bytes_).lent.load(std::memory_order_acquire) == 1;
}

}  // namespace larder::transfer
