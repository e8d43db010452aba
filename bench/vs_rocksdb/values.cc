// SPDX-License-Identifier: Apache-2.0
#include "bench/vs_rocksdb/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "env/random.h"

namespace larder::vs_rocksdb {
namespace {

constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // odd: no two numbers meet
constexpr std::uint64_t kSeed = 20260704;

}  // namespace

std::string key_of(std::uint64_t number) {
  return fmt::format("block-{:016x}", (number + 1) * kSpread);
}

Result<Values> Values::create(std::uint64_t value_bytes, std::uint64_t slots, bool blank) {
  Values made;
  LARDER_ASSIGN(made.memory_, block::AlignedBuffer::create(value_bytes * slots, 4096));
  if (!blank) env::random_bytes(made.memory_.span());
  made.value_bytes_ = value_bytes;
  made.slots_ = slots;
  return made;
}

std::span<std::byte> Values::slot(std::uint64_t index) noexcept {
  return memory_.span().subspan(index * value_bytes_, value_bytes_);
}

std::span<const std::byte> Values::make(std::uint64_t number) {
  const auto value = slot(number % slots_);
  std::memcpy(value.data(), &number, sizeof number);
  return value;
}

Result<void> check_value(std::uint64_t number, std::span<const std::byte> bytes,
                         std::uint64_t value_bytes) {
  std::uint64_t found = ~number;
  if (bytes.size() == value_bytes) std::memcpy(&found, bytes.data(), sizeof found);
  if (found == number) return {};
  return fail(Code::kCorrupt,
              fmt::format("value {} has {} bytes of value {}", number, bytes.size(), found));
}

std::vector<std::uint64_t> shuffled(std::uint64_t count) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(kSeed);
  std::ranges::shuffle(order, random);
  return order;
}

}  // namespace larder::vs_rocksdb
