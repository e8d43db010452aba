// SPDX-License-Identifier: Apache-2.0
// Selection policies: what is accepted prints as text that means the same and can be selected by;
// what is refused says why in one clean line.
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "transfer/policy.h"
#include "transfer/selector.h"

using larder::fuzz::FuzzInput;
using larder::fuzz::require;
using namespace larder::transfer;
using larder::MemoryType;
using larder::SegmentType;
using larder::TransportType;

namespace {

constexpr MemoryType kMemoryTypes[] = {MemoryType::kUnknown, MemoryType::kCpu, MemoryType::kCuda,
                                       MemoryType::kNpu};

void check_refusal(const larder::Error& error) {
  const std::string& text = error.message();
  require(error.code() == larder::Code::kInvalidArgument, "the text is wrong");
  require(text.starts_with("fuzz.yaml:"), "the message says where");
  require(text.size() < 1024, "messages stay short");
  for (const char c : text) {
    require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "messages stay printable");
  }
}

void check_rule(const Rule& rule) {
  require(rule.name.size() <= Policy::kNameBytesMax, "names are bounded");
  require(!rule.transports.empty() && rule.transports.size() <= Policy::kTransportsMax,
          "every rule has candidates");
  require(rule.min_size <= rule.max_size, "no range is empty");
}

// Asks for everything once; what is chosen must be able to reach that memory.
void check_selections(const Selector& selector) {
  for (const Rule& rule : selector.policy().rules()) {
    for (const MemoryType local : kMemoryTypes) {
      const Query query = {.segment_type = rule.segment_type,
                           .local_memory = local,
                           .remote_memory = MemoryType::kCpu,
                           .same_machine = true,
                           .bytes = rule.min_size,
                           .policy = rule.name};
      require(!selector.explain(query).empty(), "a choice can be explained");
      const auto selection = selector.select(query);
      if (!selection) continue;
      const auto* const abilities = selector.abilities(selection->transport);
      require(abilities != nullptr, "only what is installed is chosen");
      const MemoryType from = selection->staged ? MemoryType::kCpu : local;
      require(abilities->moves.contains(ability_for(rule.segment_type, from, MemoryType::kCpu)),
              "and only what is able");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto policy = Policy::parse(FuzzInput(data, size).rest(), "fuzz.yaml");
  if (!policy) {
    check_refusal(policy.error());
    return 0;
  }
  require(!policy->rules().empty() && policy->rules().size() <= Policy::kRulesMax, "bounded");
  for (const Rule& rule : policy->rules()) check_rule(rule);
  const auto again = Policy::parse(policy->to_text(), "again.yaml");
  require(again.has_value() && *again == *policy, "its text means the same");
  const InstalledTransport installed[] = {
      {TransportType::kTcp, {.moves = {Ability::kCpuToCpu}}},
      {TransportType::kShm, {.moves = {Ability::kCpuToCpu}, .same_machine_only = true}},
      {TransportType::kIoUring, {.moves = {Ability::kCpuToFile}}},
      {TransportType::kNds, {.moves = {Ability::kNpuToFile}}},
  };
  const auto selector = Selector::create(*policy, installed);
  if (selector) check_selections(*selector);
  return 0;
}
