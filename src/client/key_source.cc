// SPDX-License-Identifier: Apache-2.0
#include "client/key_source.h"

#include <algorithm>

namespace larder::client {
namespace {

// The node looks up one piece while the next is packed, so pieces are small; but each costs a
// system call on both sides.
constexpr std::uint64_t kPieceBytes = 48 << 10;
static_assert(kPieceBytes >= wire::kKeyPieceMin);

}  // namespace

KeySource::KeySource(std::span<const std::string_view> keys)
    : bytes_(wire::key_stream_bytes(keys)),
      room_(static_cast<std::size_t>(std::min(bytes_, kPieceBytes))),
      buffer_(new std::byte[room_]),
      writer_(keys) {}

std::size_t KeySource::next(std::span<iovec> into) {
  const std::size_t bytes = writer_.fill({buffer_.get(), room_});
  into[0] = {buffer_.get(), bytes};
  return bytes == 0 ? 0 : 1;
}

}  // namespace larder::client
