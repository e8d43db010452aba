// SPDX-License-Identifier: Apache-2.0
// Power lost at every change of a random load on a record store, twice in a row: what was durable
// is there, what was released durably is not, what is there is whole.
//
// A failure names its seed. To run that one alone:
//   LARDER_SEED=SEED extent_test --gtest_filter='ExtentPowerCut.*'
#include "env/test_seeds.h"
#include "extent/power_cut_testing.h"

namespace larder::extent {
namespace {

TEST(ExtentPowerCut, NothingDurableIsLostAndNothingReleasedComesBack) {
  const env::TestSeeds seeds = env::test_seeds(160);
  std::uint64_t cuts = 0;
  std::uint64_t torn = 0;
  std::uint64_t records = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.end() && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "extent_test", "'ExtentPowerCut.*'"));
    const std::uint64_t changes = PowerCutWorld(seed).live(seed, 0);
    ASSERT_GT(changes, 10U);
    for (std::uint64_t at = 1; at <= changes; ++at) {
      SCOPED_TRACE("cut at change " + std::to_string(at));
      PowerCutWorld world(seed);
      world.live(seed * 1000 + at, at);
      world.check();
      ++cuts;
      torn += world.damaged;
      records += world.last_seen;
      if (at % 4 != 0) continue;
      // And once more, at any point of the next life.
      world.live(seed * 1000 + at + 500, 1 + (seed + at) % changes);
      world.check();
      ++cuts;
    }
    if (testing::Test::HasFailure()) break;
  }
  RecordProperty("cuts", std::to_string(cuts));
  std::printf("%lu cuts, %lu torn headers, %lu records found\n", cuts, torn, records);
  // Such states have to come up, or nothing that stands on them is tested.
  EXPECT_TRUE(seeds.alone || cuts >= 10000) << cuts;
  EXPECT_TRUE(seeds.alone || torn > cuts / 200) << torn;
  EXPECT_TRUE(seeds.alone || records > cuts) << records;
}

// That a device which breaks its word is caught, or the test above means nothing.
TEST(ExtentPowerCut, FindsOutALiar) {
  std::size_t caught = 0;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    PowerCutWorld world(seed);
    world.live(seed, 0, {.lying_flush = 0.5});
    const auto store = open_store(world.inner);
    const auto seen = recover_all(*store);
    const auto reader = reader_of(*store, {.depth = 4});
    bool wrong = false;
    for (const auto& [key, put] : world.puts) {
      const auto at = seen.find(key);
      wrong |= put.gone && at != seen.end();
      wrong |= put.durable && !put.release_begun && at == seen.end();
      wrong |= at != seen.end() && !read_one(*store, *reader, at->second.id, put.manifest.checksum);
    }
    caught += wrong ? 1 : 0;
  }
  EXPECT_GT(caught, 4U);
}

}  // namespace
}  // namespace larder::extent
