// SPDX-License-Identifier: Apache-2.0
// The probes that try things for real and clean up after themselves.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "env/fd.h"
#include "env/host_probe.h"

namespace larder::env {
namespace {

constexpr std::size_t kBlock = 4096;  // the largest logical block of common disks
constexpr int kUnequal = EIO;         // what was read is not what was written

// A shared mapping of `size` bytes of `fd`, undone at once. Returns 0 or the errno.
int try_map(int fd, std::size_t size, int protection) {
  void* const at = ::mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return errno;
  ::munmap(at, size);
  return 0;
}

// A name that neither another process nor another thread of this one uses.
std::string probe_name() {
  static std::atomic<unsigned> next{0};
  return ".larder-probe-" + std::to_string(::getpid()) + "-" + std::to_string(next.fetch_add(1));
}

std::string filesystem_name(long magic) {
  static constexpr std::array<std::pair<long, const char*>, 12> kNames{{
      {0xEF53, "ext4"},
      {0x58465342, "xfs"},
      {0x9123683E, "btrfs"},
      {0x01021994, "tmpfs"},
      {0x858458F6L, "ramfs"},
      {0x794C7630, "overlayfs"},
      {0x6969, "nfs"},
      {0x2FC12FC1, "zfs"},
      {0xF2F52010L, "f2fs"},
      {0x65735546, "fuse"},
      {0xFF534D42L, "cifs"},
      {0xCA451A4EL, "bcachefs"},
  }};
  // f_type is signed on some hosts: compare the low 32 bits.
  for (const auto& [known, name] : kNames) {
    if ((magic & 0xFFFFFFFFL) == (known & 0xFFFFFFFFL)) return name;
  }
  char text[32];
  std::snprintf(text, sizeof text, "0x%lx", static_cast<unsigned long>(magic) & 0xFFFFFFFFUL);
  return text;
}

// Writes one aligned block of the file through O_DIRECT and reads it back.
int try_direct(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT));
  if (!file.valid()) return errno;
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(kBlock, 2 * kBlock),
                                                      &std::free);
  if (!memory) return ENOMEM;
  auto* const out = static_cast<unsigned char*>(memory.get());
  unsigned char* const in = out + kBlock;
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = static_cast<unsigned char>(i * 31 + 7);
  std::memset(in, 0, kBlock);
  const ssize_t wrote = ::pwrite(file.get(), out, kBlock, 0);
  if (wrote < 0) return errno;
  const ssize_t got = ::pread(file.get(), in, kBlock, 0);
  if (got < 0) return errno;
  const bool equal = wrote == ssize_t{kBlock} && got == wrote && std::memcmp(in, out, kBlock) == 0;
  return equal ? 0 : kUnequal;
}

int try_bind(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return errno;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return errno;
  }
  ::unlink(path.c_str());
  return 0;
}

}  // namespace

MemfdReport probe_memfd() {
  MemfdReport report;
  const Fd memory(::memfd_create("larder-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid() || ::ftruncate(memory.get(), kBlock) != 0) {
    report.create_errno = report.seal_errno = errno;
    return report;
  }
  report.create_errno = try_map(memory.get(), kBlock, PROT_READ | PROT_WRITE);
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
    report.seal_errno = errno;
    return report;
  }
  report.seal_held = try_map(memory.get(), kBlock, PROT_READ | PROT_WRITE) == EPERM &&
                     try_map(memory.get(), kBlock, PROT_READ) == 0;
  return report;
}

HugePageReport probe_huge_pages(const std::string& root) {
  HugePageReport report = read_huge_page_pool(root);
  const Fd memory(::memfd_create("larder-probe", MFD_CLOEXEC | MFD_HUGETLB));
  const std::uint64_t size = report.page_size != 0 ? report.page_size : 2ULL << 20;
  if (!memory.valid() || ::ftruncate(memory.get(), static_cast<off_t>(size)) != 0) {
    report.memfd_errno = errno;
  } else {
    // Mapping reserves the page, so this tells without touching it (a touch could raise SIGBUS).
    report.memfd_errno = try_map(memory.get(), size, PROT_READ | PROT_WRITE);
  }
  return report;
}

IoUringReport probe_io_uring(const std::string& root) {
  IoUringReport report;
  report.disabled = read_io_uring_disabled(root);
  io_uring_params params{};
  const Fd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 4U, &params)));
  if (!ring.valid()) {
    report.setup_errno = errno;
  } else if (::syscall(SYS_io_uring_enter, ring.get(), 0U, 0U, 0U, nullptr, 0UL) < 0) {
    report.setup_errno = errno;  // some sandboxes allow the one call and not the other
  }
  return report;
}

DirectoryReport probe_directory(const std::string& path) {
  DirectoryReport report;
  report.path = path;
  const std::string file_path = path + "/" + probe_name();
  const Fd file(::open(file_path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid()) {
    report.write_errno = report.direct_errno = errno;
  } else {
    report.direct_errno = try_direct(file_path);
    ::unlink(file_path.c_str());
  }
  struct statfs where {};
  if (::statfs(path.c_str(), &where) == 0) {
    report.filesystem = filesystem_name(static_cast<long>(where.f_type));
    report.in_memory = report.filesystem == "tmpfs" || report.filesystem == "ramfs";
    report.free =
        static_cast<std::uint64_t>(where.f_bavail) * static_cast<std::uint64_t>(where.f_bsize);
  }
  return report;
}

NetworkReport probe_network(const std::string& socket_dir, const std::string& root) {
  NetworkReport report;
  read_tcp_buffers(report, root);
  report.socket_dir = socket_dir;
  // The node makes the last folder itself, so a missing one is made for the trial.
  const bool made = ::mkdir(socket_dir.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) {
    report.socket_errno = errno;
    return report;
  }
  report.socket_errno = try_bind(socket_dir + "/" + probe_name());
  if (made) ::rmdir(socket_dir.c_str());
  return report;
}

}  // namespace larder::env
