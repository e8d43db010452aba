// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transfer_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/bench/name_filter.h"
#include "apps/bench/name_parts.h"
#include "base/units.h"

namespace larder::apps {
namespace {

constexpr std::array<std::string_view, 5> kTargets = {"memcpy", "shm", "tcp", "file", "staging"};
constexpr std::array<std::string_view, 2> kOps = {"read", "write"};

// Each is measured reading and writing.
struct Shape {
  TransferTarget target;
  std::uint64_t bytes;
  std::size_t batch;
  std::size_t threads;
};
constexpr std::array kDefaultShapes = {
    Shape{TransferTarget::kMemcpy, 4 << 10, 1, 1},
    Shape{TransferTarget::kMemcpy, 4 << 10, 128, 1},
    Shape{TransferTarget::kMemcpy, 4 << 10, 128, 2},
    Shape{TransferTarget::kMemcpy, 64 << 10, 16, 1},
    Shape{TransferTarget::kMemcpy, 1 << 20, 1, 1},
    Shape{TransferTarget::kMemcpy, 16 << 20, 1, 1},
    Shape{TransferTarget::kShm, 4 << 10, 1, 1},
    Shape{TransferTarget::kShm, 4 << 10, 128, 1},
    Shape{TransferTarget::kShm, 4 << 10, 128, 2},
    Shape{TransferTarget::kShm, 64 << 10, 16, 1},
    Shape{TransferTarget::kShm, 1 << 20, 1, 1},
    Shape{TransferTarget::kShm, 16 << 20, 1, 1},
    Shape{TransferTarget::kTcp, 4 << 10, 1, 1},
    Shape{TransferTarget::kTcp, 4 << 10, 128, 1},
    Shape{TransferTarget::kTcp, 64 << 10, 16, 1},
    Shape{TransferTarget::kTcp, 1 << 20, 1, 1},
    Shape{TransferTarget::kTcp, 1 << 20, 16, 1},
    Shape{TransferTarget::kTcp, 1 << 20, 16, 2},
    Shape{TransferTarget::kTcp, 16 << 20, 16, 1},
    Shape{TransferTarget::kFile, 4 << 10, 1, 1},
    Shape{TransferTarget::kFile, 4 << 10, 128, 1},
    Shape{TransferTarget::kFile, 128 << 10, 32, 1},
    Shape{TransferTarget::kFile, 4 << 20, 32, 1},
    Shape{TransferTarget::kStaging, 16 << 20, 1, 1},
};

Error wrong(std::string_view name, std::string_view why) {
  return {Code::kInvalidArgument,
          fmt::format("benchmark case {}: {} (a case is TARGET.OP.SIZE.bBATCH.tTHREADS, for "
                      "example tcp.read.1MiB.b16.t1)",
                      base::quoted(name), why)};
}

Result<TransferCase> parse_parts(const std::vector<std::string_view>& parts) {
  if (parts.size() != 5) return fail(Code::kInvalidArgument, "there must be 5 parts");
  const int target = index_of(kTargets, parts[0]);
  if (target < 0)
    return fail(Code::kInvalidArgument, "TARGET must be memcpy, shm, tcp, file or staging");
  const int op = index_of(kOps, parts[1]);
  if (op < 0) return fail(Code::kInvalidArgument, "OP must be read or write");
  TransferCase name;
  name.target = static_cast<TransferTarget>(target);
  name.op = static_cast<Opcode>(op);
  LARDER_ASSIGN(name.bytes, base::parse_size(parts[2]));
  if (name.bytes < kTransferCaseBytesMin || name.bytes > kTransferCaseBytesMax ||
      name.bytes % kTransferCaseBytesMin != 0) {
    return fail(Code::kInvalidArgument, "SIZE is 4 KiB to 64 MiB in whole pages of 4 KiB");
  }
  LARDER_ASSIGN(name.batch, parse_count(parts[3], 'b', kTransferCaseBatchMax));
  LARDER_ASSIGN(name.threads, parse_count(parts[4], 't', kTransferCaseThreadsMax));
  return name;
}

void add(std::vector<TransferCase>& cases, const TransferCase& name) {
  if (std::find(cases.begin(), cases.end(), name) == cases.end()) cases.push_back(name);
}

std::vector<TransferCase> default_cases() {
  std::vector<TransferCase> cases;
  for (const Shape& shape : kDefaultShapes) {
    for (const Opcode op : {Opcode::kRead, Opcode::kWrite}) {
      cases.push_back({shape.target, op, shape.bytes, shape.batch, shape.threads});
    }
  }
  return cases;
}

bool changes_file(const TransferCase& name) noexcept {
  return on_file(name.target) && name.op == Opcode::kWrite;
}

}  // namespace

std::string_view target_text(TransferTarget target) noexcept {
  return kTargets[static_cast<std::size_t>(target)];
}

std::string to_string(const TransferCase& name) {
  return fmt::format("{}.{}.{}.b{}.t{}", target_text(name.target),
                     kOps[static_cast<std::size_t>(name.op)], base::format_size(name.bytes),
                     name.batch, name.threads);
}

Result<TransferCase> parse_transfer_case(std::string_view text) {
  auto name = parse_parts(split_name(text));
  if (!name) return fail(wrong(text, name.error().message()));
  return name;
}

Result<std::vector<TransferCase>> select_transfer_cases(const std::vector<std::string>& filters) {
  std::vector<TransferCase> cases;
  std::vector<std::string> expressions;
  for (const std::string& filter : filters) {
    if (const auto name = parse_transfer_case(filter)) {
      add(cases, *name);
    } else {
      expressions.push_back(filter);
    }
  }
  if (filters.empty() || !expressions.empty()) {
    LARDER_ASSIGN(const NameFilter filter, NameFilter::create(expressions));
    for (const TransferCase& name : default_cases()) {
      if (filter.matches(to_string(name))) add(cases, name);
    }
  }
  if (cases.empty()) {
    return fail(Code::kInvalidArgument,
                "no case matches --case; `larder bench transfer --list` names them all");
  }
  std::stable_partition(cases.begin(), cases.end(),
                        [](const TransferCase& name) { return !changes_file(name); });
  return cases;
}

}  // namespace larder::apps
