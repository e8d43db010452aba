// SPDX-License-Identifier: Apache-2.0
// The KV cache of real models, to give traces real block sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "larder/status.h"

namespace larder::apps {

inline constexpr std::uint64_t kTraceBlockTokens = 512;
inline constexpr std::uint64_t kMlaWidth = 576;  // latent and rotary part of one token and layer

struct Model {
  std::string_view name;  // as on the command line
  std::string_view of;    // what it stands for, for --help
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;   // 0: multi-head latent attention, the same on every rank
  std::uint32_t head_size = 0;  // kMlaWidth when kv_heads is 0
};

std::span<const Model> models() noexcept;
// By name, in any letter case. The error lists the names.
Result<Model> find_model(std::string_view name);
// Bytes that one rank of `tensor_parallel` (1..64) keeps of a block of `tokens`, K and V together.
// Heads are split over the ranks down to one each; past that ranks hold copies.
Result<std::uint64_t> block_bytes(const Model& model, std::uint64_t dtype_bytes,
                                  std::uint32_t tensor_parallel,
                                  std::uint64_t tokens = kTraceBlockTokens);

}  // namespace larder::apps
