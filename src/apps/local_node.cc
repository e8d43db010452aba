// SPDX-License-Identifier: Apache-2.0
#include "apps/local_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "apps/stop_signal.h"
#include "base/units.h"
#include "env/host_probe.h"
#include "larder/client.h"
#include "tier/hot/fence.h"

namespace larder::apps {
namespace {

constexpr std::size_t kTailBytes = 2000;
constexpr std::uint64_t kHeadroom = 256ULL << 20;  // for everything else

}  // namespace

std::uint64_t spare_memory() {
  const env::MemoryReport memory = env::probe_memory();
  std::uint64_t spare = memory.available;
  if (memory.cgroup_limit) spare = std::min(spare, *memory.cgroup_limit);
  return spare > kHeadroom ? spare - kHeadroom : 0;
}

Result<std::unique_ptr<LocalNode>> LocalNode::start(const LocalNodeOptions& options) {
  const std::uint64_t spare = spare_memory();
  if (spare > 0 && options.hot_capacity > spare) {
    return fail(Code::kExhausted,
                fmt::format("a DRAM tier of {} does not fit here: {} are to spare; lower "
                            "--hot-blocks or the block size",
                            base::human_bytes(options.hot_capacity), base::human_bytes(spare)));
  }
  LARDER_ASSIGN(auto directory, env::TempDirectory::create("larder"));
  std::unique_ptr<LocalNode> node(new LocalNode(std::move(directory)));
  node->options_ = options;
  LARDER_TRY(node->launch(options));
  LARDER_TRY(node->wait_ready(options.patience));
  return node;
}

LocalNode::~LocalNode() {
  child_.reset();
  tier::forget_fence(directory_.file("node.sock"));  // nobody will serve this path again
}

std::string LocalNode::address() const {
  return "unix:" + directory_.file("node.sock");
}

Result<void> LocalNode::launch(const LocalNodeOptions& options) {
  ChildOptions child;
  LARDER_ASSIGN(child.program, own_program());
  child.output_file = directory_.file("node.log");
  // Free ports: a node that already runs on this machine is not disturbed.
  child.arguments = {"node",          "--node.socket", directory_.file("node.sock"),
                     "--node.listen", "127.0.0.1:0",   "--node.http",
                     "127.0.0.1:0"};
  if (options.hot_capacity > 0) {
    child.arguments.insert(child.arguments.end(),
                           {"--hot.capacity", base::format_size(options.hot_capacity)});
  }
  child.arguments.insert(child.arguments.end(), options.flags.begin(), options.flags.end());
  LARDER_ASSIGN(auto started, ChildProcess::start(child));
  child_.emplace(std::move(started));
  return {};
}

Result<void> LocalNode::wait_ready(env::Nanos patience) {
  const env::Nanos end = env::monotonic_now() + patience;
  std::string last = "no answer";
  while (env::monotonic_now() < end) {
    if (StopSignal::received() != 0) return fail(Code::kCancelled, "interrupted");
    if (const auto how = child_->ended()) return fail(died(*how));
    ClientOptions options;
    options.address = address();
    options.path = Path::kUnixSocket;
    if (auto client = Client::connect(std::move(options)))
      return {};
    else
      last = client.error().message();
    env::system_clock().sleep(20 * env::kMilli);
  }
  return fail(
      Code::kUnavailable,
      fmt::format("our own node did not answer within {}: {}\n{}",
                  base::human_duration(std::chrono::nanoseconds(patience)), last, log_tail()));
}

Error LocalNode::died(const std::string& how) const {
  return Error(Code::kUnavailable,
               fmt::format("our own node ended ({}); its last words:\n{}", how, log_tail()));
}

std::string LocalNode::log_tail() const {
  std::ifstream log(directory_.file("node.log"), std::ios::binary | std::ios::ate);
  if (!log) return "(no log)";
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(log.tellg(), 0));
  const std::uint64_t count = std::min<std::uint64_t>(size, kTailBytes);
  log.seekg(static_cast<std::streamoff>(size - count));
  std::string tail(count, '\0');
  log.read(tail.data(), static_cast<std::streamsize>(count));
  tail.resize(static_cast<std::size_t>(std::max<std::streamsize>(log.gcount(), 0)));
  return tail.empty() ? "(its log is empty)" : tail;
}

Result<void> LocalNode::kill_and_restart() {
  if (!child_) return fail(Code::kInvalidArgument, "our own node was stopped before");
  if (const auto how = child_->ended()) return fail(died(*how));
  ::kill(child_->pid(), SIGKILL);
  child_.reset();  // waits for its end
  LARDER_TRY(launch(options_));
  return wait_ready(options_.patience);
}

Result<void> LocalNode::stop() {
  if (!child_) return {};
  if (const auto how = child_->ended()) return fail(died(*how));
  child_->stop(15 * env::kSecond);
  if (child_->code() != 0) {
    return fail(Code::kInternal, fmt::format("our own node did not stop in good order (exit code "
                                             "{}); its last words:\n{}",
                                             child_->code(), log_tail()));
  }
  child_.reset();
  return {};
}

}  // namespace larder::apps
