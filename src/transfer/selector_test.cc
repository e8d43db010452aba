// SPDX-License-Identifier: Apache-2.0
#include "transfer/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace larder::transfer {
namespace {

using enum TransportType;
using testing::HasSubstr;

constexpr auto kCpu = MemoryType::kCpu;
constexpr auto kCuda = MemoryType::kCuda;
constexpr auto kNpu = MemoryType::kNpu;

const InstalledTransport kHasMemcpy = {kMemcpy,
                                       {.moves = {Ability::kCpuToCpu}, .same_process_only = true}};
const InstalledTransport kHasShm = {kShm,
                                    {.moves = {Ability::kCpuToCpu}, .same_machine_only = true}};
const InstalledTransport kHasTcp = {kTcp, {.moves = {Ability::kCpuToCpu}}};
const InstalledTransport kHasIoUring = {kIoUring, {.moves = {Ability::kCpuToFile}}};
const InstalledTransport kHasGds = {kGds, {.moves = {Ability::kCudaToFile}}};
const InstalledTransport kHasNds = {kNds, {.moves = {Ability::kNpuToFile}, .alignment = 4096}};

std::vector<InstalledTransport> everything() {
  return {kHasMemcpy, kHasShm, kHasTcp, kHasIoUring, kHasGds, kHasNds};
}

std::vector<InstalledTransport> without(std::vector<TransportType> missing) {
  auto all = everything();
  std::erase_if(all, [&](const InstalledTransport& transport) {
    return std::find(missing.begin(), missing.end(), transport.type) != missing.end();
  });
  return all;
}

Selector make(std::vector<InstalledTransport> installed = everything(),
              Policy policy = Policy::defaults()) {
  auto selector = Selector::create(std::move(policy), installed);
  EXPECT_TRUE(selector.has_value()) << selector.error().to_string();
  return std::move(selector).value();
}

Selector make(std::string_view policy, std::vector<InstalledTransport> installed = everything()) {
  return make(std::move(installed), Policy::parse(policy, "p.yaml").value());
}

// "gds", "io_uring staged", or "code: message".
std::string pick(const Selector& selector, const Query& query) {
  const auto selection = selector.select(query);
  if (!selection) return selection.error().to_string();
  return std::string(transport_name(selection->transport)) + (selection->staged ? " staged" : "");
}

Query file(MemoryType local) {
  return {.segment_type = SegmentType::kFile, .local_memory = local, .bytes = 4096};
}
Query memory(MemoryType local = kCpu, MemoryType remote = kCpu) {
  return {.local_memory = local, .remote_memory = remote, .bytes = 4096};
}

TEST(Selector, EachKindOfMemoryHasItsFileTransport) {
  const Selector selector = make();
  EXPECT_EQ(pick(selector, file(kNpu)), "nds");
  EXPECT_EQ(pick(selector, file(kCuda)), "gds");
  EXPECT_EQ(pick(selector, file(kCpu)), "io_uring");
}

TEST(Selector, WithoutDirectStorageDeviceMemoryIsStaged) {
  EXPECT_EQ(pick(make(without({kNds})), file(kNpu)), "io_uring staged");
  EXPECT_EQ(pick(make(without({kGds})), file(kCuda)), "io_uring staged");
  EXPECT_EQ(pick(make(without({kNds, kGds})), file(kCpu)), "io_uring");
}

TEST(Selector, ADirectTransportNeverGetsTheOtherKindOfDevice) {
  const Selector selector = make(R"(
policy:
- {name: npu, segment_type: file, local_memory: npu, transports: [gds, nds, io_uring]}
- {name: any, segment_type: file, transports: [nds, gds, io_uring]}
)");
  EXPECT_EQ(pick(selector, file(kNpu)), "nds");
  EXPECT_EQ(pick(selector, file(kCuda)), "gds");
  EXPECT_EQ(pick(selector, file(kCpu)), "io_uring");
  Query hinted = file(kNpu);
  hinted.hint = kGds;
  EXPECT_THAT(pick(selector, hinted), HasSubstr("unsupported: "));
  Query tried = file(kCuda);
  tried.tried = {kGds};
  EXPECT_EQ(pick(selector, tried), "io_uring staged");
}

TEST(Selector, MemoryGoesTheNearestWay) {
  const Selector selector = make();
  Query query = memory();
  EXPECT_EQ(pick(selector, query), "tcp");
  query.same_machine = true;
  EXPECT_EQ(pick(selector, query), "shm");
  query.same_process = true;
  EXPECT_EQ(pick(selector, query), "memcpy");
  query.same_machine = false;  // the same process is on the same machine, whoever forgot to say it
  EXPECT_EQ(pick(selector, query), "memcpy");
  EXPECT_EQ(pick(make(without({kMemcpy, kShm})), query), "tcp");
}

TEST(Selector, StagingReplacesTheLocalEndOnly) {
  const Selector selector = make();
  EXPECT_EQ(pick(selector, memory(kNpu, kCpu)), "tcp staged");
  EXPECT_THAT(pick(selector, memory(kCpu, kCuda)), HasSubstr("unsupported: "));
  EXPECT_THAT(pick(selector, memory(kCuda, kCuda)), HasSubstr("unsupported: "));
  EXPECT_THAT(pick(selector, memory(kCuda, kNpu)), HasSubstr("unsupported: "));
  auto installed = without({kTcp});
  installed.push_back({kTcp, {.moves = {Ability::kCpuToCpu, Ability::kCpuToCuda}}});
  const Selector able = make(installed);
  EXPECT_EQ(pick(able, memory(kCpu, kCuda)), "tcp");
  EXPECT_EQ(pick(able, memory(kCuda, kCpu)), "tcp");
  EXPECT_EQ(pick(able, memory(kNpu, kCuda)), "tcp staged");
  EXPECT_EQ(pick(able, memory(kCuda, kCuda)), "tcp staged");
}

TEST(Selector, UnknownMemoryGoesNowhere) {
  const Selector selector = make();
  const auto wild = static_cast<MemoryType>(200);
  EXPECT_THAT(pick(selector, memory(MemoryType::kUnknown)), HasSubstr("unsupported: "));
  EXPECT_THAT(pick(selector, memory(kCpu, MemoryType::kUnknown)), HasSubstr("unsupported: "));
  EXPECT_THAT(pick(selector, memory(wild, wild)), HasSubstr("unsupported: "));
  EXPECT_THAT(pick(selector, file(MemoryType::kUnknown)), HasSubstr("unsupported: no rule"));
  EXPECT_THAT(pick(selector, {.segment_type = static_cast<SegmentType>(9)}),
              HasSubstr("unsupported: no rule"));
}

TEST(Selector, TheFirstMatchingRuleDecidesAlone) {
  const Selector selector = make(R"(
policy:
- {name: only_gds, segment_type: file, local_memory: cuda, transports: [gds]}
- {name: rest, segment_type: file, transports: [io_uring]}
)");
  Query query = file(kCuda);
  EXPECT_EQ(pick(selector, query), "gds");
  query.tried = {kGds};  // the second rule could, but is not asked
  EXPECT_EQ(pick(selector, query),
            "unavailable: rule 'only_gds' has no transport left for 4KiB of local cuda memory and "
            "a file, intent unknown, class low: gds has been tried");
}

TEST(Selector, EveryFilterCounts) {
  auto installed = without({kTcp});
  installed.push_back({kTcp, {.moves = {Ability::kCpuToCpu, Ability::kCpuToNpu}}});
  const Selector selector = make(R"(
policy:
- {name: near, segment_type: memory, same_machine: true, transports: [shm]}
- {name: local, segment_type: memory, local_memory: npu, transports: [tcp]}
- {name: remote, segment_type: memory, remote_memory: npu, transports: [tcp]}
- {name: size, segment_type: memory, min_size: 10, max_size: 20, transports: [tcp]}
- {name: intent, segment_type: memory, intent: checkpoint, transports: [tcp]}
- {name: high, segment_type: memory, class: high, transports: [tcp]}
- {segment_type: memory, transports: [tcp]}
)",
                                 installed);
  const auto rule = [&selector](Query query) {
    const auto selection = selector.select(query);
    return selection ? std::string(selection->rule_name) : selection.error().to_string();
  };
  Query query = memory();
  EXPECT_EQ(rule(query), "");
  query.traffic_class = TrafficClass::kHigh;
  EXPECT_EQ(rule(query), "high");
  query.traffic_class = TrafficClass::kFromIntent;
  query.intent = Intent::kForegroundHandoff;  // its class is HIGH
  EXPECT_EQ(rule(query), "high");
  query.traffic_class = TrafficClass::kLow;
  EXPECT_EQ(rule(query), "");
  query.intent = Intent::kCheckpoint;
  EXPECT_EQ(rule(query), "intent");
  for (const auto& [bytes, name] :
       {std::pair{9u, "intent"}, {10u, "size"}, {20u, "size"}, {21u, "intent"}}) {
    query.bytes = bytes;
    EXPECT_EQ(rule(query), name) << bytes;
  }
  query.local_memory = kNpu;
  EXPECT_EQ(rule(query), "local");
  query.same_machine = true;
  EXPECT_EQ(rule(query), "near");
  EXPECT_EQ(rule(memory(kCpu, kNpu)), "remote");
}

TEST(Selector, SelectionSaysWhichRuleAndWhatWasPassedOver) {
  const Selector selector = make(without({kNds, kShm}));
  Query query = memory();
  query.same_machine = true;
  const auto selection = selector.select(query);
  ASSERT_TRUE(selection.has_value());
  EXPECT_EQ(selection->rule, 3);
  EXPECT_EQ(selection->rule_name, "same_machine_memory");
  ASSERT_EQ(selection->why_not().size(), 2u);
  EXPECT_EQ(selection->why_not()[0].transport, kMemcpy);
  EXPECT_EQ(selection->why_not()[0].why, WhyNot::kOtherProcess);
  EXPECT_EQ(selection->why_not()[1].transport, kShm);
  EXPECT_EQ(selection->why_not()[1].why, WhyNot::kNotInstalled);
}

TEST(Selector, ANamedRuleSkipsEveryFilterButTheSegment) {
  const Selector selector = make(R"(
policy:
- {name: a, segment_type: memory, transports: [tcp]}
- {name: picky, segment_type: memory, same_machine: true, local_memory: npu, min_size: 1GiB,
   intent: checkpoint, class: high, transports: [shm, tcp]}
- {name: files, segment_type: file, transports: [io_uring]}
)");
  Query query = memory();
  query.policy = "picky";
  const auto selection = selector.select(query);
  ASSERT_TRUE(selection.has_value()) << selection.error().to_string();
  EXPECT_EQ(selection->rule, 1);
  EXPECT_EQ(selection->transport, kTcp) << "shared memory still cannot leave the machine";
  query.policy = "files";
  EXPECT_EQ(pick(selector, query),
            "invalid_argument: rule 'files' is for segment_type file, the target is memory");
  query.policy = "pick";
  EXPECT_EQ(pick(selector, query), "invalid_argument: no rule of the policy is named 'pick'");
}

TEST(Selector, AHintIsThatOneOrAnError) {
  const Selector selector = make(without({kNds}));
  Query query = memory();
  query.same_machine = true;
  query.hint = kTcp;
  EXPECT_EQ(pick(selector, query), "tcp") << "though shm comes first";
  query.hint = kMemcpy;
  EXPECT_THAT(pick(selector, query),
              HasSubstr("unsupported: rule 'same_machine_memory' has no transport but the hinted "
                        "one"));
  query.hint = kGds;
  EXPECT_EQ(pick(selector, query),
            "invalid_argument: rule 'same_machine_memory' does not allow the hinted transport "
            "gds");
  query.hint = kTcp;
  query.tried = {kTcp};
  EXPECT_THAT(pick(selector, query), HasSubstr("unavailable: "));
  Query missing = file(kNpu);
  missing.hint = kNds;
  EXPECT_THAT(pick(selector, missing), HasSubstr("unsupported: "));
  EXPECT_THAT(pick(selector, missing), HasSubstr("nds is not installed"));
  missing.hint = kIoUring;
  EXPECT_EQ(pick(selector, missing), "io_uring staged");
}

TEST(Selector, RetriesGoByIdentityUntilNoneIsLeft) {
  const Selector selector = make();
  Query query = memory();
  query.same_process = true;
  EXPECT_EQ(pick(selector, query), "memcpy");
  query.tried.add(kShm);  // in whatever order they were tried
  EXPECT_EQ(pick(selector, query), "memcpy");
  query.tried.add(kMemcpy);
  EXPECT_EQ(pick(selector, query), "tcp");
  query.tried.add(kTcp);
  EXPECT_THAT(pick(selector, query), HasSubstr("unavailable: "));
}

TEST(Selector, EveryRuleNeedsATransportThatCouldEverServeIt) {
  const auto refusal = [](std::string_view policy, std::vector<InstalledTransport> installed) {
    const auto selector = Selector::create(Policy::parse(policy, "p").value(), installed);
    if (selector) return std::string("taken");
    EXPECT_EQ(selector.error().code(), Code::kInvalidArgument);
    return selector.error().message();
  };
  constexpr std::string_view kOnlyNds =
      "policy: [{name: npu, segment_type: file, local_memory: npu, transports: [nds]}]";
  EXPECT_EQ(refusal(kOnlyNds, {kHasNds}), "taken");
  EXPECT_EQ(refusal(kOnlyNds, {kHasIoUring}),
            "policy: rule 'npu': none of its transports could ever serve it: nds (not installed); "
            "install one that can, or take the rule out");
  EXPECT_THAT(
      refusal("policy: [{segment_type: file, local_memory: npu, transports: [gds]}]", {kHasGds}),
      HasSubstr("rule 1: none"));
  EXPECT_EQ(refusal("policy: [{segment_type: file, local_memory: npu, transports: [io_uring]}]",
                    {kHasIoUring}),
            "taken");
  EXPECT_THAT(refusal("policy: [{segment_type: memory, transports: [io_uring]}]", {kHasIoUring}),
              HasSubstr("io_uring; install"));
  constexpr std::string_view kFar =
      "policy: [{segment_type: memory, same_machine: false, transports: [shm, memcpy]}]";
  EXPECT_THAT(refusal(kFar, everything()), HasSubstr("shm, memcpy; install"));
  EXPECT_THAT(refusal("policy: [{segment_type: memory, remote_memory: npu, transports: [tcp]}]",
                      everything()),
              HasSubstr("tcp; install"));
}

TEST(Selector, RefusesTransportsThatMakeNoSense) {
  const auto refusal = [](std::vector<InstalledTransport> installed) {
    installed.push_back(kHasIoUring);
    installed.push_back(kHasTcp);
    const auto selector = Selector::create(Policy::defaults(), installed);
    if (selector) return std::string("taken");
    EXPECT_EQ(selector.error().code(), Code::kInvalidArgument);
    return selector.error().message();
  };
  EXPECT_EQ(refusal({}), "taken");
  EXPECT_EQ(refusal({kHasTcp}), "transport tcp: installed twice");
  EXPECT_THAT(refusal({{kUnspecified, kHasTcp.abilities}}), HasSubstr("is no transport's number"));
  EXPECT_THAT(refusal({{kGds, {}}}), HasSubstr("transport gds: has no ability"));
  const AbilitySet moves = {Ability::kCudaToFile};
  EXPECT_THAT(refusal({{kGds, {.moves = moves, .alignment = 0}}}), HasSubstr("power of two"));
  EXPECT_THAT(refusal({{kGds, {.moves = moves, .alignment = 12}}}), HasSubstr("power of two"));
  EXPECT_THAT(refusal({{kGds, {.moves = moves, .alignment = 512, .bytes_max = 511}}}),
              HasSubstr("bytes_max"));
}

TEST(Selector, AbilitiesOfWhatIsInstalledCanBeAsked) {
  const Selector selector = make(without({kGds}));
  ASSERT_NE(selector.abilities(kNds), nullptr);
  EXPECT_EQ(selector.abilities(kNds)->alignment, 4096u);
  EXPECT_EQ(selector.abilities(kGds), nullptr);
  EXPECT_EQ(selector.policy(), Policy::defaults());
}

TEST(Selector, ExplainsWhatItDid) {
  const Selector selector = make(without({kShm}));
  Query query = memory(kNpu);
  query.same_machine = true;
  query.tried = {kTcp};
  query.intent = Intent::kForegroundHandoff;
  EXPECT_EQ(selector.explain(query),
            "4KiB of local npu memory and cpu memory on this machine, intent foreground_handoff, "
            "class high\n"
            "rule 'npu_file': segment_type does not match\n"
            "rule 'cuda_file': segment_type does not match\n"
            "rule 'cpu_file': segment_type does not match\n"
            "rule 'same_machine_memory': matches\n"
            "  memcpy stays within one process\n"
            "  shm is not installed\n"
            "  tcp has been tried, staged through host memory\n"
            "  none is left\n");
  query.tried = {};
  EXPECT_THAT(selector.explain(query), HasSubstr("  tcp is taken, staged through host memory\n"));
  query.policy = "remote_memory";
  EXPECT_THAT(selector.explain(query),
              HasSubstr("class high\nrule 'remote_memory': asked for by name\n  tcp is taken"));
  query.policy = "x";
  EXPECT_THAT(selector.explain(query), HasSubstr("no rule of the policy is named 'x'"));
  query = memory();
  query.same_process = true;
  EXPECT_THAT(selector.explain(query), HasSubstr("  memcpy is taken\n  shm is not installed\n"
                                                 "  tcp comes later\n"));
  EXPECT_THAT(selector.explain(file(MemoryType::kUnknown)), HasSubstr("no rule of the policy"));
}

TEST(Abilities, AreOneBitEachAndSymmetric) {
  constexpr std::array kAll = {kCpu, kCuda, kNpu};
  std::vector<Ability> seen;
  for (const MemoryType a : kAll) {
    seen.push_back(ability_for(SegmentType::kFile, a, MemoryType::kUnknown));
    for (const MemoryType b : kAll) {
      EXPECT_EQ(ability_for(SegmentType::kMemory, a, b), ability_for(SegmentType::kMemory, b, a));
      if (a <= b) seen.push_back(ability_for(SegmentType::kMemory, a, b));
    }
  }
  std::erase(seen, Ability::kNone);  // of CUDA and NPU
  EXPECT_EQ(seen.size(), 8u);
  for (const Ability a : seen) {
    for (const Ability b : seen) EXPECT_EQ(AbilitySet{a}.contains(b), a == b);
  }
  EXPECT_FALSE((AbilitySet{Ability::kCpuToCpu}.contains(Ability::kNone)));
  EXPECT_EQ(ability_for(SegmentType::kMemory, kCuda, kNpu), Ability::kNone);
  EXPECT_EQ(ability_for(SegmentType::kMemory, MemoryType::kUnknown, kCpu), Ability::kNone);
}

TEST(TransportSet, HoldsEachByItsNumber) {
  constexpr std::array kAll = {kShm, kGds, kIoUring, kTcp, kNds, kMemcpy};
  for (const TransportType a : kAll) {
    const TransportSet set = {a};
    EXPECT_FALSE(set.empty());
    for (const TransportType b : kAll) EXPECT_EQ(set.contains(b), a == b);
  }
  TransportSet set;
  set.add(static_cast<TransportType>(200));
  EXPECT_TRUE(set.empty());
  EXPECT_FALSE(set.contains(static_cast<TransportType>(200)));
}

// Whatever is installed, tried and asked: what comes out can do it, and nothing better was skipped.
TEST(Selector, PropertiesHoldForManySeeds) {
  constexpr std::uint64_t kSeed = 31337;
  std::mt19937_64 random(kSeed);
  constexpr std::array kAll = {kShm, kGds, kIoUring, kTcp, kNds, kMemcpy};
  for (int round = 0; round < 20'000; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    std::vector<TransportType> missing;
    for (const TransportType type : {kShm, kGds, kNds, kMemcpy}) {
      if (random() % 3 == 0) missing.push_back(type);
    }
    const Selector selector = make(without(missing));
    Query query = {.segment_type = static_cast<SegmentType>(random() % 2),
                   .local_memory = static_cast<MemoryType>(random() % 4),
                   .remote_memory = static_cast<MemoryType>(random() % 4),
                   .same_process = random() % 2 == 0,
                   .same_machine = random() % 2 == 0,
                   .bytes = random() % 100};
    for (const TransportType type : kAll) {
      if (random() % 4 == 0) query.tried.add(type);
    }
    if (random() % 4 == 0) query.hint = kAll[random() % kAll.size()];
    const auto selection = selector.select(query);
    if (!selection) continue;
    const TransportAbilities* const abilities = selector.abilities(selection->transport);
    ASSERT_NE(abilities, nullptr);
    ASSERT_FALSE(query.tried.contains(selection->transport));
    ASSERT_TRUE(query.hint == kUnspecified || query.hint == selection->transport);
    ASSERT_TRUE(!selection->staged || is_device_memory(query.local_memory));
    const MemoryType from = selection->staged ? kCpu : query.local_memory;
    ASSERT_TRUE(
        abilities->moves.contains(ability_for(query.segment_type, from, query.remote_memory)));
    const auto& named = selector.policy().rules()[selection->rule].transports;
    for (std::size_t i = 0; i < selection->skips; ++i) {
      ASSERT_EQ(selection->skipped[i].transport, named[i]);
      ASSERT_NE(selection->skipped[i].why, WhyNot::kNothing);
    }
    ASSERT_EQ(named[selection->skips], selection->transport);
  }
}

}  // namespace
}  // namespace larder::transfer
