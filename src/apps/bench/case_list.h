// SPDX-License-Identifier: Apache-2.0
// Which cases a run measures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/case_name.h"
#include "larder/status.h"

namespace larder::apps {

inline constexpr std::string_view kMemoryCase = "memory.put.64KiB";
inline constexpr std::uint64_t kLookupValueBytes = 4096;  // of the values exists asks for

struct CaseList {
  std::vector<CaseName> cases;  // those that read the same set of values stand together
  bool memory = false;          // kMemoryCase too
};

// The default cases (every one that has a bar, and a spread around them), or the full matrix, cut
// down to those that match one of `filters` (regular expressions, searched for in the name). A
// filter that is itself the name of a case selects that case, listed or not. Errors:
// kInvalidArgument for a broken expression or when nothing matches.
Result<CaseList> select_cases(const std::vector<std::string>& filters, bool all);

// The size of the values in the set that a case reads; 0 for puts, which read none.
std::uint64_t set_value_bytes(const CaseName& name) noexcept;

}  // namespace larder::apps
