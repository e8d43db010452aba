// SPDX-License-Identifier: Apache-2.0
#include "env/test_seeds.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace larder::env {
namespace {

std::optional<std::uint64_t> number_of(const char* name) {
  const char* const given = std::getenv(name);
  if (given == nullptr) return std::nullopt;
  const std::string_view text = given;
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

TestSeeds test_seeds(std::uint64_t usual) {
  if (const auto one = number_of("LARDER_SEED")) return {*one, 1, true};
  return {1, number_of("LARDER_SEEDS").value_or(usual), false};
}

std::string seed_trace(std::uint64_t seed, const char* program, const char* filter) {
  const std::string number = std::to_string(seed);
  return "seed " + number + "; again: LARDER_SEED=" + number + " " + program +
         " --gtest_filter=" + filter;
}

}  // namespace larder::env
