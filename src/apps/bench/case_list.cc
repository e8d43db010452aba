// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/case_list.h"

#include <algorithm>
#include <array>

#include "apps/bench/name_filter.h"

namespace larder::apps {
namespace {

constexpr std::array kDefaultCases = {
    "local.get_cached.4KiB.b1.c1", "local.get.4KiB.b1.c1",       "local.exists.16384.c1",
    "unix.get.4KiB.b1.c1",         "unix.exists.16384.c1",       "tcp.get.4KiB.b1.c1",
    "tcp.get_into.4KiB.b1.c1",     "tcp.get_into.4KiB.b64.c1",   "tcp.get_into.4KiB.b256.c1",
    "tcp.exists.16384.c1",         "tcp.exists.256.c1",          "tcp.match_prefix.16384.c1",
    "local.get_cached.4KiB.b1.c2", "tcp.get_into.4KiB.b1.c4",    "local.get_into.64KiB.b1.c1",
    "local.get_into.64KiB.b64.c1", "tcp.get_into.64KiB.b1.c1",   "tcp.get.64KiB.b64.c1",
    "tcp.get_into.64KiB.b64.c1",   "local.get_into.1MiB.b1.c1",  "unix.get_into.1MiB.b1.c1",
    "tcp.get_into.1MiB.b1.c1",     "tcp.get_into.1MiB.b16.c1",   "local.get_into.1MiB.b1.c2",
    "tcp.get_into.1MiB.b1.c4",     "local.get_into.16MiB.b1.c1", "tcp.get_into.16MiB.b1.c1",
    "local.put.4KiB.b1.c1",        "local.put.4KiB.b64.c1",      "local.put.1MiB.b1.c1",
    "local.put_shared.1MiB.b1.c1", "local.put.16MiB.b1.c1",      "unix.put.1MiB.b1.c1",
    "tcp.put.4KiB.b1.c1",          "tcp.put.4KiB.b64.c1",        "tcp.put.64KiB.b64.c1",
    "tcp.put.1MiB.b1.c1",          "tcp.put.1MiB.b16.c1",        "tcp.put.1MiB.b1.c4",
    "tcp.put.16MiB.b1.c1",
};
constexpr std::array<std::uint64_t, 5> kMatrixSizes = {4 << 10, 64 << 10, 256 << 10, 1 << 20,
                                                       16 << 20};
constexpr std::array<std::size_t, 4> kMatrixBatches = {1, 16, 64, 256};
constexpr std::array<std::size_t, 3> kMatrixClients = {1, 2, 4};
constexpr std::array<std::size_t, 3> kMatrixKeys = {1, 256, 16384};
constexpr std::uint64_t kMatrixCallBytesMax = 64 << 20;

std::vector<CaseName> default_cases() {
  std::vector<CaseName> cases;
  for (const char* text : kDefaultCases) {
    if (auto name = parse_case(text)) cases.push_back(*name);
  }
  return cases;
}

void add_values(std::vector<CaseName>& cases, BenchPath path, std::size_t clients) {
  std::vector<Op> ops = {Op::kGetInto, Op::kGet, Op::kPut, Op::kPutOver};
  if (path == BenchPath::kLocal) ops.push_back(Op::kPutShared);
  for (const Op op : ops) {
    for (const std::uint64_t bytes : kMatrixSizes) {
      for (const std::size_t batch : kMatrixBatches) {
        if (bytes * batch * clients > kMatrixCallBytesMax) continue;
        cases.push_back({path, op, bytes, batch, clients});
      }
    }
  }
}

std::vector<CaseName> matrix() {
  std::vector<CaseName> cases = default_cases();
  for (const BenchPath path : {BenchPath::kLocal, BenchPath::kUnix, BenchPath::kTcp}) {
    for (const std::size_t clients : kMatrixClients) {
      add_values(cases, path, clients);
      for (const Op op : {Op::kExists, Op::kMatchPrefix}) {
        for (const std::size_t keys : kMatrixKeys) cases.push_back({path, op, 0, keys, clients});
      }
    }
  }
  return cases;
}

// A case named in full selects itself alone: "tcp.get.1MiB.b1.c1" is no expression that also finds
// "tcp.get.1MiB.b1.c16".
std::vector<std::string> take_exact(const std::vector<std::string>& filters, CaseList& list) {
  std::vector<std::string> rest;
  for (const std::string& filter : filters) {
    if (filter == kMemoryCase) {
      list.memory = true;
    } else if (const auto name = parse_case(filter)) {
      list.cases.push_back(*name);
    } else {
      rest.push_back(filter);
    }
  }
  return rest;
}

void order_by_set(std::vector<CaseName>& cases) {
  std::vector<CaseName> unique;
  for (const CaseName& name : cases) {
    if (std::find(unique.begin(), unique.end(), name) == unique.end()) unique.push_back(name);
  }
  std::stable_sort(unique.begin(), unique.end(), [](const CaseName& a, const CaseName& b) {
    // Puts last: they need no set.
    const auto rank = [](const CaseName& name) { return set_value_bytes(name) - 1; };
    return rank(a) < rank(b);
  });
  cases = std::move(unique);
}

}  // namespace

std::uint64_t set_value_bytes(const CaseName& name) noexcept {
  if (is_put(name.op)) return 0;
  return is_lookup(name.op) ? kLookupValueBytes : name.value_bytes;
}

Result<CaseList> select_cases(const std::vector<std::string>& filters, bool all) {
  CaseList list;
  const auto expressions = take_exact(filters, list);
  if (filters.empty() || !expressions.empty()) {
    LARDER_ASSIGN(const NameFilter filter, NameFilter::create(expressions));
    for (const CaseName& name : all ? matrix() : default_cases()) {
      if (filter.matches(to_string(name))) list.cases.push_back(name);
    }
    list.memory = list.memory || filter.matches(std::string(kMemoryCase));
  }
  order_by_set(list.cases);
  if (list.cases.empty() && !list.memory) {
    return fail(Code::kInvalidArgument,
                "no case matches --case; `larder bench store --list` names them all");
  }
  return list;
}

}  // namespace larder::apps
