// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/name_filter.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder::apps {

Result<NameFilter> NameFilter::create(const std::vector<std::string>& filters) {
  NameFilter filter;
  for (const std::string& text : filters) {
    try {
      filter.expressions_.emplace_back(text);
    } catch (const std::regex_error& e) {
      return fail(Code::kInvalidArgument,
                  fmt::format("--case '{}' is not a regular expression: {}", text, e.what()));
    }
  }
  filter.texts_ = filters;
  return filter;
}

bool NameFilter::matches(const std::string& name) const {
  if (texts_.empty() || std::find(texts_.begin(), texts_.end(), name) != texts_.end()) return true;
  return std::any_of(expressions_.begin(), expressions_.end(),
                     [&](const auto& expression) { return std::regex_search(name, expression); });
}

}  // namespace larder::apps
