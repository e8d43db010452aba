// SPDX-License-Identifier: Apache-2.0
// Which transport carries a request: the first rule of the policy that matches decides, and within
// it the first transport that is installed, able and not yet tried.
//
// Kinds of memory and abilities are numbers with a bit each, so that what reaches CUDA memory can
// never be taken for something that reaches an NPU's. Device memory that a transport cannot reach
// goes through host memory ("staged") if the transport can move that. Staging replaces the local
// end only: nobody but the peer can touch the peer's device, so for that an ability is needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"
#include "larder/transfer_types.h"
#include "transfer/policy.h"

namespace larder::transfer {

// Between which kinds a transport moves bytes, in both directions. One bit each.
enum class Ability : std::uint16_t {
  kNone = 0,
  kCpuToCpu = 1 << 0,
  kCpuToFile = 1 << 1,
  kCudaToFile = 1 << 2,
  kNpuToFile = 1 << 3,
  kCpuToCuda = 1 << 4,
  kCpuToNpu = 1 << 5,
  kCudaToCuda = 1 << 6,
  kNpuToNpu = 1 << 7,
};

class AbilitySet {
 public:
  constexpr AbilitySet() noexcept = default;
  constexpr AbilitySet(std::initializer_list<Ability> abilities) noexcept {
    for (const Ability ability : abilities) {
      bits_ = static_cast<std::uint16_t>(bits_ | static_cast<std::uint16_t>(ability));
    }
  }
  // kNone is what no set contains.
  constexpr bool contains(Ability ability) const noexcept {
    return (bits_ & static_cast<std::uint16_t>(ability)) != 0;
  }
  constexpr bool empty() const noexcept { return bits_ == 0; }
  constexpr bool operator==(const AbilitySet&) const noexcept = default;

 private:
  std::uint16_t bits_ = 0;
};

// Rows and columns are kinds of memory. Not inside the function below, which could not keep it.
inline constexpr std::array<std::array<Ability, 4>, 4> kMemoryAbilities = {{
    {Ability::kNone, Ability::kNone, Ability::kNone, Ability::kNone},
    {Ability::kNone, Ability::kCpuToCpu, Ability::kCpuToCuda, Ability::kCpuToNpu},
    {Ability::kNone, Ability::kCpuToCuda, Ability::kCudaToCuda, Ability::kNone},
    {Ability::kNone, Ability::kCpuToNpu, Ability::kNone, Ability::kNpuToNpu},
}};
inline constexpr std::array<Ability, 4> kFileAbilities = {
    Ability::kNone, Ability::kCpuToFile, Ability::kCudaToFile, Ability::kNpuToFile};

// The ability to move between local memory and a segment without staging. kNone where there is no
// such thing: for unknown memory, and between accelerators of different kinds. `remote` counts for
// memory segments only.
constexpr Ability ability_for(SegmentType segment, MemoryType local, MemoryType remote) noexcept {
  const auto near = static_cast<std::size_t>(local);
  const auto far = static_cast<std::size_t>(remote);
  if (near >= kFileAbilities.size()) return Ability::kNone;
  if (segment == SegmentType::kFile) return kFileAbilities[near];
  const bool known = segment == SegmentType::kMemory && far < kMemoryAbilities.size();
  return known ? kMemoryAbilities[near][far] : Ability::kNone;
}

// What a transport can do by its nature, whatever its state.
struct TransportAbilities {
  AbilitySet moves = {};
  bool same_process_only = false;
  bool same_machine_only = false;
  // Of one operation: the slice planner cuts to them, so they turn no request away.
  std::uint64_t alignment = 1;  // of target offsets; a power of two
  std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max();  // at least `alignment`
  bool operator==(const TransportAbilities&) const = default;
};

struct InstalledTransport {
  TransportType type = TransportType::kUnspecified;
  TransportAbilities abilities;
};

// Transports by identity, so that "tried" stays true when what is available changes in between.
class TransportSet {
 public:
  constexpr TransportSet() noexcept = default;
  constexpr TransportSet(std::initializer_list<TransportType> types) noexcept {
    for (const TransportType type : types) add(type);
  }
  // Numbers from 128 up are no transports, and stay out.
  constexpr void add(TransportType type) noexcept {
    const auto number = static_cast<std::size_t>(type);
    if (number < kNumbers) words_[number / 64] |= 1ULL << (number % 64);
  }
  constexpr bool contains(TransportType type) const noexcept {
    const auto number = static_cast<std::size_t>(type);
    return number < kNumbers && (words_[number / 64] >> (number % 64) & 1) != 0;
  }
  constexpr bool empty() const noexcept { return *this == TransportSet(); }
  constexpr bool operator==(const TransportSet&) const noexcept = default;

 private:
  static constexpr std::size_t kNumbers = 128;
  std::array<std::uint64_t, kNumbers / 64> words_{};
};

struct Query {
  SegmentType segment_type = SegmentType::kMemory;
  MemoryType local_memory = MemoryType::kUnknown;
  MemoryType remote_memory = MemoryType::kUnknown;  // of a memory segment
  bool same_process = false;
  bool same_machine = false;  // same_process includes it
  std::uint64_t bytes = 0;
  Intent intent = Intent::kUnknown;
  TrafficClass traffic_class = TrafficClass::kFromIntent;
  std::string_view policy = {};                      // a rule's name; empty: the first that matches
  TransportType hint = TransportType::kUnspecified;  // that one, or an error
  TransportSet tried = {};
};

// Why a transport that the rule names was passed over. In this order: one that is kTried was able.
enum class WhyNot : std::uint8_t {
  kNothing = 0,
  kNotHinted = 1,
  kNotInstalled = 2,
  kOtherProcess = 3,
  kOtherMachine = 4,
  kMemory = 5,  // it cannot move between these kinds, staged or not
  kTried = 6,
};
std::string_view why_not_text(WhyNot why) noexcept;

struct Skipped {
  TransportType transport = TransportType::kUnspecified;
  WhyNot why = WhyNot::kNothing;
};

struct Selection {
  TransportType transport = TransportType::kUnspecified;
  bool staged = false;
  std::uint16_t rule = 0;      // the rule's place in the policy: what may be merged has the same
  std::string_view rule_name;  // the selector's; may be empty
  std::uint8_t skips = 0;
  std::array<Skipped, Policy::kTransportsMax> skipped{};  // the first `skips`, in order

  std::span<const Skipped> why_not() const noexcept { return {skipped.data(), skips}; }
};

// Immutable; any thread.
class Selector {
 public:
  // kInvalidArgument: a transport is given twice, is none, can do nothing, or its alignment or
  // bytes_max is wrong; or no installed transport could ever serve a rule (the message names it).
  static Result<Selector> create(Policy policy, std::span<const InstalledTransport> installed);

  // Does not allocate unless it fails. Measured with the default policy: 23 to 28 ns, 34 by a
  // rule's name (2^24 calls, each query depending on the answer before; gcc 12 -O2; one of two busy
  // cores of an EPYC).
  // kInvalidArgument: no rule has the name, it is for the other kind of segment, or the rule does
  // not name the hint. kUnsupported: no rule matches, or no transport of the rule (not the hint)
  // can do it. kUnavailable: those that can have been tried.
  Result<Selection> select(const Query& query) const;
  // Every rule and why it does not match, every transport of the one that does and why it was not
  // taken, in lines for people.
  std::string explain(const Query& query) const;

  const Policy& policy() const noexcept { return policy_; }
  // Null when it is not installed.
  const TransportAbilities* abilities(TransportType type) const noexcept;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Candidate {
    TransportType type = TransportType::kUnspecified;
    bool installed = false;
    TransportAbilities abilities;
  };
  struct Verdict {
    WhyNot why = WhyNot::kNothing;
    bool staged = false;
  };

  explicit Selector(Policy policy) : policy_(std::move(policy)) {}
  void compile(std::span<const InstalledTransport> installed);
  bool could_serve(std::size_t rule) const noexcept;
  std::span<const Candidate> candidates(std::size_t rule) const noexcept;
  std::size_t rule_named(std::string_view name) const noexcept;
  std::size_t rule_for(const Query& query) const noexcept;
  static Verdict judge(const Candidate& candidate, const Query& query) noexcept;
  tl::unexpected<Error> no_rule(const Query& query) const;
  tl::unexpected<Error> no_transport(const Query& query, const Selection& selection) const;

  Policy policy_;
  std::vector<InstalledTransport> installed_;
  std::vector<Candidate> candidates_;  // of all rules, in order
  std::vector<std::uint32_t> first_;   // rules + 1 places in candidates_
  std::vector<std::uint16_t> names_;   // rules with a name, sorted by it
};

}  // namespace larder::transfer
