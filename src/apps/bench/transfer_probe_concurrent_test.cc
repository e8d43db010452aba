// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transfer_probe.h"

#include <gtest/gtest.h>

#include <string>

#include "env/temp_directory.h"

namespace larder::apps {
namespace {

BenchOptions small_options() {
  BenchOptions options;
  options.set_bytes = 1 << 20;
  options.verify = true;
  options.seed = 11;
  return options;
}

TransferCase case_of(const std::string& text) {
  return parse_transfer_case(text).value();
}

TEST(BedSizes, HoldEveryRequestOfAllBatches) {
  const auto small = bed_sizes(case_of("memcpy.read.4KiB.b1.t1"), 128 << 20).value();
  EXPECT_EQ(small.local, std::uint64_t{64} << 20);
  EXPECT_EQ(small.target, std::uint64_t{128} << 20);
  const auto large = bed_sizes(case_of("tcp.read.16MiB.b16.t2"), 128 << 20).value();
  EXPECT_EQ(large.local, std::uint64_t{512} << 20);
  EXPECT_EQ(large.target, std::uint64_t{512} << 20);
  // Four places at the least.
  EXPECT_EQ(bed_sizes(case_of("shm.read.64MiB.b1.t1"), 128 << 20).value().local,
            std::uint64_t{256} << 20);
}

TEST(BedSizes, HaveABound) {
  const auto sizes = bed_sizes(case_of("shm.read.64MiB.b256.t16"), 128 << 20);
  ASSERT_FALSE(sizes);
  EXPECT_EQ(sizes.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(check_file_room(case_of("file.read.4MiB.b32.t1"), 128 << 20));
  const auto room = check_file_room(case_of("file.read.4MiB.b32.t1"), (128 << 20) - 4096);
  ASSERT_FALSE(room);
  EXPECT_NE(room.error().message().find("--file-bytes 128MiB"), std::string::npos);
}

class TransferRuns : public testing::TestWithParam<const char*> {};

TEST_P(TransferRuns, MoveAndAreVerifiedBesideTheirLimits) {
  const auto directory = env::TempDirectory::create("transfer-probe-test").value();
  const BenchOptions options = small_options();
  const TransferCase name = case_of(GetParam());
  std::unique_ptr<DiskFile> file;
  if (on_file(name.target)) {
    file = DiskFile::create(directory.path(), 4 << 20, options.seed).value();
  }
  const TransferContext context{options, nullptr, file.get()};
  const auto bed = TransferBed::open(name, options, file.get());
  ASSERT_TRUE(bed) << bed.error().to_string();
  const auto limits = make_transfer_limits(name, context, **bed);
  ASSERT_TRUE(limits) << limits.error().to_string();
  const auto ours = make_transfer_probe(name, context, **bed);
  ASSERT_TRUE(ours) << ours.error().to_string();
  EXPECT_EQ((*ours)->name(), GetParam());
  const auto pair = run_pair(*limits, plan_limit(name).measure, **ours, Rhythm{2, env::kMilli});
  ASSERT_TRUE(pair) << pair.error().to_string();
  EXPECT_GT(pair->ours.ops_per_s, 0);
  EXPECT_NEAR(pair->ours.bytes_per_s / pair->ours.ops_per_s, static_cast<double>(name.bytes), 1);
}

INSTANTIATE_TEST_SUITE_P(Cases, TransferRuns,
                         testing::Values("memcpy.read.4KiB.b1.t1", "memcpy.write.64KiB.b3.t2",
                                         "file.read.8KiB.b16.t2", "file.write.64KiB.b4.t1",
                                         "staging.read.64KiB.b4.t2", "staging.write.1MiB.b1.t1"));

TEST(TransferProbe, FindsAPageThatIsNotWhatWasStored) {
  const BenchOptions options = small_options();
  const TransferCase name = case_of("memcpy.read.4KiB.b8.t1");
  const auto bed = TransferBed::open(name, options, nullptr).value();
  const TransferContext context{options};
  const auto ours = make_transfer_probe(name, context, *bed).value();
  for (std::size_t i = 0; i < bed->beside().size(); i += 4096) {
    bed->beside()[i + 77] ^= std::byte{1};
  }
  const auto round = run_round(*ours, env::kMilli);
  ASSERT_FALSE(round);
  EXPECT_EQ(round.error().code(), Code::kCorrupt);
  EXPECT_NE(round.error().message().find("--seed 11"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
