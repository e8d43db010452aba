// SPDX-License-Identifier: Apache-2.0
#include "tier/hot/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tier/hot/segment_memory.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kSmallPage = 4096;
constexpr std::uint64_t kHugePage = 2ULL << 20;
constexpr std::uint64_t kHeadroom = 64ULL << 20;     // what we leave to everything else
constexpr std::uint64_t kPopulateStep = 1ULL << 30;  // per call, so that signals get their turn
constexpr unsigned kHuge2MFlag = 21U << 26U;         // MFD_HUGE_2MB: log2 of the size
// Kernel constants that older headers lack.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;
constexpr int kSealFutureWrite = 0x0010;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
  return (value + step - 1) / step * step;
}

std::string errno_text() {
  return std::strerror(errno);
}

bool huge(PageMode pages) {
  return pages == PageMode::kHuge2M || pages == PageMode::kThp;
}

Result<void> check_options(const SegmentOptions& options) {
  if (options.bytes == 0 || options.bytes > kSegmentBytesMax) {
    return fail(Code::kInvalidArgument, fmt::format("segment of {} bytes: must be 1 to {}",
                                                    options.bytes, kSegmentBytesMax));
  }
  if (options.name.empty() || options.name.size() > 200 ||
      options.name.find('\0') != std::string::npos) {
    return fail(Code::kInvalidArgument, "segment name must be 1 to 200 bytes without a NUL");
  }
  return {};
}

struct PageChoice {
  PageMode pages = PageMode::k4K;
  std::string note;
};

std::string no_huge_note(std::uint64_t bytes) {
  const HugePages2M pages = read_huge_pages_2m();
  return fmt::format(
      "{} huge pages of 2 MiB are needed and {} of {} are free (raise vm.nr_hugepages)",
      round_up(bytes, kHugePage) / kHugePage, pages.free_pages, pages.total_pages);
}

// Which pages we can have, or an error when smaller ones are not allowed to stand in.
Result<PageChoice> choose_pages(const SegmentOptions& options) {
  if (options.pages == PageMode::k4K) return PageChoice{};
  const bool enough_huge =
      read_huge_pages_2m().free_pages >= round_up(options.bytes, kHugePage) / kHugePage;
  if (options.pages != PageMode::kThp && enough_huge) return PageChoice{PageMode::kHuge2M, {}};
  std::string note = options.pages == PageMode::kThp ? "" : no_huge_note(options.bytes);
  if (options.pages != PageMode::kHuge2M) {
    if (shmem_thp_allowed()) return PageChoice{PageMode::kThp, std::move(note)};
    note += note.empty() ? "" : "; ";
    note +=
        "transparent huge pages are off for shared memory (write 'advise' to "
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled)";
  }
  if (options.pages != PageMode::kAuto && !options.fallback) {
    return fail(Code::kUnsupported, fmt::format("segment '{}': {}", options.name, note));
  }
  return PageChoice{PageMode::k4K, "using 4 KiB pages: " + note};
}

// Explicit huge pages were counted when they were chosen; all others come from common memory.
Result<void> check_room(const SegmentOptions& options, PageMode pages) {
  if (pages == PageMode::kHuge2M) return {};
  const MemoryRoom memory = read_memory_room();
  const std::uint64_t page_tables = options.bytes / 512;
  const std::uint64_t wanted = options.bytes + page_tables + kHeadroom;
  if (memory.host_bytes == 0 || wanted <= memory.room()) return {};
  const bool by_group = memory.cgroup_bytes && *memory.cgroup_bytes < memory.host_bytes;
  return fail(Code::kExhausted,
              fmt::format("segment '{}' of {} bytes needs {} bytes with page tables and headroom, "
                          "but {} are available ({}): make the segment smaller{}",
                          options.name, options.bytes, wanted, memory.room(),
                          by_group ? "memory limit of the control group" : "MemAvailable",
                          by_group ? " or the limit larger" : " or free memory"));
}

// Maps at an address that huge pages can use: reserve more than needed, then map inside it.
Result<SharedMapping> map_aligned(int fd, std::uint64_t bytes, int protection) {
  const std::uint64_t reserved = bytes + kHugePage;
  void* area =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) {
    return fail(Code::kExhausted,
                fmt::format("no address space for a segment of {} bytes: {}", bytes, errno_text()));
  }
  auto* base = static_cast<std::byte*>(area);
  const auto skip = (kHugePage - reinterpret_cast<std::uintptr_t>(area) % kHugePage) % kHugePage;
  std::byte* start = base + skip;
  void* got = ::mmap(start, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
  if (got == MAP_FAILED) {
    const std::string why = errno_text();
    ::munmap(area, reserved);
    return fail(Code::kExhausted, fmt::format("cannot map a segment of {} bytes: {}", bytes, why));
  }
  const std::uint64_t tail = reserved - skip - bytes;
  if (skip > 0) ::munmap(base, skip);
  if (tail > 0) ::munmap(start + bytes, tail);
  return SharedMapping(start, bytes);
}

void touch_pages(std::byte* data, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += kSmallPage) {
    *reinterpret_cast<volatile char*>(data + at) = 0;
  }
}

void read_pages(const std::byte* from, std::uint64_t bytes) {
  ::madvise(const_cast<std::byte*>(from), bytes, kPopulateRead);
  for (std::uint64_t at = 0; at < bytes; at += 4096) {
    static_cast<void>(*static_cast<const volatile std::byte*>(from + at));
  }
}

Result<void> populate(const SharedMapping& mapping) {
  for (std::uint64_t at = 0; at < mapping.bytes();) {
    const std::uint64_t step = std::min(kPopulateStep, mapping.bytes() - at);
    if (::madvise(mapping.data() + at, step, kPopulateWrite) == 0) {
      at += step;
    } else if (errno == EINVAL) {  // a kernel before 5.14
      touch_pages(mapping.data() + at, step);
      at += step;
    } else if (errno != EINTR && errno != EAGAIN) {
      return fail(Code::kExhausted,
                  fmt::format("memory ran out after {} of {} bytes of the segment: {}", at,
                              mapping.bytes(), errno_text()));
    }
  }
  return {};
}

Result<env::Fd> make_memfd(const SegmentOptions& options, PageMode pages, std::uint64_t bytes) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (pages == PageMode::kHuge2M) flags |= MFD_HUGETLB | kHuge2MFlag;
  env::Fd fd(::memfd_create(options.name.c_str(), flags));
  if (!fd.valid()) {
    return fail(
        errno == EMFILE || errno == ENFILE ? Code::kExhausted : Code::kUnsupported,
        fmt::format("cannot create a memfd for segment '{}': {}", options.name, errno_text()));
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail(Code::kExhausted, fmt::format("cannot size segment '{}' to {} bytes: {}",
                                              options.name, bytes, errno_text()));
  }
  return fd;
}

Result<void> seal(int fd, const std::string& name) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | kSealFutureWrite | F_SEAL_SEAL;
  if (::fcntl(fd, F_ADD_SEALS, seals) == 0) return {};
  return fail(Code::kUnsupported,
              fmt::format("cannot seal segment '{}' (needs Linux 5.1): {}", name, errno_text()));
}

}  // namespace

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<Segment> Segment::create(const SegmentOptions& options) {
  LARDER_TRY(check_options(options));
  LARDER_ASSIGN(PageChoice choice, choose_pages(options));
  LARDER_TRY(check_room(options, choice.pages));
  Segment made;
  made.pages_ = choice.pages;
  made.page_note_ = std::move(choice.note);
  const std::uint64_t bytes = round_up(options.bytes, made.page_bytes());
  LARDER_ASSIGN(made.fd_, make_memfd(options, choice.pages, bytes));
  // The mapping comes before the seal: after it the kernel lets nobody map for writing.
  LARDER_ASSIGN(made.mapping_, map_aligned(made.fd(), bytes, PROT_READ | PROT_WRITE));
  if (choice.pages == PageMode::kThp) ::madvise(made.data(), bytes, MADV_HUGEPAGE);
  ::madvise(made.data(), bytes, MADV_DONTDUMP);  // a core file must not hold the users' caches
  if (options.populate) LARDER_TRY(populate(made.mapping_));
  LARDER_TRY(seal(made.fd(), options.name));
  return made;
}

std::uint64_t Segment::page_bytes() const noexcept {
  return huge(pages_) ? kHugePage : kSmallPage;
}

std::string_view Segment::page_kind() const noexcept {
  if (pages_ == PageMode::kHuge2M) return "2MiB";
  return pages_ == PageMode::kThp ? "thp" : "4KiB";
}

Result<MappedSegment> MappedSegment::map(int fd, std::uint64_t bytes, const MapOptions& options) {
  if (bytes == 0 || bytes > kSegmentBytesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("segment of {} bytes: must be 1 to {}", bytes, kSegmentBytesMax));
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return fail(Code::kCorrupt, fmt::format("segment descriptor {}: {}", fd, errno_text()));
  }
  if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != bytes) {
    return fail(Code::kCorrupt, fmt::format("segment descriptor has {} bytes, {} were announced",
                                            info.st_size, bytes));
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(Code::kCorrupt, "segment descriptor is no memfd that is sealed against shrinking");
  }
  LARDER_ASSIGN(SharedMapping mapping, map_aligned(fd, bytes, PROT_READ));
  if (options.huge_pages) ::madvise(mapping.data(), bytes, MADV_HUGEPAGE);
  ::madvise(mapping.data(), bytes, MADV_DONTDUMP);
  // Only a head start: where the kernel cannot, pages are mapped when they are first read.
  if (options.populate) read_pages(mapping.data(), bytes);
  return MappedSegment(std::move(mapping));
}

}  // namespace larder::tier
