// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "apps/bench/case_list.h"
#include "apps/bench/commands.h"
#include "apps/bench/dataset.h"
#include "base/units.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kValueBytes = 64 << 10;
// One whole call of them first, so that buffers and threads exist before the count.
constexpr std::size_t kWarmObjects = 512;
constexpr std::size_t kObjectsMax = 16384;
constexpr std::uint64_t kCapacityStep = 2 << 20;

// Private pages of a process: its heap and stacks, not the segments it shares.
Result<std::uint64_t> private_bytes(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/status", pid);
  std::ifstream file(path);
  std::string word;
  std::uint64_t kibibytes = 0;
  while (file >> word) {
    if (word == "RssAnon:" && file >> kibibytes) return kibibytes * 1024;
  }
  return fail(Code::kUnsupported, "cannot read RssAnon in " + path);
}

struct Usage {
  std::uint64_t heap = 0;
  std::uint64_t segments = 0;
};

Result<Usage> usage_of(const NodeSession& session, Client& client) {
  Usage usage;
  LARDER_ASSIGN(const pid_t pid, session.pid());
  LARDER_ASSIGN(usage.heap, private_bytes(pid));
  LARDER_ASSIGN(const NodeInfo info, client.info());
  usage.segments = info.used_bytes;
  return usage;
}

std::uint64_t grown(std::uint64_t before, std::uint64_t after) {
  return after > before ? after - before : 0;
}

}  // namespace

Result<BenchRow> measure_memory(const BenchOptions& options) {
  const std::size_t objects =
      std::min<std::size_t>(kObjectsMax, 2 * options.set_bytes / kValueBytes);
  BenchOptions own = options;
  own.addresses.clear();
  // 1.4 times the values keeps the tier below the mark where eviction begins.
  const std::uint64_t capacity = (objects + kWarmObjects) * kValueBytes / 10 * 14;
  LARDER_ASSIGN(const auto session,
                NodeSession::open(own, (capacity / kCapacityStep + 1) * kCapacityStep));
  LARDER_ASSIGN(const auto client, session->connect(BenchPath::kUnix, 0));
  LARDER_ASSIGN(const Dataset warm, Dataset::store(*client, kValueBytes, kWarmObjects));
  LARDER_TRY(warm.remove(*client));
  LARDER_ASSIGN(const Usage before, usage_of(*session, *client));
  LARDER_ASSIGN(const Dataset set, Dataset::store(*client, kValueBytes, objects));
  LARDER_ASSIGN(const Usage after, usage_of(*session, *client));
  // What the first ones left behind may serve as many again: those count for nothing.
  const auto count = static_cast<double>(objects - kWarmObjects);
  const double heap = static_cast<double>(grown(before.heap, after.heap)) / count;
  const double slack =
      static_cast<double>(grown(objects * kValueBytes, grown(before.segments, after.segments))) /
      count;
  BenchRow row;
  row.name = std::string(kMemoryCase);
  row.bytes_per_object = heap + slack;
  row.limit_name = fmt::format("{:.0f} B heap + {:.0f} B segment, {} objects, process {}", heap,
                               slack, objects, base::human_bytes(after.heap));
  row.ratio = heap + slack > 0 ? kBytesPerObjectMax / (heap + slack) : 0;
  row.bar = 1.0;
  row.verdict = judge(row.bar, row.ratio);
  return row;
}

}  // namespace larder::apps
