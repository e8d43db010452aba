// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/piece_window.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checksum.h"

namespace larder::nvmf {

void PieceWindow::seek(std::uint64_t position) noexcept {
  if (position < piece_begin_) piece_ = piece_begin_ = 0;
  while (position - piece_begin_ >= pieces_[piece_].bytes) {
    piece_begin_ += pieces_[piece_].bytes;
    ++piece_;
  }
}

PieceWindow::Gathered PieceWindow::gather(std::uint32_t offset, std::uint32_t bytes,
                                          std::span<iovec> into) noexcept {
  Gathered out;
  while (out.bytes < bytes && out.places < into.size()) {
    const std::uint64_t position = begin_ + offset + out.bytes;
    seek(position);
    const std::uint64_t skip = position - piece_begin_;
    const auto count = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(pieces_[piece_].bytes - skip, bytes - out.bytes));
    into[out.places++] = {pieces_[piece_].data + skip, count};
    out.bytes += count;
  }
  return out;
}

void PieceWindow::copy_in(std::uint32_t offset, std::span<const std::byte> from) noexcept {
  while (!from.empty()) {
    std::array<iovec, 4> places;
    const Gathered part = gather(offset, static_cast<std::uint32_t>(from.size()), places);
    for (std::size_t i = 0; i < part.places; ++i) {
      std::memcpy(places[i].iov_base, from.data(), places[i].iov_len);
      from = from.subspan(places[i].iov_len);
    }
    offset += part.bytes;
  }
}

std::uint32_t PieceWindow::digest(std::uint32_t offset, std::uint32_t bytes,
                                  std::uint32_t before) noexcept {
  while (bytes > 0) {
    std::array<iovec, 8> places;
    const Gathered part = gather(offset, bytes, places);
    for (std::size_t i = 0; i < part.places; ++i) {
      before =
          crc32c({static_cast<const std::byte*>(places[i].iov_base), places[i].iov_len}, before);
    }
    offset += part.bytes;
    bytes -= part.bytes;
  }
  return before;
}

}  // namespace larder::nvmf
