// SPDX-License-Identifier: Apache-2.0
// The name of a benchmark case: PATH.OP.SIZE[.bBATCH].cCLIENTS, for example
// "tcp.get.64KiB.b64.c1" or "tcp.exists.16384.c1". SIZE is the size of a value; for exists and
// match_prefix it is the number of keys in one call (there is no batch then).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "larder/status.h"

namespace larder::apps {

enum class BenchPath : std::uint8_t { kLocal, kUnix, kTcp };
enum class Op : std::uint8_t {
  kGetInto,      // into the caller's buffers; local: route cached
  kGetCached,    // get_into with a route that is known to be cached (local only)
  kGet,          // the library allocates the result; local: no route cache
  kPut,          // fresh keys from ordinary memory
  kPutShared,    // fresh keys from Client::alloc_buffer memory (local only)
  kPutOver,      // replaces the value of existing keys by other bytes
  kExists,       // SIZE keys in one call, all present
  kMatchPrefix,  // the same
};

struct CaseName {
  BenchPath path = BenchPath::kLocal;
  Op op = Op::kGetInto;
  std::uint64_t value_bytes = 0;  // of one value; 0 for exists and match_prefix
  std::size_t batch = 1;          // items in one call; for exists and match_prefix its SIZE
  std::size_t clients = 1;        // threads, each with a client of its own

  bool operator==(const CaseName&) const = default;
};

inline constexpr std::size_t kBenchClientsMax = 64;
inline constexpr std::uint64_t kBenchValueBytesMax = 1ULL << 30;

std::string_view path_text(BenchPath path) noexcept;
std::string_view op_text(Op op) noexcept;
bool is_lookup(Op op) noexcept;  // exists, match_prefix
bool is_put(Op op) noexcept;
bool is_get(Op op) noexcept;

std::string to_string(const CaseName& name);
// kInvalidArgument says which part is wrong and what is allowed there.
Result<CaseName> parse_case(std::string_view text);

}  // namespace larder::apps
