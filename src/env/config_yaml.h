// SPDX-License-Identifier: Apache-2.0
// A YAML document flattened to dotted names. The parser's events are used as they come, without a
// tree, so that hostile text cannot make it build one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"

namespace larder::env {

struct YamlLeaf {
  enum class Kind { kScalar, kSequence, kNull };

  std::string name;  // "hot.capacity"
  Kind kind = Kind::kScalar;
  std::vector<std::string> items;  // one for a scalar
  int line = 0;                    // from 1, of the key
};

// Leaves in the order of the text. kInvalidArgument, with `filename:line`, for anything that is not
// a mapping of scalars, of sequences of scalars and of such mappings: also aliases, anchors, tags,
// a second document, nesting deeper than `depth_max` and more than kYamlLeavesMax leaves.
// An empty document gives none.
Result<std::vector<YamlLeaf>> flatten_yaml(std::string_view text, std::string_view filename,
                                           std::size_t depth_max);

inline constexpr std::size_t kYamlLeavesMax = 8192;    // keys
inline constexpr std::size_t kYamlItemsMax = 8192;     // of one sequence
inline constexpr std::size_t kYamlNameBytesMax = 256;  // of one dotted name

}  // namespace larder::env
