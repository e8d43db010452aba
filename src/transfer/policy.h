// SPDX-License-Identifier: Apache-2.0
// Which transports may carry a request, as data: an ordered list of rules, of which the first that
// matches decides.
//
//   policy:
//     - name: npu_file
//       segment_type: file
//       local_memory: npu
//       transports: [nds, io_uring]
//
// Fail closed: a rule that cannot be understood to the last word refuses the whole policy. One that
// was dropped or widened instead would let traffic through where its author had kept it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "larder/status.h"
#include "larder/transfer_types.h"

namespace larder::transfer {

// A filter that is absent lets everything pass.
struct Rule {
  std::string name;  // optional, unique: letters, digits, '_', '-' and '.'; what requests may name
  SegmentType segment_type = SegmentType::kMemory;
  std::optional<bool> same_machine;
  std::optional<MemoryType> local_memory;
  std::optional<MemoryType> remote_memory;  // memory segments only
  std::uint64_t min_size = 0;               // bytes of the request, both ends included
  std::uint64_t max_size = std::numeric_limits<std::uint64_t>::max();
  std::optional<Intent> intent;
  std::optional<TrafficClass> traffic_class;  // kHigh or kLow
  std::vector<TransportType> transports;      // the first that can is taken

  bool operator==(const Rule&) const = default;
};

// Immutable; any thread.
class Policy {
 public:
  static constexpr std::size_t kRulesMax = 256;
  static constexpr std::size_t kNameBytesMax = 64;
  static constexpr std::size_t kTransportsMax = 8;  // of one rule
  static constexpr std::size_t kTextBytesMax = 1 << 20;

  // YAML or JSON: a mapping with the one key `policy`, a list of 1 to kRulesMax mappings with the
  // keys name, segment_type (required), same_machine, local_memory and remote_memory ("any" or "*":
  // no filter), min_size and max_size (4096 or "64KiB"), intent, class, transports (required).
  // `source` is for messages. kInvalidArgument names `source:line`, the rule by its name (by its
  // number, from 1, where the name is not known), and what is allowed. Refused: unknown keys,
  // unknown names, a value of the wrong kind, a key, rule name or transport given twice, no
  // transports, min_size above max_size, remote_memory in a file rule, aliases, anchors, tags, a
  // second document, nesting beyond the above.
  static Result<Policy> parse(std::string_view text, std::string_view source);
  // The same checks for rules made in code; messages have no line.
  static Result<Policy> create(std::vector<Rule> rules);
  // NPU memory and files by nds or io_uring, CUDA memory and files by gds or io_uring, host memory
  // and files by io_uring; memory on this machine by memcpy, shm or tcp, elsewhere by tcp.
  static Policy defaults();

  std::span<const Rule> rules() const& noexcept { return rules_; }
  // Of a temporary the rules themselves, so that a loop over them does not outlive them.
  std::vector<Rule> rules() && { return std::move(rules_); }
  // "'npu_file'", or "3" for the third rule if it has no name.
  std::string label(std::size_t rule) const;
  // YAML that parses back to an equal policy.
  std::string to_text() const;

  bool operator==(const Policy&) const = default;

 private:
  explicit Policy(std::vector<Rule> rules) : rules_(std::move(rules)) {}
  std::vector<Rule> rules_;
};

}  // namespace larder::transfer
