// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/page_pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace larder::apps {
namespace {

TEST(PagePattern, APartIsCheckedByTheNumberOfItsFirstPage) {
  std::vector<std::byte> bytes(10 * kPatternPageBytes + 100);
  fill_pages(bytes, 3, 0);
  EXPECT_TRUE(check_pages(bytes, 3, 0));
  const auto part = std::span(bytes).subspan(4 * kPatternPageBytes, 2 * kPatternPageBytes);
  EXPECT_TRUE(check_pages(part, 3, 4));
  EXPECT_FALSE(check_pages(part, 3, 5));
  EXPECT_FALSE(check_pages(part, 4, 4));
}

TEST(PagePattern, OneWrongByteIsFoundAndItsPageNamed) {
  std::vector<std::byte> bytes(3 * kPatternPageBytes);
  fill_pages(bytes, 9, 7);
  bytes[kPatternPageBytes + 17] ^= std::byte{1};
  const auto checked = check_pages(bytes, 9, 7);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), Code::kCorrupt);
  EXPECT_NE(checked.error().message().find("page 8 (--seed 9)"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
