// SPDX-License-Identifier: Apache-2.0
// What --case asks for.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "larder/status.h"

namespace larder::apps {

class NameFilter {
 public:
  // kInvalidArgument names the expression that is broken.
  static Result<NameFilter> create(const std::vector<std::string>& filters);
  // One of the filters is this name, or an expression found in it. Without filters: always.
  bool matches(const std::string& name) const;

 private:
  std::vector<std::string> texts_;
  std::vector<std::regex> expressions_;
};

}  // namespace larder::apps
