// SPDX-License-Identifier: Apache-2.0
#include "transfer/policy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace larder::transfer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kGood = R"(
policy:
  - name: big_npu.reads-1
    segment_type: memory
    same_machine: false
    local_memory: npu
    remote_memory: cpu
    min_size: 64KiB
    max_size: 1048576
    intent: foreground_prefix_fetch
    class: high
    transports: [tcp, shm]
  - segment_type: file
    local_memory: any
    transports:
      - io_uring
)";

std::string refusal(std::string_view text) {
  const auto policy = Policy::parse(text, "p.yaml");
  if (policy) return "taken";
  EXPECT_EQ(policy.error().code(), Code::kInvalidArgument);
  EXPECT_LT(policy.error().message().size(), 1024u);
  return policy.error().message();
}

// One rule with these lines in it, the first of which is line 4.
std::string refusal_of_rule(std::string_view lines) {
  return refusal(fmt::format("policy:\n- name: r\n  segment_type: memory\n{}", lines));
}

TEST(Policy, ReadsEveryKey) {
  const auto policy = Policy::parse(kGood, "p.yaml");
  ASSERT_TRUE(policy.has_value()) << policy.error().to_string();
  ASSERT_EQ(policy->rules().size(), 2u);
  Rule first;
  first.name = "big_npu.reads-1";
  first.same_machine = false;
  first.local_memory = MemoryType::kNpu;
  first.remote_memory = MemoryType::kCpu;
  first.min_size = 64 << 10;
  first.max_size = 1 << 20;
  first.intent = Intent::kForegroundPrefixFetch;
  first.traffic_class = TrafficClass::kHigh;
  first.transports = {TransportType::kTcp, TransportType::kShm};
  EXPECT_EQ(policy->rules()[0], first);
  Rule second;
  second.segment_type = SegmentType::kFile;
  second.transports = {TransportType::kIoUring};
  EXPECT_EQ(policy->rules()[1], second);
  EXPECT_EQ(policy->label(0), "'big_npu.reads-1'");
  EXPECT_EQ(policy->label(1), "2");
}

TEST(Policy, ReadsTheJsonOfTheDesignPaper) {
  const auto policy = Policy::parse(R"({
  "policy": [
    {
      "name": "npu_file",
      "segment_type": "file",
      "local_memory": "npu",
      "transports": ["nds", "io_uring"]
    },
    {"name": "cuda_file", "segment_type": "file", "local_memory": "cuda",
     "transports": ["gds", "io_uring"]},
    {"transports": ["io_uring"], "local_memory": "cpu", "segment_type": "file",
     "name": "cpu_file"}
  ]
})",
                                    "p.json");
  ASSERT_TRUE(policy.has_value()) << policy.error().to_string();
  const Policy defaults = Policy::defaults();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(policy->rules()[i], defaults.rules()[i]) << i;
}

TEST(Policy, JsonMayBeIndentedWithTabs) {
  EXPECT_EQ(refusal("{\n\t\"policy\": [\n\t\t{\"segment_type\": \"file\",\n\t\t"
                    "\"transports\": [\"gds\"]}\n\t]\n}\n"),
            "taken");
}

TEST(Policy, DefaultsAreFilesByKindOfMemoryAndMemoryByDistance) {
  using enum TransportType;
  const Policy policy = Policy::defaults();
  const auto rules = policy.rules();
  ASSERT_EQ(rules.size(), 5u);
  const auto transports = [&](std::size_t i) { return rules[i].transports; };
  EXPECT_EQ(rules[0].name, "npu_file");
  EXPECT_EQ(transports(0), (std::vector{kNds, kIoUring}));
  EXPECT_EQ(rules[1].name, "cuda_file");
  EXPECT_EQ(transports(1), (std::vector{kGds, kIoUring}));
  EXPECT_EQ(rules[2].name, "cpu_file");
  EXPECT_EQ(transports(2), (std::vector{kIoUring}));
  EXPECT_EQ(transports(3), (std::vector{kMemcpy, kShm, kTcp}));
  EXPECT_EQ(rules[3].same_machine, true);
  EXPECT_EQ(transports(4), (std::vector{kTcp}));
  EXPECT_TRUE(Policy::create({rules.begin(), rules.end()}).has_value());
}

TEST(Policy, RulesOfATemporaryMayBeLoopedOver) {
  std::size_t named = 0;
  for (const Rule& rule : Policy::defaults().rules()) named += rule.name.empty() ? 0 : 1;
  EXPECT_EQ(named, 5u);
}

TEST(Policy, TextParsesBackToTheSame) {
  for (const Policy& policy : {Policy::defaults(), Policy::parse(kGood, "p").value()}) {
    const auto again = Policy::parse(policy.to_text(), "again");
    ASSERT_TRUE(again.has_value()) << again.error().to_string() << policy.to_text();
    EXPECT_EQ(*again, policy);
    EXPECT_EQ(again->to_text(), policy.to_text());
  }
}

template <class T>
std::optional<T> maybe(std::mt19937_64& random, std::vector<T> choices) {
  const std::size_t at = random() % (choices.size() + 1);
  return at == choices.size() ? std::nullopt : std::optional<T>(choices[at]);
}

Rule random_rule(std::mt19937_64& random, std::size_t number) {
  static const std::vector<MemoryType> kMemory = {MemoryType::kCpu, MemoryType::kCuda,
                                                  MemoryType::kNpu};
  static const std::vector<std::string> kNames = {"", "null", "1e3", "true", "-", "a.b"};
  Rule rule;
  rule.name = kNames[random() % kNames.size()];
  if (!rule.name.empty()) rule.name += std::to_string(number);
  rule.segment_type = random() % 2 == 0 ? SegmentType::kFile : SegmentType::kMemory;
  rule.same_machine = maybe<bool>(random, {true, false});
  rule.local_memory = maybe(random, kMemory);
  if (rule.segment_type == SegmentType::kMemory) rule.remote_memory = maybe(random, kMemory);
  rule.min_size = random() >> (random() % 64);
  rule.max_size = std::max(rule.min_size, random() >> (random() % 64));
  if (random() % 2 == 0) rule.max_size = Rule().max_size;
  rule.intent = maybe<Intent>(random, {Intent::kUnknown, Intent::kCheckpoint});
  rule.traffic_class = maybe(random, std::vector{TrafficClass::kHigh, TrafficClass::kLow});
  rule.transports = {TransportType::kTcp, TransportType::kShm, TransportType::kNds};
  std::shuffle(rule.transports.begin(), rule.transports.end(), random);
  rule.transports.resize(1 + random() % 3);
  return rule;
}

TEST(Policy, TextOfAnyPolicyParsesBackToTheSame) {
  constexpr std::uint64_t kSeed = 4711;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", kSeed, round));
    std::vector<Rule> rules;
    for (std::size_t left = 1 + random() % 6; left > 0; --left) {
      rules.push_back(random_rule(random, left));
    }
    const auto policy = Policy::create(rules);
    ASSERT_TRUE(policy.has_value()) << policy.error().to_string();
    const auto again = Policy::parse(policy->to_text(), "again");
    ASSERT_TRUE(again.has_value()) << again.error().to_string() << policy->to_text();
    ASSERT_EQ(*again, *policy) << policy->to_text();
  }
}

TEST(Policy, ErrorsNameThePlaceTheRuleAndWhatIsAllowed) {
  EXPECT_EQ(refusal_of_rule("  transports: [tcp]\n  intent_type: checkpoint\n"),
            "p.yaml:5: rule 'r': unknown key 'intent_type'; allowed are name, segment_type, "
            "same_machine, local_memory, remote_memory, min_size, max_size, intent, class, "
            "transports");
  EXPECT_EQ(refusal_of_rule("  transports: [tcp, rdma]\n"),
            "p.yaml:4: rule 'r': transports: transport 'rdma' is not one of shm, gds, io_uring, "
            "tcp, nds, memcpy");
  EXPECT_EQ(refusal_of_rule("  transports: [tcp]\n  local_memory: gpu\n"),
            "p.yaml:5: rule 'r': local_memory: memory type 'gpu' is not one of cpu, cuda, npu, "
            "any");
  // The name may come last, or not at all.
  EXPECT_THAT(refusal("policy:\n- class: medium\n  name: late\n"),
              StartsWith("p.yaml:2: rule 'late': class: class 'medium' is not one of high, low"));
  EXPECT_THAT(refusal("policy:\n- {segment_type: file, transports: [gds]}\n- class: medium\n"),
              StartsWith("p.yaml:3: rule 2: class: "));
}

TEST(Policy, RefusesUnknownWords) {
  EXPECT_THAT(refusal_of_rule("  transports: [tcp]\n  intent: prefetch\n"),
              HasSubstr("intent 'prefetch' is not one of unknown, foreground_handoff"));
  EXPECT_THAT(refusal_of_rule("  transports: [tcp]\n  remote_memory: rocm\n"),
              HasSubstr("remote_memory: memory type 'rocm'"));
  EXPECT_THAT(refusal_of_rule("  transports: [tcp]\n  same_machine: maybe\n"),
              HasSubstr("same_machine: "));
  EXPECT_THAT(refusal("policy:\n- segment_type: tape\n"),
              HasSubstr("segment type 'tape' is not one of memory, file"));
  EXPECT_THAT(refusal("policies: []\n"), HasSubstr("unknown key 'policies'; allowed is policy"));
  EXPECT_THAT(refusal("policy:\n- {segment_type: file, transports: [gds]}\nother: 1\n"),
              HasSubstr("p.yaml:3: something after the rules"));
}

TEST(Policy, RefusesWhatOnlyTheBooksKnow) {
  EXPECT_EQ(refusal_of_rule("  transports: [tcp, nvme_tcp]\n"),
            "p.yaml:2: rule 'r': transports: 'nvme_tcp' is a name of the books only; the engine "
            "has no such transport, so no rule can choose it");
  Rule rule;
  rule.segment_type = SegmentType::kFile;
  rule.transports = {TransportType::kIoUring, TransportType::kNvmeTcp};
  const auto made = Policy::create({rule});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kInvalidArgument);
}

TEST(Policy, RefusesSizesThatAreNone) {
  EXPECT_THAT(refusal_of_rule("  transports: [tcp]\n  min_size: 64Kb2\n"),
              HasSubstr("min_size: size '64Kb2' has an unknown unit"));
  EXPECT_THAT(refusal_of_rule("  transports: [tcp]\n  max_size: -1\n"), HasSubstr("max_size: "));
  EXPECT_THAT(refusal_of_rule("  transports: [tcp]\n  min_size: 2KiB\n  max_size: 2047\n"),
              HasSubstr("rule 'r': min_size 2KiB is above max_size 2047B"));
  EXPECT_EQ(refusal_of_rule("  transports: [tcp]\n  min_size: 2KiB\n  max_size: 2048\n"), "taken");
}

TEST(Policy, RefusesWhatIsMissingOrEmpty) {
  EXPECT_THAT(refusal("policy:\n- name: r\n  transports: [tcp]\n"),
              HasSubstr("p.yaml:2: rule 'r': has no segment_type"));
  EXPECT_THAT(refusal_of_rule(""), HasSubstr("rule 'r': has no transports"));
  EXPECT_THAT(refusal_of_rule("  transports: []\n"), HasSubstr("transports: 0 of them"));
  EXPECT_THAT(refusal_of_rule("  transports:\n"), HasSubstr("transports has no value"));
  EXPECT_THAT(refusal(""), HasSubstr("has no key 'policy'"));
  EXPECT_THAT(refusal("{}"), HasSubstr("has no key 'policy'"));
  EXPECT_THAT(refusal("policy: []"), HasSubstr("no rules; allowed are 1 to 256"));
  EXPECT_THAT(refusal("policy: [{}]"), HasSubstr("rule 1: has no segment_type"));
}

TEST(Policy, RefusesWhatIsGivenTwice) {
  EXPECT_THAT(refusal_of_rule("  transports: [tcp, shm, tcp]\n"),
              HasSubstr("transports: 'tcp' is given twice"));
  EXPECT_THAT(refusal_of_rule("  transports: [tcp]\n  segment_type: file\n"),
              HasSubstr("p.yaml:5: rule 'r': key 'segment_type' is given twice, first in line 3"));
  EXPECT_THAT(refusal("policy:\n- {name: a, segment_type: file, transports: [gds]}\n"
                      "- {name: a, segment_type: file, transports: [nds]}\n"),
              HasSubstr("p.yaml:3: rule 'a': name: the rule in line 2 has it already"));
  EXPECT_THAT(refusal("policy:\n- {segment_type: file, transports: [gds]}\npolicy: []\n"),
              HasSubstr("p.yaml:3: "));
  EXPECT_THAT(refusal("policy:\n- {segment_type: file, transports: [gds]}\n---\npolicy: []\n"),
              HasSubstr("second YAML document"));
}

TEST(Policy, RefusesBadNames) {
  const auto named = [](std::string_view name) {
    return refusal(
        fmt::format("policy:\n- name: {}\n  segment_type: file\n  transports: [gds]\n", name));
  };
  EXPECT_EQ(named(std::string(64, 'n')), "taken");
  EXPECT_THAT(named(std::string(65, 'n')), AllOf(HasSubstr("rule 1: name: "), HasSubstr("64")));
  EXPECT_THAT(named("\"\""), HasSubstr("is no rule name"));
  EXPECT_THAT(named("a b"), HasSubstr("'a b' is no rule name"));
  EXPECT_THAT(named("\"a\\nb\""), HasSubstr("'a\\x0ab' is no rule name"));
}

TEST(Policy, RefusesValuesOfTheWrongKind) {
  EXPECT_THAT(refusal_of_rule("  transports: tcp\n"), HasSubstr("transports is no list"));
  EXPECT_THAT(refusal_of_rule("  transports: [tcp]\n  class: [high]\n"),
              HasSubstr("class is a list; allowed is high or low"));
  EXPECT_THAT(refusal_of_rule("  transports: [[tcp]]\n"), HasSubstr("no text"));
  EXPECT_THAT(refusal_of_rule("  transports: [~]\n"), HasSubstr("no text"));
  EXPECT_THAT(refusal_of_rule("  transports: {tcp: 1}\n"),
              HasSubstr("'transports' holds a mapping"));
  EXPECT_THAT(refusal_of_rule("  [a]: b\n"), HasSubstr("a key that is no text"));
  EXPECT_THAT(refusal("policy: tcp"), HasSubstr("'policy' is no list"));
  EXPECT_THAT(refusal("policy: {a: b}"), HasSubstr("'policy' is no list"));
  EXPECT_THAT(refusal("policy:"), HasSubstr("'policy' is no list"));
  EXPECT_THAT(refusal("policy: [tcp]"), HasSubstr("item 1 of 'policy' is no mapping"));
  EXPECT_THAT(refusal("policy: [[]]"), HasSubstr("item 1 of 'policy' is no mapping"));
  EXPECT_THAT(refusal("[a]: b"), HasSubstr("a key that is no text"));
  EXPECT_THAT(refusal("- policy"), HasSubstr("not a mapping"));
  EXPECT_THAT(refusal("policy"), HasSubstr("not a mapping"));
}

TEST(Policy, AFileHasNoRemoteMemory) {
  constexpr std::string_view kRule =
      "policy: [{{segment_type: file, remote_memory: {}, transports: [gds]}}]";
  EXPECT_THAT(refusal(fmt::format(kRule, "cpu")), HasSubstr("remote_memory: a file has none"));
  EXPECT_EQ(refusal(fmt::format(kRule, "any")), "taken");
  EXPECT_EQ(refusal(fmt::format(kRule, "\"*\"")), "taken");
  EXPECT_THAT(refusal(fmt::format(kRule, "*")), HasSubstr("p.yaml:1: "));
}

TEST(Policy, RefusesWhatIsNotPlainYaml) {
  EXPECT_THAT(refusal("policy: &a\n- {}\n"), HasSubstr("anchor"));
  EXPECT_THAT(refusal_of_rule("  transports: !!seq [tcp]\n"), HasSubstr("tag"));
  EXPECT_THAT(refusal_of_rule("  class: !secret high\n"), HasSubstr("rule 1: a tag '!secret'"));
  EXPECT_THAT(refusal("policy: [{name: a]"), HasSubstr("p.yaml:1: not valid YAML or JSON"));
  EXPECT_THAT(refusal("policy:\n- name: \"a\n"), HasSubstr("p.yaml:"));
  EXPECT_THAT(refusal(std::string_view("policy:\0[]", 10)), HasSubstr("NUL"));
}

TEST(Policy, BombsAreDefusedAtTheFirstFuse) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    bomb += fmt::format("{0}: &{0} [*{1}, *{1}, *{1}, *{1}, *{1}, *{1}]\n", c,
                        static_cast<char>(c - 1));
  }
  EXPECT_THAT(refusal(bomb), HasSubstr("unknown key 'a'"));
  EXPECT_THAT(refusal("policy: [&a {name: x}, *a, *a]"), HasSubstr("anchor"));
  EXPECT_THAT(refusal("policy: " + std::string(200'000, '[')), HasSubstr("p.yaml:1: "));
  EXPECT_THAT(refusal(std::string(200'000, '{')), HasSubstr("p.yaml:1: "));
  EXPECT_THAT(refusal_of_rule("  transports: " + std::string(200'000, '[')),
              HasSubstr("p.yaml:4: "));
}

TEST(Policy, EverythingIsBounded) {
  const auto many = [](std::size_t count) {
    std::string text = "policy:\n";
    for (; count > 0; --count) text += "- {segment_type: file, transports: [gds]}\n";
    return text;
  };
  EXPECT_EQ(refusal(many(256)), "taken");
  EXPECT_THAT(refusal(many(257)), HasSubstr("p.yaml:258: more than 256 rules"));
  std::string padded = many(1);
  padded.resize(Policy::kTextBytesMax, '\n');
  EXPECT_EQ(refusal(padded), "taken");
  EXPECT_THAT(refusal(padded + '\n'), HasSubstr("larger than 1MiB"));
  std::string keys;
  for (int i = 0; i < 100; ++i) keys += fmt::format("  k{}: 1\n", i);
  EXPECT_THAT(refusal_of_rule(keys), HasSubstr("rule 1: has too many keys"));
  std::string items = "  transports: [";
  for (int i = 0; i < 100; ++i) items += "tcp, ";
  EXPECT_THAT(refusal_of_rule(items + "tcp]\n"), HasSubstr("a list of too many items"));
}

TEST(Policy, MessagesAreOneCleanLineWhateverTheSourceIsCalled) {
  const auto policy = Policy::parse("x", "a\nb\x1b" + std::string(1000, 'y'));
  ASSERT_FALSE(policy.has_value());
  EXPECT_THAT(policy.error().message(), StartsWith("a?b?y"));
  EXPECT_LT(policy.error().message().size(), 400u);
}

TEST(Policy, RulesMadeInCodePassTheSameChecks) {
  const auto code_refusal = [](auto change) {
    Rule rule;
    rule.name = "made";
    rule.transports = {TransportType::kTcp};
    change(rule);
    const auto policy = Policy::create({rule});
    return policy ? std::string("taken") : policy.error().message();
  };
  EXPECT_EQ(code_refusal([](Rule&) {}), "taken");
  EXPECT_THAT(code_refusal([](Rule& rule) { rule.transports.clear(); }),
              StartsWith("rule 'made': transports: 0 of them"));
  EXPECT_THAT(code_refusal([](Rule& rule) { rule.transports = {TransportType::kUnspecified}; }),
              HasSubstr("transport 'unknown'"));
  EXPECT_THAT(code_refusal([](Rule& rule) { rule.min_size = 2, rule.max_size = 1; }),
              HasSubstr("min_size"));
  EXPECT_THAT(code_refusal([](Rule& rule) { rule.local_memory = MemoryType::kUnknown; }),
              HasSubstr("memory type 'unknown'"));
  EXPECT_THAT(code_refusal([](Rule& rule) { rule.traffic_class = TrafficClass::kFromIntent; }),
              HasSubstr("class"));
  EXPECT_THAT(code_refusal([](Rule& rule) { rule.intent = static_cast<Intent>(99); }),
              HasSubstr("intent"));
  EXPECT_THAT(code_refusal([](Rule& rule) { rule.segment_type = static_cast<SegmentType>(9); }),
              HasSubstr("segment type"));
  EXPECT_THAT(code_refusal([](Rule& rule) { rule.name = "a b"; }), HasSubstr("is no rule name"));
  Rule rule;
  rule.name = "twin";
  rule.transports = {TransportType::kTcp};
  EXPECT_FALSE(Policy::create({rule, rule}).has_value());
  EXPECT_FALSE(Policy::create({}).has_value());
  rule.name.clear();
  EXPECT_TRUE(Policy::create(std::vector<Rule>(256, rule)).has_value());
  EXPECT_FALSE(Policy::create(std::vector<Rule>(257, rule)).has_value());
}

}  // namespace
}  // namespace larder::transfer
