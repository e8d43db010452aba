// SPDX-License-Identifier: Apache-2.0
// The part of an operation's memory that one command moves.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "block/block_types.h"

namespace larder::nvmf {

// Not thread safe. The list of pieces stays as it is while this is used.
class PieceWindow {
 public:
  PieceWindow() = default;
  // `bytes` from byte `begin` of what the pieces are together; they have as many.
  PieceWindow(std::span<const block::Piece> pieces, std::uint64_t begin,
              std::uint32_t bytes) noexcept
      : pieces_(pieces), begin_(begin), bytes_(bytes) {}

  std::uint32_t bytes() const noexcept { return bytes_; }

  struct Gathered {
    std::size_t places = 0;
    std::uint32_t bytes = 0;
  };
  // Where the `bytes` from `offset` of the window on are, as far as `into` has room.
  Gathered gather(std::uint32_t offset, std::uint32_t bytes, std::span<iovec> into) noexcept;

  void copy_in(std::uint32_t offset, std::span<const std::byte> from) noexcept;
  // CRC-32C of a range of the window, after `before`.
  std::uint32_t digest(std::uint32_t offset, std::uint32_t bytes, std::uint32_t before) noexcept;

 private:
  void seek(std::uint64_t position) noexcept;

  std::span<const block::Piece> pieces_;
  std::uint64_t begin_ = 0;
  std::uint32_t bytes_ = 0;
  // The piece where the last search ended: data are asked for in order.
  std::size_t piece_ = 0;
  std::uint64_t piece_begin_ = 0;
};

}  // namespace larder::nvmf
