// SPDX-License-Identifier: Apache-2.0
#include "platform/location.h"

#include <fmt/format.h>

#include "base/units.h"

namespace larder::platform {
namespace {

Result<int> parse_index(std::string_view digits, std::string_view text) {
  const auto value = base::parse_u64(digits);
  if (!is_plain_number(digits) || !value || *value > kLocationIndexMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("location {}: what follows the colon must be a number from 0 to {} "
                            "without leading zeros, as in 'cuda:1'",
                            base::quoted(text), kLocationIndexMax));
  }
  return static_cast<int>(*value);
}

}  // namespace

bool is_plain_number(std::string_view text) noexcept {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return false;
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<Location> parse_location(std::string_view text) {
  if (text == "*") return Location{};
  const std::size_t colon = text.find(':');
  const auto type = parse_memory_type(text.substr(0, colon));
  if (!type) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("location {}: {}; write 'cpu:0', 'cuda:1', 'npu:0', or '*' for wherever "
                    "the memory is",
                    base::quoted(text), type.error().message()));
  }
  if (colon == std::string_view::npos) return Location{*type, -1};
  LARDER_ASSIGN(const int index, parse_index(text.substr(colon + 1), text));
  return Location{*type, index};
}

std::string format_location(const Location& location) {
  if (location.type == MemoryType::kUnknown) return "*";
  std::string text(memory_type_name(location.type));
  if (location.index >= 0) text += fmt::format(":{}", location.index);
  return text;
}

}  // namespace larder::platform
