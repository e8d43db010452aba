// SPDX-License-Identifier: Apache-2.0
#include "fileio/piece_plan.h"

#include <algorithm>

namespace larder::fileio {
namespace {

std::uint64_t down(std::uint64_t value, std::uint64_t unit) noexcept {
  return value - value % unit;
}

std::uint64_t up(std::uint64_t value, std::uint64_t unit) noexcept {
  return down(value + unit - 1, unit);
}

Piece exact(const PieceShape& shape, PieceWay way, std::uint64_t planned, std::uint64_t bytes) {
  const auto length = static_cast<std::uint32_t>(bytes);
  return {way, planned, length, shape.offset + planned, length, 0};
}

// The whole blocks around [planned, planned + bytes).
Piece around(const PieceShape& shape, PieceWay way, std::uint64_t planned, std::uint64_t bytes) {
  const std::uint64_t at = shape.offset + planned;
  const std::uint64_t begin = down(at, shape.unit);
  const std::uint64_t end = up(at + bytes, shape.unit);
  return {way,
          planned,
          static_cast<std::uint32_t>(bytes),
          begin,
          static_cast<std::uint32_t>(end - begin),
          static_cast<std::uint32_t>(at - begin)};
}

// One transfer of a few blocks beats one of the middle and one for each edge.
bool small_enough(const PieceShape& shape) noexcept {
  const std::uint64_t end = shape.offset + shape.bytes;
  const bool has_edges = shape.offset % shape.unit != 0 || end % shape.unit != 0;
  return has_edges && up(end, shape.unit) - down(shape.offset, shape.unit) <= shape.bounce_small;
}

Piece next_read(const PieceShape& shape, std::uint64_t planned) noexcept {
  const std::uint64_t inside = (shape.offset + planned) % shape.unit;
  const std::uint64_t left = shape.bytes - planned;
  if (small_enough(shape)) return around(shape, PieceWay::kBounced, planned, left);
  if (!memory_fits(shape)) {
    const std::uint64_t most = shape.bounce_large - inside;
    return around(shape, PieceWay::kBounced, planned, std::min(left, most));
  }
  if (inside != 0 || left < shape.unit) {
    return around(shape, PieceWay::kBounced, planned, std::min(left, shape.unit - inside));
  }
  const std::uint64_t whole = std::min<std::uint64_t>(down(left, shape.unit), shape.piece_max);
  return exact(shape, PieceWay::kStraight, planned, whole);
}

Piece next_write(const PieceShape& shape, std::uint64_t planned) noexcept {
  const std::uint64_t inside = (shape.offset + planned) % shape.unit;
  const std::uint64_t left = shape.bytes - planned;
  if (inside != 0 || left < shape.unit) {
    const std::uint64_t bytes = std::min(left, shape.unit - inside);
    return shape.rewrites_edges ? around(shape, PieceWay::kRewrite, planned, bytes)
                                : exact(shape, PieceWay::kBuffered, planned, bytes);
  }
  const bool fits = memory_fits(shape);
  const std::uint64_t most = fits ? shape.piece_max : shape.bounce_large;
  const std::uint64_t whole = std::min(down(left, shape.unit), most);
  return exact(shape, fits ? PieceWay::kStraight : PieceWay::kBounced, planned, whole);
}

}  // namespace

bool memory_fits(const PieceShape& shape) noexcept {
  if (!shape.direct) return true;
  const std::uint64_t to_first_block = up(shape.offset, shape.unit) - shape.offset;
  return (shape.memory + to_first_block) % shape.memory_align == 0;
}

Piece next_piece(const PieceShape& shape, std::uint64_t planned) noexcept {
  if (!shape.direct) {
    const std::uint64_t left = shape.bytes - planned;
    return exact(shape, PieceWay::kStraight, planned,
                 std::min<std::uint64_t>(left, shape.piece_max));
  }
  return shape.write ? next_write(shape, planned) : next_read(shape, planned);
}

}  // namespace larder::fileio
