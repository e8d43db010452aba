// SPDX-License-Identifier: Apache-2.0
// What a replayed block holds: derived from its id, so that any byte that comes back can be judged
// without keeping a copy. Every id, every position and every run (salt) has other bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace larder::apps {

// Pure and cheap to copy; any thread.
class BlockContent {
 public:
  explicit BlockContent(std::uint64_t salt) noexcept : salt_(salt) {}

  // Writes bytes [offset, offset + out.size()) of block `id`.
  void fill(std::uint64_t id, std::uint64_t offset, std::span<std::byte> out) const noexcept;
  // The first byte of `block` (the bytes from the block's start on) that is wrong.
  std::optional<std::size_t> first_wrong(std::uint64_t id,
                                         std::span<const std::byte> block) const noexcept;
  // How many bytes of `block` are wrong.
  std::uint64_t count_wrong(std::uint64_t id, std::span<const std::byte> block) const noexcept;
  // "trace/SALT/ID" in hex: runs with different salts never meet under one key.
  std::string key(std::uint64_t id) const;
  std::uint64_t salt() const noexcept { return salt_; }

 private:
  std::uint64_t base(std::uint64_t id) const noexcept;

  std::uint64_t salt_;
};

}  // namespace larder::apps
