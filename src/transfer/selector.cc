// SPDX-License-Identifier: Apache-2.0
#include "transfer/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/units.h"

namespace larder::transfer {
namespace {

constexpr std::array<MemoryType, 3> kMemoryTypes = {MemoryType::kCpu, MemoryType::kCuda,
                                                    MemoryType::kNpu};

// How a transport moves between these kinds: not at all, itself, or with the local end in host
// memory. For an accelerator the choice is made here and nowhere else.
enum class Reach { kNone, kDirect, kStaged };

Reach reach(const AbilitySet& moves, SegmentType segment, MemoryType local,
            MemoryType remote) noexcept {
  if (moves.contains(ability_for(segment, local, remote))) return Reach::kDirect;
  const bool staged =
      is_device_memory(local) && moves.contains(ability_for(segment, MemoryType::kCpu, remote));
  return staged ? Reach::kStaged : Reach::kNone;
}

TrafficClass effective_class(const Query& query) noexcept {
  return query.traffic_class == TrafficClass::kFromIntent ? class_of(query.intent)
                                                          : query.traffic_class;
}

// The key of the rule that keeps the query out; empty when it matches.
std::string_view mismatch(const Rule& rule, const Query& query) noexcept {
  if (rule.segment_type != query.segment_type) return "segment_type";
  if (rule.local_memory && *rule.local_memory != query.local_memory) return "local_memory";
  if (rule.same_machine && *rule.same_machine != (query.same_machine || query.same_process)) {
    return "same_machine";
  }
  if (rule.remote_memory && *rule.remote_memory != query.remote_memory) return "remote_memory";
  if (query.bytes < rule.min_size) return "min_size";
  if (query.bytes > rule.max_size) return "max_size";
  if (rule.intent && *rule.intent != query.intent) return "intent";
  if (rule.traffic_class && *rule.traffic_class != effective_class(query)) return "class";
  return {};
}

Result<void> check_installed(std::span<const InstalledTransport> installed) {
  TransportSet seen;
  for (const auto& [type, abilities] : installed) {
    const auto bad = [type = type](std::string_view what) {
      return fail(Code::kInvalidArgument,
                  fmt::format("transport {}: {}", transport_name(type), what));
    };
    if (!parse_transport(transport_name(type))) {
      return bad(fmt::format("{} is no transport's number", static_cast<unsigned>(type)));
    }
    if (seen.contains(type)) return bad("installed twice");
    seen.add(type);
    if (abilities.moves.empty()) return bad("has no ability; nothing could ever be sent by it");
    if (!std::has_single_bit(abilities.alignment)) return bad("alignment is no power of two");
    if (abilities.bytes_max < abilities.alignment) return bad("bytes_max is below the alignment");
  }
  return {};
}

std::string query_text(const Query& query) {
  const bool memory = query.segment_type == SegmentType::kMemory;
  std::string out = fmt::format("{} of local {} memory", base::format_size(query.bytes),
                                memory_type_name(query.local_memory));
  if (memory) {
    const char* const where = query.same_process   ? "in this process"
                              : query.same_machine ? "on this machine"
                                                   : "on another machine";
    out += fmt::format(" and {} memory {}", memory_type_name(query.remote_memory), where);
  } else {
    out += " and a file";
  }
  return out + fmt::format(", intent {}, class {}", intent_name(query.intent),
                           class_name(effective_class(query)));
}

}  // namespace

std::string_view why_not_text(WhyNot why) noexcept {
  switch (why) {
    case WhyNot::kNothing:
      return "can do it";
    case WhyNot::kNotHinted:
      return "is not the hinted one";
    case WhyNot::kNotInstalled:
      return "is not installed";
    case WhyNot::kOtherProcess:
      return "stays within one process";
    case WhyNot::kOtherMachine:
      return "stays on one machine";
    case WhyNot::kMemory:
      return "cannot move between these kinds of memory";
    case WhyNot::kTried:
      return "has been tried";
  }
  return "unknown";
}

Result<Selector> Selector::create(Policy policy, std::span<const InstalledTransport> installed) {
  LARDER_TRY(check_installed(installed));
  Selector selector(std::move(policy));
  selector.compile(installed);
  for (std::size_t i = 0; i < selector.policy_.rules().size(); ++i) {
    if (selector.could_serve(i)) continue;
    std::string names;
    for (const Candidate& candidate : selector.candidates(i)) {
      names += fmt::format("{}{}{}", names.empty() ? "" : ", ", transport_name(candidate.type),
                           candidate.installed ? "" : " (not installed)");
    }
    return fail(Code::kInvalidArgument,
                fmt::format("policy: rule {}: none of its transports could ever serve it: {}; "
                            "install one that can, or take the rule out",
                            selector.policy_.label(i), names));
  }
  return selector;
}

void Selector::compile(std::span<const InstalledTransport> installed) {
  installed_.assign(installed.begin(), installed.end());
  const std::span<const Rule> rules = policy_.rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    first_.push_back(static_cast<std::uint32_t>(candidates_.size()));
    for (const TransportType type : rules[i].transports) {
      const TransportAbilities* const known = abilities(type);
      candidates_.push_back(
          {type, known != nullptr, known != nullptr ? *known : TransportAbilities()});
    }
    if (!rules[i].name.empty()) names_.push_back(static_cast<std::uint16_t>(i));
  }
  first_.push_back(static_cast<std::uint32_t>(candidates_.size()));
  std::sort(names_.begin(), names_.end(),
            [rules](std::uint16_t a, std::uint16_t b) { return rules[a].name < rules[b].name; });
}

// Over all queries that the rule's filters let through.
bool Selector::could_serve(std::size_t index) const noexcept {
  const Rule& rule = policy_.rules()[index];
  const auto passes = [](const std::optional<MemoryType>& filter, MemoryType type) {
    return !filter || *filter == type;
  };
  for (const Candidate& candidate : candidates(index)) {
    const TransportAbilities& abilities = candidate.abilities;
    const bool near = abilities.same_process_only || abilities.same_machine_only;
    if (!candidate.installed || (near && rule.same_machine == false)) continue;
    for (const MemoryType local : kMemoryTypes) {
      for (const MemoryType remote : kMemoryTypes) {
        if (passes(rule.local_memory, local) && passes(rule.remote_memory, remote) &&
            reach(abilities.moves, rule.segment_type, local, remote) != Reach::kNone) {
          return true;
        }
      }
    }
  }
  return false;
}

std::span<const Selector::Candidate> Selector::candidates(std::size_t rule) const noexcept {
  return std::span(candidates_).subspan(first_[rule], first_[rule + 1] - first_[rule]);
}

const TransportAbilities* Selector::abilities(TransportType type) const noexcept {
  for (const InstalledTransport& transport : installed_) {
    if (transport.type == type) return &transport.abilities;
  }
  return nullptr;
}

std::size_t Selector::rule_named(std::string_view name) const noexcept {
  const std::span<const Rule> rules = policy_.rules();
  const auto at = std::lower_bound(
      names_.begin(), names_.end(), name,
      [rules](std::uint16_t rule, std::string_view wanted) { return rules[rule].name < wanted; });
  return at != names_.end() && rules[*at].name == name ? *at : kNone;
}

// A name skips every filter but the kind of segment, which decides what the transports mean.
std::size_t Selector::rule_for(const Query& query) const noexcept {
  const std::span<const Rule> rules = policy_.rules();
  if (!query.policy.empty()) {
    const std::size_t named = rule_named(query.policy);
    const bool fits = named != kNone && rules[named].segment_type == query.segment_type;
    return fits ? named : kNone;
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (mismatch(rules[i], query).empty()) return i;
  }
  return kNone;
}

Selector::Verdict Selector::judge(const Candidate& candidate, const Query& query) noexcept {
  const TransportAbilities& abilities = candidate.abilities;
  if (query.hint != TransportType::kUnspecified && candidate.type != query.hint) {
    return {WhyNot::kNotHinted};
  }
  if (!candidate.installed) return {WhyNot::kNotInstalled};
  if (abilities.same_process_only && !query.same_process) return {WhyNot::kOtherProcess};
  if (abilities.same_machine_only && !query.same_machine && !query.same_process) {
    return {WhyNot::kOtherMachine};
  }
  const Reach how =
      reach(abilities.moves, query.segment_type, query.local_memory, query.remote_memory);
  if (how == Reach::kNone) return {WhyNot::kMemory};
  return {query.tried.contains(candidate.type) ? WhyNot::kTried : WhyNot::kNothing,
          how == Reach::kStaged};
}

Result<Selection> Selector::select(const Query& query) const {
  const std::size_t index = rule_for(query);
  if (index == kNone) return no_rule(query);
  Result<Selection> result;  // filled in place: a selection is a cache line to copy
  result->rule = static_cast<std::uint16_t>(index);
  result->rule_name = policy_.rules()[index].name;
  for (const Candidate& candidate : candidates(index)) {
    const Verdict verdict = judge(candidate, query);
    if (verdict.why == WhyNot::kNothing) {
      result->transport = candidate.type;
      result->staged = verdict.staged;
      return result;
    }
    result->skipped[result->skips++] = {candidate.type, verdict.why};
  }
  return no_transport(query, *result);
}

tl::unexpected<Error> Selector::no_rule(const Query& query) const {
  if (query.policy.empty()) {
    return fail(Code::kUnsupported, "no rule of the policy matches " + query_text(query));
  }
  const std::size_t named = rule_named(query.policy);
  if (named == kNone) {
    return fail(Code::kInvalidArgument,
                fmt::format("no rule of the policy is named {}", base::quoted(query.policy)));
  }
  return fail(Code::kInvalidArgument,
              fmt::format("rule {} is for segment_type {}, the target is {}", policy_.label(named),
                          segment_type_name(policy_.rules()[named].segment_type),
                          segment_type_name(query.segment_type)));
}

tl::unexpected<Error> Selector::no_transport(const Query& query, const Selection& selection) const {
  const bool hinted = query.hint != TransportType::kUnspecified;
  bool allowed = false;
  bool tried = false;
  std::string reasons;
  for (const auto& [transport, why] : selection.why_not()) {
    if (why == WhyNot::kNotHinted) continue;
    allowed = true;
    tried |= why == WhyNot::kTried;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", transport_name(transport),
                           why_not_text(why));
  }
  const std::string label = policy_.label(selection.rule);
  if (hinted && !allowed) {
    return fail(Code::kInvalidArgument,
                fmt::format("rule {} does not allow the hinted transport {}", label,
                            transport_name(query.hint)));
  }
  return fail(tried ? Code::kUnavailable : Code::kUnsupported,
              fmt::format("rule {} has no transport{} for {}: {}", label,
                          hinted ? " but the hinted one" : " left", query_text(query), reasons));
}

std::string Selector::explain(const Query& query) const {
  std::string out = query_text(query) + '\n';
  const std::size_t chosen = rule_for(query);
  const std::span<const Rule> rules = policy_.rules();
  for (std::size_t i = 0; i < rules.size() && query.policy.empty() && i != chosen; ++i) {
    out += fmt::format("rule {}: {} does not match\n", policy_.label(i), mismatch(rules[i], query));
  }
  if (chosen == kNone) return out + no_rule(query).value().message() + '\n';
  out += fmt::format("rule {}: {}\n", policy_.label(chosen),
                     query.policy.empty() ? "matches" : "asked for by name");
  bool taken = false;
  for (const Candidate& candidate : candidates(chosen)) {
    const Verdict verdict = judge(candidate, query);
    const bool able = verdict.why == WhyNot::kNothing;
    const std::string_view text = !able   ? why_not_text(verdict.why)
                                  : taken ? "comes later"
                                          : "is taken";
    out += fmt::format("  {} {}{}\n", transport_name(candidate.type), text,
                       verdict.staged ? ", staged through host memory" : "");
    taken |= able;
  }
  if (!taken) out += "  none is left\n";
  return out;
}

}  // namespace larder::transfer
