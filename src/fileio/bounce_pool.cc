// SPDX-License-Identifier: Apache-2.0
#include "fileio/bounce_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>

#include "env/socket.h"

namespace larder::fileio {

Result<std::unique_ptr<BouncePool>> BouncePool::create(std::size_t bytes, std::size_t count) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const bool sane = std::has_single_bit(bytes) && bytes >= page && count > 0 &&
                    count < std::numeric_limits<std::size_t>::max() / bytes - 1;
  if (!sane) {
    return fail(Code::kInvalidArgument, "bounce memory of " + std::to_string(count) +
                                            " pieces of " + std::to_string(bytes) + " bytes");
  }
  const std::size_t mapped = bytes * (count + 1);  // one more, to begin at a multiple
  void* mapping =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return fail(Code::kExhausted,
                "bounce memory of " + std::to_string(mapped) + " bytes: " + env::errno_text(errno));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const std::size_t skip = (bytes - address % bytes) % bytes;
  return std::unique_ptr<BouncePool>(
      new BouncePool(mapping, mapped, static_cast<std::byte*>(mapping) + skip, bytes, count));
}

BouncePool::BouncePool(void* mapping, std::size_t mapped, std::byte* first, std::size_t bytes,
                       std::size_t count)
    : mapping_(mapping), mapped_(mapped), bytes_(bytes) {
  for (std::size_t i = count; i > 0; --i) free_.push_back(first + (i - 1) * bytes);
}

BouncePool::~BouncePool() {
  if (!leaked_) ::munmap(mapping_, mapped_);
}

std::byte* BouncePool::lease() noexcept {
  if (free_.empty()) return nullptr;
  std::byte* piece = free_.back();
  free_.pop_back();
  return piece;
}

void BouncePool::give_back(std::byte* piece) noexcept {
  free_.push_back(piece);  // there was room for it before
}

}  // namespace larder::fileio
