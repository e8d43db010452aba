// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/models.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>

#include "base/units.h"

namespace larder::apps {
namespace {

constexpr std::array<Model, 12> kModels{{
    {"llama-3.1-8b", "Llama 3.1 8B", 32, 8, 128},
    {"llama-3.1-70b", "Llama 3.1 and 3.3 70B", 80, 8, 128},
    {"llama-3.1-405b", "Llama 3.1 405B", 126, 8, 128},
    {"qwen2.5-7b", "Qwen2.5 7B", 28, 4, 128},
    {"qwen2.5-72b", "Qwen2.5 72B", 80, 8, 128},
    {"qwen3-8b", "Qwen3 8B", 36, 8, 128},
    {"qwen3-32b", "Qwen3 32B", 64, 8, 128},
    {"qwen3-235b-a22b", "Qwen3 235B A22B", 94, 4, 128},
    {"gpt-oss-120b", "gpt-oss 120B (upper bound: half its layers are windowed)", 36, 8, 64},
    {"deepseek-v3", "DeepSeek V3 (MLA)", 61, 0, kMlaWidth},
    {"deepseek-r1", "DeepSeek R1 (MLA)", 61, 0, kMlaWidth},
    {"kimi-k2", "Kimi K2 (MLA)", 61, 0, kMlaWidth},
}};

}  // namespace

std::span<const Model> models() noexcept {
  return kModels;
}

Result<Model> find_model(std::string_view name) {
  std::string known;
  for (const Model& model : kModels) {
    if (name.size() == model.name.size() &&
        ::strncasecmp(name.data(), model.name.data(), name.size()) == 0) {
      return model;
    }
    known += known.empty() ? "" : ", ";
    known += model.name;
  }
  return fail(Code::kInvalidArgument, fmt::format("--model: {} is not in the table; known are {} "
                                                  "(or give --block-bytes)",
                                                  base::quoted(name), known));
}

Result<std::uint64_t> block_bytes(const Model& model, std::uint64_t dtype_bytes,
                                  std::uint32_t tensor_parallel, std::uint64_t tokens) {
  if (tensor_parallel == 0 || tensor_parallel > 64) {
    return fail(Code::kInvalidArgument,
                fmt::format("--tensor-parallel: {} is not within 1..64", tensor_parallel));
  }
  if (model.kv_heads == 0) return model.layers * kMlaWidth * dtype_bytes * tokens;
  const std::uint32_t heads = model.kv_heads;
  if (heads % tensor_parallel != 0 && tensor_parallel % heads != 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("--tensor-parallel: {} ranks cannot share the {} KV heads of {}; take "
                            "a divisor or a multiple of {}",
                            tensor_parallel, heads, model.name, heads));
  }
  const std::uint64_t per_rank = std::max<std::uint32_t>(1, heads / tensor_parallel);
  return 2 * model.layers * per_rank * model.head_size * dtype_bytes * tokens;
}

}  // namespace larder::apps
