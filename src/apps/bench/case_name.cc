// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/case_name.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "apps/bench/name_parts.h"
#include "base/units.h"
#include "larder/client.h"

namespace larder::apps {
namespace {

constexpr std::array<std::string_view, 3> kPaths = {"local", "unix", "tcp"};
constexpr std::array<std::string_view, 8> kOps = {
    "get_into", "get_cached", "get", "put", "put_shared", "put_over", "exists", "match_prefix"};

Error wrong(std::string_view name, std::string_view why) {
  return {Code::kInvalidArgument,
          fmt::format("benchmark case '{}': {} (a case is PATH.OP.SIZE.bBATCH.cCLIENTS, "
                      "for example tcp.get.64KiB.b64.c1)",
                      name, why)};
}

Result<void> check(const CaseName& name) {
  const bool local_only = name.op == Op::kGetCached || name.op == Op::kPutShared;
  if (local_only && name.path != BenchPath::kLocal) {
    return fail(Code::kInvalidArgument, fmt::format("{} is for the local path", op_text(name.op)));
  }
  if (!is_lookup(name.op) && (name.value_bytes == 0 || name.value_bytes > kBenchValueBytesMax)) {
    return fail(Code::kInvalidArgument, "SIZE is 1 byte to 1 GiB");
  }
  return {};
}

Result<CaseName> parse_parts(const std::vector<std::string_view>& parts) {
  CaseName name;
  const int path = index_of(kPaths, parts[0]);
  if (path < 0) return fail(Code::kInvalidArgument, "PATH must be local, unix or tcp");
  const int op = index_of(kOps, parts[1]);
  if (op < 0) {
    return fail(Code::kInvalidArgument, fmt::format("OP must be one of {}", fmt::join(kOps, ", ")));
  }
  name.path = static_cast<BenchPath>(path);
  name.op = static_cast<Op>(op);
  const bool lookup = is_lookup(name.op);
  if (parts.size() != (lookup ? 4U : 5U)) {
    return fail(Code::kInvalidArgument, lookup ? "exists and match_prefix have 4 parts, no batch"
                                               : "there must be 5 parts");
  }
  if (lookup) {
    LARDER_ASSIGN(const std::uint64_t keys, base::parse_u64(parts[2]));
    if (keys == 0 || keys > kBatchItemsMax) {
      return fail(Code::kInvalidArgument, fmt::format("SIZE is 1 to {} keys", kBatchItemsMax));
    }
    name.batch = static_cast<std::size_t>(keys);
  } else {
    LARDER_ASSIGN(name.value_bytes, base::parse_size(parts[2]));
    LARDER_ASSIGN(name.batch, parse_count(parts[3], 'b', kBatchItemsMax));
  }
  LARDER_ASSIGN(name.clients, parse_count(parts.back(), 'c', kBenchClientsMax));
  LARDER_TRY(check(name));
  return name;
}

}  // namespace

std::string_view path_text(BenchPath path) noexcept {
  return kPaths[static_cast<std::size_t>(path)];
}
std::string_view op_text(Op op) noexcept {
  return kOps[static_cast<std::size_t>(op)];
}
bool is_lookup(Op op) noexcept {
  return op == Op::kExists || op == Op::kMatchPrefix;
}
bool is_put(Op op) noexcept {
  return op == Op::kPut || op == Op::kPutShared || op == Op::kPutOver;
}
bool is_get(Op op) noexcept {
  return !is_lookup(op) && !is_put(op);
}

std::string to_string(const CaseName& name) {
  if (is_lookup(name.op)) {
    return fmt::format("{}.{}.{}.c{}", path_text(name.path), op_text(name.op), name.batch,
                       name.clients);
  }
  return fmt::format("{}.{}.{}.b{}.c{}", path_text(name.path), op_text(name.op),
                     base::format_size(name.value_bytes), name.batch, name.clients);
}

Result<CaseName> parse_case(std::string_view text) {
  const auto parts = split_name(text);
  if (parts.size() < 4) return fail(wrong(text, "too few parts"));
  auto name = parse_parts(parts);
  if (!name) return fail(wrong(text, name.error().message()));
  return name;
}

}  // namespace larder::apps
