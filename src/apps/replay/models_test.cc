// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/models.h"

#include <gtest/gtest.h>

#include "apps/replay/replay_command.h"

namespace larder::apps {
namespace {

std::uint64_t bytes_of(std::string_view name, std::uint32_t tp = 1, std::uint64_t dtype = 2) {
  const auto model = find_model(name);
  EXPECT_TRUE(model) << name;
  return *block_bytes(*model, dtype, tp);
}
constexpr std::uint64_t kMi = 1 << 20;

TEST(Models, KnownBlocksOf512Tokens) {
  EXPECT_EQ(bytes_of("llama-3.1-8b"), 64 * kMi);
  EXPECT_EQ(bytes_of("Llama-3.1-70B"), 160 * kMi);
  EXPECT_EQ(bytes_of("qwen2.5-72b"), 160 * kMi);
  EXPECT_EQ(bytes_of("llama-3.1-405b"), 252 * kMi);
  EXPECT_EQ(bytes_of("qwen2.5-7b"), 28 * kMi);
  EXPECT_EQ(bytes_of("qwen3-8b"), 72 * kMi);
  EXPECT_EQ(bytes_of("qwen3-32b"), 128 * kMi);
  EXPECT_EQ(bytes_of("qwen3-235b-a22b"), 94 * kMi);
  EXPECT_EQ(bytes_of("gpt-oss-120b"), 36 * kMi);
  EXPECT_EQ(bytes_of("deepseek-v3"), 61ULL * 576 * 2 * 512);  // 34.3 MiB
  EXPECT_EQ(bytes_of("kimi-k2"), bytes_of("deepseek-r1"));
}

TEST(Models, RanksShareHeadsButNotTheLatent) {
  EXPECT_EQ(bytes_of("llama-3.1-70b", 4), 40 * kMi);
  EXPECT_EQ(bytes_of("llama-3.1-70b", 16), bytes_of("llama-3.1-70b", 8));  // copies past a head
  EXPECT_EQ(bytes_of("deepseek-v3", 8), bytes_of("deepseek-v3"));
  EXPECT_EQ(bytes_of("qwen3-32b", 1, 1), 64 * kMi);
}

TEST(Models, WrongNamesAndRanksSayWhatIsRight) {
  const auto unknown = find_model("gpt-5");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message().find("llama-3.1-8b"), std::string::npos);
  const auto model = *find_model("llama-3.1-8b");
  EXPECT_FALSE(block_bytes(model, 2, 0));
  EXPECT_FALSE(block_bytes(model, 2, 65));
  EXPECT_FALSE(block_bytes(model, 2, 3));
}

TEST(ReplayBlockBytes, TheFlagWinsOverTheModel) {
  ReplayFlags flags;
  EXPECT_EQ(*replay_block_bytes(flags), 65536U);
  flags.model = "qwen3-8b";
  flags.tensor_parallel = 8;
  EXPECT_EQ(*replay_block_bytes(flags), 9 * kMi);
  flags.block_bytes = "1MiB";
  EXPECT_EQ(*replay_block_bytes(flags), kMi);
  for (const char* wrong : {"0", "2GiB", "much", "-1"}) {
    flags.block_bytes = wrong;
    const auto bytes = replay_block_bytes(flags);
    ASSERT_FALSE(bytes) << wrong;
    EXPECT_EQ(bytes.error().message().find("--block-bytes: "), 0U) << bytes.error().message();
  }
  flags.block_bytes.clear();
  flags.kv_dtype = "int3";
  EXPECT_FALSE(replay_block_bytes(flags));
}

}  // namespace
}  // namespace larder::apps
