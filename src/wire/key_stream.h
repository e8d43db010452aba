// SPDX-License-Identifier: Apache-2.0
// Many keys as payload: for each its size (u16, little endian) and its bytes, and after the last
// XXH3-64 of all that. Made and read piece by piece, so that the node looks up the first keys while
// the client still packs the last.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/checksum.h"
#include "larder/status.h"

namespace larder::wire {

// Room that KeyWriter::fill needs at least: one key, and the checksum.
inline constexpr std::size_t kKeyPieceMin = 2 + 1025 + 8;

// The whole stream's size; of each key travels packed() (keys.h).
std::uint64_t key_stream_bytes(std::span<const std::string_view> keys) noexcept;

class KeyWriter {
 public:
  // `keys` must outlive it.
  explicit KeyWriter(std::span<const std::string_view> keys) : keys_(keys) {}
  // The stream's next bytes, as many as fit; returns how many, 0 at the end.
  std::size_t fill(std::span<std::byte> into) noexcept;

 private:
  std::span<const std::string_view> keys_;
  std::size_t at_ = 0;
  bool ended_ = false;
  Checksum64 sum_;
};

// Any bytes are safe to feed. Memory: 64 KiB at most.
class KeyReader {
 public:
  // kInvalidArgument when `count` keys cannot have `bytes`.
  static Result<KeyReader> create(std::uint32_t count, std::uint64_t bytes);
  // Where the next bytes go; never empty while bytes are missing and next() was asked to the end.
  // Ends the life of keys given out.
  std::span<std::byte> room() noexcept;
  // The first `bytes` bytes of room() have come.
  void advance(std::size_t bytes) noexcept;
  // The next complete key, until there is none.
  bool next(std::string_view& key) noexcept;
  // After the last byte: kCorrupt unless all keys came, nothing else did and the checksum fits.
  Result<void> end() const;

 private:
  KeyReader(std::uint32_t count, std::uint64_t bytes);

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t size_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint32_t keys_left_;
  std::uint64_t bytes_left_;  // of the stream, not yet in
  bool started_ = false;
  bool broken_ = false;
  Checksum64 sum_;
};

}  // namespace larder::wire
