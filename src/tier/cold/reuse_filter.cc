// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/reuse_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace larder::tier {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kLineBytes = 64;
constexpr std::uint64_t kMemoryMax = 1ULL << 32U;
constexpr unsigned kAsksMax = 3;        // that a place of `asked` can count
constexpr unsigned kFrequencyMax = 16;  // that the sketch can

// ---- asked: a line is 15 places, written in turn ----
// The low half of word 0 says which place is next; the other halves are places: 30 bits of the hash
// and a count of 1 to 3; 0 is an empty place.
constexpr unsigned kPlaces = 15;
constexpr std::uint32_t kHalf = 0xFFFFFFFFU;

// ---- frequency: a line is a sketch of its own ----
// Word 0 counts the additions. Words 1 to 3 are the doorkeeper: two bits for a key that came once,
// which most never do again. Words 4 to 7 are the rows of the sketch, 16 counters of 4 bits each.
constexpr unsigned kDoorFirst = 1;
constexpr unsigned kDoorBits = 192;
constexpr unsigned kRowFirst = 4;
constexpr unsigned kRows = 4;
constexpr std::uint64_t kCounterMax = 15;
constexpr std::uint64_t kAdditionsMax = 64;  // then the line ages
constexpr std::uint64_t kHalvedMask = 0x7777777777777777;

// Two bits of the doorkeeper.
std::array<unsigned, 2> door_bits(std::uint32_t hash) noexcept {
  return {(hash & 0xFFFFU) * kDoorBits >> 16U, (hash >> 16U) * kDoorBits >> 16U};
}

// Where the row's counter of a key begins, in bits. Not the bits that chose the door's.
unsigned counter_shift(std::uint32_t hash, unsigned row) noexcept {
  return ((hash * 0x9E3779B1U) >> (16U + 4U * row) & 15U) * 4U;
}

}  // namespace

std::string_view reuse_mode_name(ReuseMode mode) noexcept {
  if (mode == ReuseMode::kAll) return "all";
  return mode == ReuseMode::kAsked ? "asked" : "frequency";
}

std::optional<ReuseMode> parse_reuse_mode(std::string_view name) noexcept {
  for (const auto mode : {ReuseMode::kAll, ReuseMode::kAsked, ReuseMode::kFrequency}) {
    if (name == reuse_mode_name(mode)) return mode;
  }
  return std::nullopt;
}

Result<ReuseFilter> ReuseFilter::create(const ReuseOptions& options) {
  if (options.memory_bytes < kLineBytes || options.memory_bytes > kMemoryMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("memory_bytes {} must be from 64 to 4GiB", options.memory_bytes));
  }
  const unsigned most = options.mode == ReuseMode::kFrequency ? kFrequencyMax : kAsksMax;
  if (options.asks_min == 0 || options.asks_min > most) {
    return fail(Code::kInvalidArgument,
                fmt::format("asks_min {} must be from 1 to {}", options.asks_min, most));
  }
  ReuseFilter made(options);
  if (options.mode == ReuseMode::kAll) return made;
  made.lines_ = options.memory_bytes / kLineBytes;
  made.table_.reset(new (std::nothrow) Line[made.lines_]);
  if (!made.table_) return fail(Code::kExhausted, "no memory for the reuse filter");
  return made;
}

ReuseFilter::Line& ReuseFilter::line_of(std::uint64_t hash) const noexcept {
  return table_[(hash >> 32U) * lines_ >> 32U];
}

// ---- asked ----

namespace {

// Place 1 to 15 is half of a word; place 0, which is the cursor, is the first.
std::uint32_t half_of(std::uint64_t word, unsigned place) noexcept {
  return static_cast<std::uint32_t>(word >> (place % 2 * 32U));
}

void store_half(std::atomic<std::uint64_t>& word, unsigned place, std::uint32_t value) noexcept {
  const unsigned shift = place % 2 * 32U;
  std::uint64_t seen = word.load(kRelaxed);
  const std::uint64_t wanted = (seen & ~(std::uint64_t{kHalf} << shift)) | std::uint64_t{value}
                                                                               << shift;
  // Once: another thread's store to the other half must not be undone, and this one may be lost.
  word.compare_exchange_strong(seen, wanted, kRelaxed);
}

}  // namespace

void ReuseFilter::remember(Line& line, std::uint32_t hash) noexcept {
  const std::uint32_t print = hash | 3U;
  for (unsigned place = 1; place <= kPlaces; ++place) {
    const std::uint32_t held = half_of(line.words[place / 2].load(kRelaxed), place);
    if ((held | 3U) != print || (held & 3U) == 0) continue;
    if ((held & 3U) < kAsksMax) store_half(line.words[place / 2], place, held + 1);
    return;
  }
  const unsigned place = half_of(line.words[0].load(kRelaxed), 0) % kPlaces + 1;
  store_half(line.words[0], 0, place);
  store_half(line.words[place / 2], place, (hash & ~3U) | 1U);
}

unsigned ReuseFilter::remembered(const Line& line, std::uint32_t hash) noexcept {
  for (unsigned place = 1; place <= kPlaces; ++place) {
    const std::uint32_t held = half_of(line.words[place / 2].load(kRelaxed), place);
    if ((held & 3U) != 0 && (held | 3U) == (hash | 3U)) return held & 3U;
  }
  return 0;
}

// ---- frequency ----

void ReuseFilter::count(Line& line, std::uint32_t hash) noexcept {
  bool known = true;
  for (const unsigned bit : door_bits(hash)) {
    Word& word = line.words[kDoorFirst + bit / 64];
    const std::uint64_t mask = 1ULL << (bit % 64);
    if ((word.load(kRelaxed) & mask) != 0) continue;
    word.fetch_or(mask, kRelaxed);
    known = false;
  }
  bool added = !known;
  for (unsigned row = 0; known && row < kRows; ++row) {
    Word& word = line.words[kRowFirst + row];
    const unsigned shift = counter_shift(hash, row);
    std::uint64_t seen = word.load(kRelaxed);
    if ((seen >> shift & kCounterMax) == kCounterMax) continue;
    // Once, and not by adding: two that add 1 to 14 would carry into the neighbour.
    word.compare_exchange_strong(seen, seen + (1ULL << shift), kRelaxed);
    added = true;
  }
  // What changes nothing, a hot key's lookup, ages nothing and leaves the cache line alone.
  if (added && line.words[0].fetch_add(1, kRelaxed) + 1 >= kAdditionsMax) age(line);
}

void ReuseFilter::age(Line& line) noexcept {
  std::uint64_t additions = line.words[0].load(kRelaxed);
  const bool mine = additions >= kAdditionsMax &&
                    line.words[0].compare_exchange_strong(additions, additions / 2, kRelaxed);
  if (!mine) return;
  for (unsigned row = 0; row < kRows; ++row) {
    Word& word = line.words[kRowFirst + row];
    word.store(word.load(kRelaxed) >> 1U & kHalvedMask, kRelaxed);
  }
  for (unsigned i = kDoorFirst; i < kRowFirst; ++i) line.words[i].store(0, kRelaxed);
}

unsigned ReuseFilter::counted(const Line& line, std::uint32_t hash) noexcept {
  std::uint64_t least = kCounterMax;
  for (unsigned row = 0; row < kRows; ++row) {
    const std::uint64_t word = line.words[kRowFirst + row].load(kRelaxed);
    least = std::min(least, word >> counter_shift(hash, row) & kCounterMax);
  }
  const bool known = std::ranges::all_of(door_bits(hash), [&line](unsigned bit) {
    return (line.words[kDoorFirst + bit / 64].load(kRelaxed) >> (bit % 64) & 1U) != 0;
  });
  return static_cast<unsigned>(least) + (known ? 1 : 0);
}

// ---- the filter ----

void ReuseFilter::looked_up(std::uint64_t hash) noexcept {
  if (options_.mode == ReuseMode::kAll) return;
  const auto low = static_cast<std::uint32_t>(hash);
  Line& line = line_of(hash);
  if (options_.mode == ReuseMode::kAsked) {
    remember(line, low);
  } else {
    count(line, low);
  }
}

unsigned ReuseFilter::asks(std::uint64_t hash) const noexcept {
  if (options_.mode == ReuseMode::kAll) return 0;
  const auto low = static_cast<std::uint32_t>(hash);
  const Line& line = line_of(hash);
  return options_.mode == ReuseMode::kAsked ? remembered(line, low) : counted(line, low);
}

bool ReuseFilter::is_worth(std::uint64_t hash, bool has_room) const noexcept {
  if (options_.mode == ReuseMode::kAll || (has_room && options_.fill_first)) return true;
  return asks(hash) >= options_.asks_min;
}

}  // namespace larder::tier
