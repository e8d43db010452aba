// SPDX-License-Identifier: Apache-2.0
#include "block/write_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace larder::block {
namespace {

// Runs of sectors that `keeps(sector)` says true for.
template <class Keeps>
void add_runs(std::vector<Survivor>& out, std::size_t change, std::uint64_t sectors, Keeps keeps) {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < sectors; ++i) {
    if (keeps(i)) {
      if (count++ == 0) first = i;
      continue;
    }
    if (count > 0) out.push_back({change, first, count});
    count = 0;
  }
  if (count > 0) out.push_back({change, first, count});
}

}  // namespace

void WriteCache::add(Change change) {
  bytes_ += change.data.size();
  changes_.push_back(std::move(change));
}

void WriteCache::patch(std::uint64_t offset, std::span<std::byte> into) const {
  for (const Change& change : changes_) {
    const std::uint64_t begin = std::max(offset, change.offset);
    const std::uint64_t end = std::min(offset + into.size(), change.offset + change.bytes);
    if (begin >= end) continue;
    std::byte* to = into.data() + (begin - offset);
    if (change.zeros()) {
      std::memset(to, 0, end - begin);
    } else {
      std::memcpy(to, change.data.data() + (begin - change.offset), end - begin);
    }
  }
}

void WriteCache::clear() {
  changes_.clear();
  bytes_ = 0;
}

std::vector<Survivor> survivors_of(std::span<const Change> changes, std::uint32_t sector_bytes,
                                   CutKind kind, std::mt19937_64& random) {
  if (kind == CutKind::kAny) kind = static_cast<CutKind>(1 + random() % (kCutKindCount - 1));
  std::vector<Survivor> out;
  if (changes.empty() || kind == CutKind::kNothing) return out;
  const std::uint64_t chosen = random() % changes.size();
  constexpr std::uint64_t kTenths[] = {1, 5, 9};
  const std::uint64_t tenths = kTenths[random() % 3];
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::uint64_t sectors = changes[i].bytes / sector_bytes;
    const std::uint64_t draw = random();
    bool whole = true;
    if (kind == CutKind::kWrites) whole = draw % 2 == 0;
    if (kind == CutKind::kAllButOne) whole = i != chosen;
    if (kind == CutKind::kPrefix) whole = i < chosen;
    if (kind == CutKind::kSectors) {
      add_runs(out, i, sectors, [&](std::uint64_t) { return random() % 10 < tenths; });
    } else if (whole) {
      out.push_back({i, 0, sectors});
    } else if (kind == CutKind::kPrefix && i == chosen && draw % (sectors + 1) > 0) {
      out.push_back({i, 0, draw % (sectors + 1)});
    }
  }
  return out;
}

}  // namespace larder::block
