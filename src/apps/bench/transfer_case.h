// SPDX-License-Identifier: Apache-2.0
// The cases of `larder bench transfer`: TARGET.OP.SIZE.bBATCH.tTHREADS, for example
// "tcp.read.1MiB.b16.t1". Each thread submits batches of BATCH requests of SIZE bytes, one batch
// at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"
#include "larder/transfer.h"

namespace larder::apps {

enum class TransferTarget : std::uint8_t {
  kMemcpy,   // memory of this process
  kShm,      // memory of another process that this one can map
  kTcp,      // memory of another process, over loopback TCP
  kFile,     // a file
  kStaging,  // a file, from and to the memory of a simulated device
};

struct TransferCase {
  TransferTarget target = TransferTarget::kMemcpy;
  Opcode op = Opcode::kRead;
  std::uint64_t bytes = 0;  // of one request; whole pages, so that files can be read directly
  std::size_t batch = 1;
  std::size_t threads = 1;

  bool operator==(const TransferCase&) const = default;
};

inline constexpr std::uint64_t kTransferCaseBytesMin = 4 << 10;
inline constexpr std::uint64_t kTransferCaseBytesMax = 64 << 20;
inline constexpr std::size_t kTransferCaseBatchMax = 256;
inline constexpr std::size_t kTransferCaseThreadsMax = 16;

constexpr bool on_file(TransferTarget target) noexcept {
  return target == TransferTarget::kFile || target == TransferTarget::kStaging;
}
std::string_view target_text(TransferTarget target) noexcept;
std::string to_string(const TransferCase& name);
// kInvalidArgument says which part is wrong and what is allowed there.
Result<TransferCase> parse_transfer_case(std::string_view text);

// The default cases (every one that has a bar, and a spread around them), cut down to those that
// match one of `filters` as in select_cases(). Writes to files come last: they change what reads
// expect to find. Errors: kInvalidArgument for a broken expression or when nothing matches.
Result<std::vector<TransferCase>> select_transfer_cases(const std::vector<std::string>& filters);

}  // namespace larder::apps
