// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "larder/status.h"

namespace larder::block {

// Memory that begins at a multiple of `alignment`; what is in it is undefined.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // `alignment` is a power of two. kExhausted: no memory.
  static Result<AlignedBuffer> create(std::size_t bytes, std::size_t alignment) {
    AlignedBuffer out;
    const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    out.bytes_ = bytes;
    out.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, whole)));
    if (out.memory_ == nullptr && bytes > 0) {
      return fail(Code::kExhausted, "no memory for a buffer of " + std::to_string(bytes));
    }
    return out;
  }

  std::byte* data() noexcept { return memory_.get(); }
  const std::byte* data() const noexcept { return memory_.get(); }
  std::size_t size() const noexcept { return bytes_; }
  std::span<std::byte> span() noexcept { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace larder::block
