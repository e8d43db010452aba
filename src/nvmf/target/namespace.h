// SPDX-License-Identifier: Apache-2.0
// What a target exports: the namespaces, and the table that all reactors look them up in. A
// namespace never changes; a changed one is another object under the same id.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "larder/status.h"
#include "nvmf/pdu/identify.h"
#include "nvmf/target/target.h"

namespace larder::nvmf {

class DiskWorker;

// Anonymous memory, zeros at first.
class Ram {
 public:
  // kExhausted.
  static Result<std::shared_ptr<Ram>> create(std::uint64_t bytes_max, std::uint64_t populate);
  ~Ram();
  Ram(const Ram&) = delete;
  Ram& operator=(const Ram&) = delete;

  std::byte* at(std::uint64_t offset) const noexcept { return base_ + offset; }
  std::uint64_t capacity() const noexcept { return bytes_; }
  // Zeros, by giving whole pages back where that pays.
  void zero(std::uint64_t offset, std::uint64_t bytes) noexcept;
  // Zeros, by giving back whole pages in any case.
  void forget(std::uint64_t offset, std::uint64_t bytes) noexcept;

 private:
  Ram(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}
  std::byte* base_;
  std::uint64_t bytes_;
};

struct Namespace {
  std::uint32_t nsid = 0;
  std::uint32_t block_shift = 12;
  std::uint64_t blocks = 0;
  bool read_only = false;
  bool volatile_cache = false;
  bool discards = false;  // deallocate does something
  bool discard_zeroes = false;
  Id16 nguid{};
  Id16 uuid{};
  std::shared_ptr<Ram> ram;  // or
  std::shared_ptr<DiskWorker> disk;

  std::uint64_t bytes() const noexcept { return blocks << block_shift; }
  std::uint32_t block_bytes() const noexcept { return 1U << block_shift; }
};

// Errors as Target::create().
Result<std::shared_ptr<const Namespace>> make_namespace(const NamespaceOptions& options,
                                                        std::uint32_t nsid,
                                                        std::uint32_t transfer_max);
// The same memory with another size; see Target::resize_namespace().
Result<std::shared_ptr<const Namespace>> resized(const Namespace& old, std::uint64_t bytes);

class NamespaceTable {
 public:
  const std::shared_ptr<const Namespace>* find(std::uint32_t nsid) const noexcept {
    if (nsid == 0 || nsid > kNamespaceIdMax || slots_[nsid - 1] == nullptr) return nullptr;
    return &slots_[nsid - 1];
  }
  void set(std::uint32_t nsid, std::shared_ptr<const Namespace> space) {
    slots_[nsid - 1] = std::move(space);
  }
  std::uint32_t lowest_free() const noexcept;  // 0: none
  bool volatile_cache() const noexcept;        // any of them

 private:
  std::array<std::shared_ptr<const Namespace>, kNamespaceIdMax> slots_;
};

}  // namespace larder::nvmf
