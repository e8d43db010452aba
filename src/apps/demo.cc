// SPDX-License-Identifier: Apache-2.0
#include "apps/demo.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/console.h"
#include "apps/demo_trace.h"
#include "apps/exit_codes.h"
#include "apps/local_node.h"
#include "apps/replay/session.h"
#include "apps/stop_signal.h"
#include "apps/value_io.h"
#include "base/units.h"
#include "env/random.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kCapacity = 1ULL << 30;
constexpr std::uint64_t kCapacityMin = 64ULL << 20;
constexpr std::uint64_t kCapacityStep = 16ULL << 20;
constexpr std::uint64_t kBlockBytes = 256 << 10;

// At most half of what is to spare, so that small machines can try it too.
std::uint64_t demo_capacity() {
  const std::uint64_t spare = spare_memory();
  if (spare == 0) return kCapacityMin;
  return std::clamp(spare / 2 / kCapacityStep * kCapacityStep, kCapacityMin, kCapacity);
}

// Takes less where the machine gives less than it says.
Result<std::unique_ptr<LocalNode>> start_node(std::uint64_t& capacity) {
  for (;;) {
    LocalNodeOptions options;
    options.hot_capacity = capacity;
    auto node = LocalNode::start(options);
    if (node || node.error().code() == Code::kCancelled || capacity / 2 < kCapacityMin) {
      return node;
    }
    capacity /= 2;
  }
}

std::string trace_text(const std::vector<TraceRequest>& requests) {
  std::string text;
  for (const auto& request : requests) text += format_trace_line(request) + '\n';
  return text;
}

std::string what_next() {
  return "\nNext:\n"
         "  larder doctor                    what this machine offers, and what its lacks cost\n"
         "  larder node                      a node that stays; then: larder put KEY FILE\n"
         "  larder replay --trace FILE.jsonl --hot-blocks 20000    your own requests\n"
         "  larder bench store               how fast, against what this machine can do\n";
}

Result<int> demo(const DemoFlags& flags) {
  const bool quiet = flags.json_file == "-";
  DemoTraceOptions trace_options;
  trace_options.seed = flags.seed;
  const auto requests = make_demo_trace(trace_options);
  if (!flags.save_trace.empty()) {
    const std::string text = trace_text(requests);
    LARDER_TRY(write_value(flags.save_trace, std::as_bytes(std::span(text))));
  }
  LARDER_ASSIGN(const auto signals, StopSignal::install());
  std::uint64_t capacity = demo_capacity();
  LARDER_ASSIGN(auto node, start_node(capacity));
  if (!quiet) {
    print_note(fmt::format("started a node with {} of DRAM at {}; playing {} requests",
                           base::human_bytes(capacity), node->address(), requests.size()));
  }
  SessionOptions session;
  session.trace_name = fmt::format("built-in conversations (seed {})", flags.seed);
  session.open = [&requests]() -> Result<std::unique_ptr<TraceSource>> {
    return std::make_unique<TraceVector>(requests);
  };
  session.client.address = node->address();
  session.workers = flags.workers;
  session.settings.block_bytes = kBlockBytes;
  session.settings.salt = env::random_u64();
  session.settings.stop = &StopSignal::flag();
  session.capacity_blocks = capacity / kBlockBytes;
  session.progress = !quiet;
  LARDER_ASSIGN(const ReplayReport report, run_session(session));
  LARDER_TRY(node->stop());
  if (!flags.json_file.empty()) {
    const std::string json = report_json(report);
    LARDER_TRY(write_value(flags.json_file, std::as_bytes(std::span(json))));
  }
  if (!quiet) LARDER_TRY(print(report_table(report)));
  if (const int wrong = judge(report); wrong != kExitOk) return wrong;
  if (report.hits == 0) {
    return fail(Code::kInternal, "no block was found again, which the demo's requests must do");
  }
  if (!quiet) LARDER_TRY(print(what_next()));
  return kExitOk;
}

}  // namespace

int run_demo(const DemoFlags& flags) {
  const auto exit = demo(flags);
  return exit ? *exit : report_error(exit.error());
}

}  // namespace larder::apps
