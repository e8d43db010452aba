// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/replay_command.h"

#include <fmt/format.h>

#include <limits>
#include <memory>

#include "apps/console.h"
#include "apps/exit_codes.h"
#include "apps/local_node.h"
#include "apps/replay/models.h"
#include "apps/replay/restart.h"
#include "apps/replay/session.h"
#include "apps/stop_signal.h"
#include "apps/value_io.h"
#include "base/units.h"
#include "env/random.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kBlockBytesDefault = 64 << 10;
constexpr std::uint64_t kBlockBytesMax = 1ULL << 30;

Result<std::uint64_t> size_flag(std::string_view flag, const std::string& text, std::uint64_t max) {
  auto bytes = base::parse_size(text);
  if (!bytes) {
    return fail(Code::kInvalidArgument, fmt::format("{}: {}", flag, bytes.error().message()));
  }
  if (*bytes >= 1 && *bytes <= max) return *bytes;
  return fail(Code::kInvalidArgument, fmt::format("{}: {} is not within 1B..{}", flag,
                                                  base::quoted(text), base::format_size(max)));
}

Result<std::uint64_t> dtype_bytes(const std::string& name) {
  if (name == "bf16" || name == "fp16") return 2;
  if (name == "fp8") return 1;
  return fail(Code::kInvalidArgument,
              fmt::format("--kv-dtype: {} is not one of bf16, fp16, fp8", base::quoted(name)));
}

Result<SessionOptions> session_options(const ReplayFlags& flags) {
  SessionOptions session;
  session.trace_name = flags.trace;
  session.client = flags.client;
  session.workers = flags.workers;
  session.progress = flags.json_file != "-";
  LARDER_ASSIGN(session.settings.block_bytes, replay_block_bytes(flags));
  LARDER_ASSIGN(session.settings.batch_bytes,
                size_flag("--batch-bytes", flags.batch_bytes, kReplayBatchBytesMax));
  session.settings.speed = flags.speed;
  // New contents and keys each time: blocks that another replay left never count as hits.
  session.settings.salt = flags.salt ? *flags.salt : env::random_u64();
  session.settings.stop = &StopSignal::flag();
  const TraceOptions trace{flags.skip_broken, flags.requests};
  session.open = [path = flags.trace, trace]() -> Result<std::unique_ptr<TraceSource>> {
    LARDER_ASSIGN(auto reader, TraceReader::open(path, trace));
    return reader;
  };
  return session;
}

Result<void> show(const ReplayFlags& flags, const std::string& json, const std::string& table) {
  if (!flags.json_file.empty()) {
    LARDER_TRY(write_value(flags.json_file, std::as_bytes(std::span(json))));
  }
  return flags.json_file != "-" ? print(table) : Result<void>{};
}

Result<int> replay_with_restart(const SessionOptions& session, LocalNode& node,
                                const ReplayFlags& flags) {
  LARDER_ASSIGN(const RestartReport report, run_restart(session, node));
  LARDER_TRY(node.stop());
  LARDER_TRY(show(flags, restart_json(report), restart_table(report)));
  const int exit = judge(report.first);
  return exit != kExitOk ? exit : judge(report.second);
}

Result<int> replay(const ReplayFlags& flags) {
  LARDER_ASSIGN(SessionOptions session, session_options(flags));
  LARDER_ASSIGN(const auto signals, StopSignal::install());
  std::unique_ptr<LocalNode> node;
  if (flags.hot_blocks > 0) {
    const std::uint64_t block = session.settings.block_bytes;
    if (flags.hot_blocks > std::numeric_limits<std::uint64_t>::max() / 2 / block) {
      return fail(Code::kInvalidArgument,
                  fmt::format("--hot-blocks: {} blocks of {} are beyond any machine",
                              flags.hot_blocks, base::format_size(block)));
    }
    // A broken trace is worth knowing before memory for a node is taken.
    LARDER_ASSIGN(auto source, session.open());
    LARDER_ASSIGN(const TraceSurvey checked, survey_trace(*source, 1));
    (void)checked;
    LocalNodeOptions options;
    options.hot_capacity = flags.hot_blocks * block;
    for (const std::string& disk : flags.disks) {
      options.flags.insert(options.flags.end(), {"--disk", disk});
    }
    LARDER_ASSIGN(node, LocalNode::start(options));
    session.client.address = node->address();
    session.capacity_blocks = flags.disks.empty() ? flags.hot_blocks : 0;
  }
  if (flags.kill_and_restart) return replay_with_restart(session, *node, flags);
  if (!flags.disks.empty()) {
    LARDER_ASSIGN(session.capacity_blocks, capacity_with_disks(session));
  }
  LARDER_ASSIGN(const ReplayReport report, run_session(session));
  if (node) LARDER_TRY(node->stop());
  LARDER_TRY(show(flags, report_json(report), report_table(report)));
  return judge(report);
}

}  // namespace

Result<std::uint64_t> replay_block_bytes(const ReplayFlags& flags) {
  if (!flags.block_bytes.empty()) {
    return size_flag("--block-bytes", flags.block_bytes, kBlockBytesMax);
  }
  if (flags.model.empty()) return kBlockBytesDefault;
  LARDER_ASSIGN(const Model model, find_model(flags.model));
  LARDER_ASSIGN(const std::uint64_t width, dtype_bytes(flags.kv_dtype));
  return block_bytes(model, width, flags.tensor_parallel);
}

int run_replay(const ReplayFlags& flags) {
  const auto exit = replay(flags);
  return exit ? *exit : report_error(exit.error());
}

}  // namespace larder::apps
