// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/name_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace larder::apps {

std::vector<std::string_view> split_name(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t dot = text.find('.');
    parts.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    text.remove_prefix(dot + 1);
  }
}

int index_of(std::span<const std::string_view> names, std::string_view text) noexcept {
  const auto found = std::find(names.begin(), names.end(), text);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

Result<std::size_t> parse_count(std::string_view part, char letter, std::size_t max) {
  const auto number = base::parse_u64(part.empty() ? part : part.substr(1));
  if (part.empty() || part.front() != letter || !number || *number == 0 || *number > max) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' must be {} and a number from 1 to {}", part, letter, max));
  }
  return static_cast<std::size_t>(*number);
}

}  // namespace larder::apps
