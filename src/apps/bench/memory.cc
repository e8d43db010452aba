// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "env/fd.h"
#include "env/socket.h"

namespace larder::apps {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = 2 << 20;

Error no_memory(std::string_view what, std::uint64_t bytes) {
  return {
      Code::kExhausted,
      fmt::format("cannot get {} bytes of {} memory for the benchmark: {} (a smaller --set-bytes "
                  "needs less)",
                  bytes, what, env::errno_text(errno))};
}

std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

void touch(void* data, std::size_t bytes) noexcept {
  auto* at = static_cast<volatile std::byte*>(data);
  for (std::size_t i = 0; i < bytes; i += kPageBytes) at[i] = std::byte{1};
}

}  // namespace

Result<Mapping> Mapping::private_memory(std::uint64_t bytes, std::string_view pages) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return fail(no_memory("private", bytes));
  if (pages == "thp") ::madvise(data, bytes, MADV_HUGEPAGE);
  touch(data, bytes);
  return Mapping(static_cast<std::byte*>(data), bytes);
}

Result<Mapping> Mapping::shared_memory(std::uint64_t bytes, std::string_view pages) {
  const bool huge = pages == "2MiB";
  if (huge) bytes = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const env::Fd fd(::memfd_create("larder-bench", MFD_CLOEXEC | (huge ? MFD_HUGETLB : 0U)));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail(no_memory("shared", bytes));
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return fail(no_memory("shared", bytes));
  // Refused where transparent huge pages are off for shared memory: then the node's are plain too.
  if (pages == "thp") ::madvise(data, bytes, MADV_HUGEPAGE);
  touch(data, bytes);
  return Mapping(static_cast<std::byte*>(data), bytes);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Walk::Walk(std::size_t slots, std::size_t start) noexcept
    : slots_(std::max<std::size_t>(slots, 1)) {
  step_ = std::max<std::size_t>(static_cast<std::size_t>(static_cast<double>(slots_) * 0.618), 1);
  while (std::gcd(step_, slots_) != 1) ++step_;
  at_ = start % slots_;
}

std::size_t Walk::next() noexcept {
  const std::size_t current = at_;
  at_ += step_;
  if (at_ >= slots_) at_ -= slots_;
  return current;
}

Slots::Slots(std::span<std::byte> bytes, std::size_t slot_bytes, std::size_t start) noexcept
    : bytes_(bytes), slot_bytes_(slot_bytes), walk_(bytes.size() / slot_bytes, start) {}

std::span<std::byte> share_of(std::span<std::byte> bytes, std::size_t index, std::size_t workers) {
  const std::size_t share = bytes.size() / workers / kPageBytes * kPageBytes;
  return bytes.subspan(index * share, share);
}

void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) noexcept {
  const std::uint64_t base = mix(seed + 0x9E3779B97F4A7C15ULL);
  std::uint64_t at = 0;
  while (!bytes.empty()) {
    const std::uint64_t word = mix(base + 0x9E3779B97F4A7C15ULL * ++at);
    const std::size_t n = std::min(bytes.size(), sizeof(word));
    std::memcpy(bytes.data(), &word, n);
    bytes = bytes.subspan(n);
  }
}

}  // namespace larder::apps
