// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/case_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "apps/bench/score.h"

namespace larder::apps {
namespace {

TEST(SelectCases, TheDefaultHasEveryCaseWithABar) {
  const auto list = select_cases({}, false);
  ASSERT_TRUE(list) << list.error().to_string();
  EXPECT_TRUE(list->memory);
  EXPECT_EQ(list->cases.size(), 40U);
  EXPECT_EQ(std::count_if(list->cases.begin(), list->cases.end(),
                          [](const CaseName& name) { return bar_of(name).has_value(); }),
            14);
}

TEST(SelectCases, SetsOfOneSizeStandTogether) {
  const auto list = select_cases({}, true).value();
  std::set<std::uint64_t> seen;
  std::uint64_t last = ~0ULL;
  for (const CaseName& name : list.cases) {
    const std::uint64_t bytes = set_value_bytes(name);
    if (bytes != last) {
      EXPECT_TRUE(seen.insert(bytes).second) << to_string(name);
      last = bytes;
    }
  }
  EXPECT_EQ(last, 0U);
}

TEST(SelectCases, FiltersAreSearchedFor) {
  const auto list = select_cases({"^tcp\\.exists", "put_shared"}, false).value();
  EXPECT_FALSE(list.memory);
  std::vector<std::string> names;
  for (const CaseName& name : list.cases) names.push_back(to_string(name));
  EXPECT_EQ(names, (std::vector<std::string>{"tcp.exists.16384.c1", "tcp.exists.256.c1",
                                             "local.put_shared.1MiB.b1.c1"}));
}

TEST(SelectCases, AnExactNameNeedNotBeListed) {
  const auto list = select_cases({"tcp.put_over.256KiB.b1.c4"}, false).value();
  ASSERT_EQ(list.cases.size(), 1U);
  EXPECT_EQ(to_string(list.cases[0]), "tcp.put_over.256KiB.b1.c4");
  EXPECT_EQ(select_cases({"memory.put.64KiB"}, false).value().cases.size(), 0U);
}

TEST(SelectCases, SaysWhenNothingMatchesOrTheExpressionIsBroken) {
  EXPECT_NE(select_cases({"nonsense"}, false).error().message().find("--list"), std::string::npos);
  EXPECT_NE(select_cases({"(tcp"}, false).error().message().find("(tcp"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
