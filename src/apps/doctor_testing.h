// SPDX-License-Identifier: Apache-2.0
// For the tests of what doctor says: a report in which all is well, with one thing taken from it at
// a time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "apps/doctor.h"

namespace larder::apps {

// What is missing, and which check has to say so.
template <class Report>
struct Lack {
  const char* id;
  Mark mark;
  void (*take)(Report&);
};

inline void expect_all_fine(const std::vector<Check>& checks, std::size_t count) {
  EXPECT_EQ(checks.size(), count);
  for (const Check& check : checks) {
    EXPECT_EQ(check.mark, Mark::kOk) << check.id << ": " << check.found;
    EXPECT_TRUE(check.cost.empty() && check.mend.empty()) << check.id;
    EXPECT_FALSE(check.found.empty()) << check.id;
  }
}

// That check, and no other, has the mark, and says what was found, what it costs and what to do.
inline void expect_only(const std::vector<Check>& checks, const char* id, Mark mark) {
  const auto found = std::ranges::find(checks, id, &Check::id);
  ASSERT_NE(found, checks.end()) << id;
  EXPECT_EQ(found->mark, mark) << found->found;
  EXPECT_FALSE(found->found.empty() || found->cost.empty() || found->mend.empty()) << id;
  EXPECT_EQ(worst(checks), mark);
  for (const Check& other : checks) {
    EXPECT_TRUE(other.mark == Mark::kOk || other.id == found->id) << other.id;
  }
}

}  // namespace larder::apps
