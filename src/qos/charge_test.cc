// SPDX-License-Identifier: Apache-2.0
#include "qos/charge.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace larder::qos {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

ChargeVector make(std::initializer_list<std::pair<Resource, std::uint64_t>> charges) {
  ChargeVector out;
  for (const auto& [resource, bytes] : charges) out.add(resource, bytes);
  return out;
}

TEST(ChargeVector, StartsEmptyAndAddsPerResource) {
  ChargeVector charges;
  EXPECT_TRUE(charges.empty());
  charges.add(Resource::kNicTx, 3).add(Resource::kNicTx, 4).add(Resource::kNvmeRead, 5);
  EXPECT_FALSE(charges.empty());
  EXPECT_EQ(charges[Resource::kNicTx], 7u);
  EXPECT_EQ(charges[Resource::kNvmeRead], 5u);
  EXPECT_EQ(charges[Resource::kNicRx], 0u);
  charges.add(make({{Resource::kNicRx, 1}, {Resource::kNicTx, 1}}));
  EXPECT_EQ(charges,
            make({{Resource::kNicTx, 8}, {Resource::kNicRx, 1}, {Resource::kNvmeRead, 5}}));
}

TEST(ChargeVector, SumsAndProductsStopAtTheTopInsteadOfWrapping) {
  const ChargeVector sum = make({{Resource::kNicTx, kMax - 1}}).add(make({{Resource::kNicTx, 5}}));
  EXPECT_EQ(sum[Resource::kNicTx], kMax);
  EXPECT_EQ(charges_of(Stage::kHostToHost).scaled(kMax / 2 + 1)[Resource::kHostMemoryBw], kMax);
  EXPECT_EQ(charges_of(Stage::kHostToHost).scaled(kMax / 2)[Resource::kHostMemoryBw], kMax - 1);
}

TEST(ChargeVector, TextNamesWhatIsNotZero) {
  EXPECT_EQ(charges_of(Stage::kHostToPeer).scaled(1048576).to_string(),
            "nic_tx=1048576,host_memory_bw=1048576");
  EXPECT_EQ(ChargeVector().to_string(), "none");
  EXPECT_EQ(charges_of(Stage::kHostToPeer).scaled(0).to_string(), "none");
}

TEST(ChargeVector, VisitsWhatIsNotZeroInTheOrderOfTheEnumeration) {
  std::vector<Resource> seen;
  make({{Resource::kNvmeWrite, 1}, {Resource::kNicTx, 2}, {Resource::kAccelPcieIn, 3}})
      .for_each([&](Resource resource, std::uint64_t) { seen.push_back(resource); });
  EXPECT_EQ(seen, (std::vector{Resource::kNicTx, Resource::kAccelPcieIn, Resource::kNvmeWrite}));
}

TEST(ChargeVector, OppositeDirectionsDoNotCollideSaveInHostMemory) {
  const ChargeVector out = charges_of(Stage::kDeviceToFile);
  const ChargeVector in = charges_of(Stage::kFileToDevice);
  EXPECT_FALSE(out.collides_with(in));
  EXPECT_TRUE(out.collides_with(charges_of(Stage::kHostToFile)));
  EXPECT_TRUE(charges_of(Stage::kHostToPeer).collides_with(charges_of(Stage::kPeerToHost)));
  EXPECT_FALSE(out.collides_with(ChargeVector()));
}

TEST(Stage, EachTakesFromTheResourcesThatItPasses) {
  using enum Resource;
  const auto is = [](Stage stage, ChargeVector expected) {
    EXPECT_EQ(charges_of(stage), expected) << stage_name(stage);
  };
  is(Stage::kDeviceToHost, make({{kAccelPcieOut, 1}, {kHostMemoryBw, 1}}));
  is(Stage::kHostToDevice, make({{kHostMemoryBw, 1}, {kAccelPcieIn, 1}}));
  is(Stage::kHostToPeer, make({{kHostMemoryBw, 1}, {kNicTx, 1}}));
  is(Stage::kPeerToHost, make({{kNicRx, 1}, {kHostMemoryBw, 1}}));
  is(Stage::kHostToFile, make({{kHostMemoryBw, 1}, {kNvmeWrite, 1}}));
  is(Stage::kFileToHost, make({{kNvmeRead, 1}, {kHostMemoryBw, 1}}));
  is(Stage::kHostToHost, make({{kHostMemoryBw, 2}}));
  is(Stage::kFileToDevice, make({{kNvmeRead, 1}, {kAccelPcieIn, 1}}));
  is(Stage::kDeviceToFile, make({{kAccelPcieOut, 1}, {kNvmeWrite, 1}}));
  is(Stage::kHostToNamespace, make({{kHostMemoryBw, 1}, {kNicTx, 1}, {kNvmeWrite, 1}}));
  is(Stage::kNamespaceToHost, make({{kNicRx, 1}, {kNvmeRead, 1}, {kHostMemoryBw, 1}}));
  static_assert(!charges_of(Stage::kDeviceToFile).empty());
}

TEST(Stage, UnknownNumbersAreNamedSoAndTakeNothing) {
  const auto none = static_cast<Stage>(kStageCount);
  EXPECT_EQ(stage_name(none), "unknown");
  EXPECT_TRUE(charges_of(none).empty());
  EXPECT_EQ(stage_name(Stage::kDeviceToFile), "device_to_file");
  EXPECT_EQ(stage_name(Stage::kHostToNamespace), "host_to_namespace");
  EXPECT_EQ(stage_name(Stage::kNamespaceToHost), "namespace_to_host");
}

TEST(Stage, SlicesAddUpToTheWholeWhateverTheCut) {
  constexpr std::uint64_t kSeed = 71;
  SCOPED_TRACE("seed 71");
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    const auto stage = static_cast<Stage>(random() % kStageCount);
    std::uint64_t whole = 0;
    ChargeVector sum;
    for (std::uint64_t left = random() % 64; left > 0; --left) {
      const std::uint64_t slice = random() % (1ULL << 40);
      whole += slice;
      sum.add(charges_of(stage).scaled(slice));
    }
    ASSERT_EQ(sum, charges_of(stage).scaled(whole)) << "round " << round;
  }
}

TEST(ChargePlan, StagedIsTwoVectorsInOrder) {
  const auto plan = plan_of({.local = MemoryType::kNpu,
                             .far_side = FarSide::kPeerMemory,
                             .outbound = true,
                             .staged = true});
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->stages().size(), 2u);
  EXPECT_EQ(plan->charges(0, 10).to_string(), "accel_pcie_out=10,host_memory_bw=10");
  EXPECT_EQ(plan->charges(1, 10).to_string(), "nic_tx=10,host_memory_bw=10");
  EXPECT_TRUE(plan->charges(2, 10).empty());
  EXPECT_EQ(plan->to_string(), "device_to_host, host_to_peer");
}

TEST(ChargePlan, FollowsTheBytes) {
  using enum FarSide;
  constexpr auto kCpu = MemoryType::kCpu;
  constexpr auto kCuda = MemoryType::kCuda;
  const auto text = [](MemoryType local, FarSide far_side, bool outbound, bool staged) {
    const auto plan = plan_of({local, far_side, outbound, staged});
    return plan ? plan->to_string() : plan.error().to_string();
  };
  EXPECT_EQ(text(kCpu, kHostMemory, true, false), "host_to_host");
  EXPECT_EQ(text(kCpu, kHostMemory, false, false), "host_to_host");
  EXPECT_EQ(text(kCpu, kPeerMemory, true, false), "host_to_peer");
  EXPECT_EQ(text(kCpu, kPeerMemory, false, false), "peer_to_host");
  EXPECT_EQ(text(kCpu, kFile, true, false), "host_to_file");
  EXPECT_EQ(text(kCpu, kFile, false, false), "file_to_host");
  EXPECT_EQ(text(kCuda, kHostMemory, true, false), "device_to_host");
  EXPECT_EQ(text(kCuda, kHostMemory, false, false), "host_to_device");
  EXPECT_EQ(text(kCuda, kFile, true, false), "device_to_file");
  EXPECT_EQ(text(kCuda, kFile, false, false), "file_to_device");
  EXPECT_EQ(text(kCuda, kFile, true, true), "device_to_host, host_to_file");
  EXPECT_EQ(text(kCuda, kFile, false, true), "file_to_host, host_to_device");
  EXPECT_EQ(text(kCuda, kPeerMemory, false, true), "peer_to_host, host_to_device");
  EXPECT_EQ(text(kCuda, kHostMemory, true, true), "device_to_host, host_to_host");
}

TEST(ChargePlan, RefusesWhatNoStageDoes) {
  const auto code = [](Movement movement) {
    const auto plan = plan_of(movement);
    return plan ? Code::kOk : plan.error().code();
  };
  EXPECT_EQ(code({}), Code::kInvalidArgument);
  EXPECT_EQ(code({.local = MemoryType::kUnknown, .staged = true}), Code::kInvalidArgument);
  EXPECT_EQ(code({.local = MemoryType::kCpu, .staged = true}), Code::kInvalidArgument);
  EXPECT_EQ(code({.local = MemoryType::kNpu, .far_side = FarSide::kPeerMemory}),
            Code::kUnsupported);
}

}  // namespace
}  // namespace larder::qos
