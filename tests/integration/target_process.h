// SPDX-License-Identifier: Apache-2.0
// A real `larder target` process that tests start, stop, freeze and kill.
#pragma once

#include <dirent.h>

#include "node_process.h"

namespace larder::integration {

// From the main thread only: the kernel ends a child when the thread that started it ends.
class TargetProcess {
 public:
  // `arguments` beside --listen: what it exports.
  explicit TargetProcess(std::vector<std::string> arguments)
      : arguments_(std::move(arguments)), port_(free_port()) {}
  ~TargetProcess() {
    if (child_) kill();  // it may stand still
  }
  TargetProcess(const TargetProcess&) = delete;
  TargetProcess& operator=(const TargetProcess&) = delete;

  // Starts it on the same port as ever; true when it serves.
  bool start() {
    apps::ChildOptions child;
    std::vector<std::string> words{LARDER_PROGRAM, "target", "--listen",
                                   "127.0.0.1:" + std::to_string(port_)};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    if (!launcher_.empty()) words.insert(words.begin(), {"/bin/sh", "-c", launcher_, "sh"});
    child.program = words.front();
    child.arguments.assign(words.begin() + 1, words.end());
    child.output_file = dir_.file("target.log");
    auto started = apps::ChildProcess::start(child);
    if (!started) return false;
    child_.emplace(std::move(*started));
    return within(30 * env::kSecond,
                  [this] { return child_->ended() || log().find(kServes) != std::string::npos; }) &&
           !child_->ended();
  }
  // What it exports from the next start on.
  void set_arguments(std::vector<std::string> arguments) { arguments_ = std::move(arguments); }

  // Shell commands that its next start goes through; they end with: exec "$@".
  void set_launcher(std::string commands) { launcher_ = std::move(commands); }

  pid_t pid() const { return child_->pid(); }
  void signal(int number) const { ::kill(child_->pid(), number); }
  // SIGSTOP, and returns when every thread of it stands still.
  void freeze() const {
    signal(SIGSTOP);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child_->pid()), &info, WSTOPPED);
  }
  void thaw() const { signal(SIGCONT); }
  // SIGKILL, and reaped.
  void kill() {
    signal(SIGKILL);
    child_.reset();
  }
  // SIGTERM; the exit code, or -1 when it did not end within the patience.
  int stop(env::Nanos patience = 10 * env::kSecond) {
    signal(SIGTERM);
    const bool ended = within(patience, [this] { return child_->ended().has_value(); });
    const int code = ended ? child_->code() : -1;
    child_.reset();
    return code;
  }
  bool running() { return child_ && !child_->ended(); }

  // Descriptors that it has open: connections among them.
  std::size_t descriptors() const {
    std::size_t count = 0;
    const std::string path = "/proc/" + std::to_string(child_->pid()) + "/fd";
    DIR* const open = ::opendir(path.c_str());
    if (open == nullptr) return 0;
    while (::readdir(open) != nullptr) ++count;
    ::closedir(open);
    return count - 2;  // "." and ".."
  }
  // Resident memory, bytes.
  std::uint64_t memory() const {
    std::ifstream in("/proc/" + std::to_string(child_->pid()) + "/statm");
    std::uint64_t total = 0;
    std::uint64_t resident = 0;
    in >> total >> resident;
    return resident * 4096;
  }

  std::uint16_t port() const { return port_; }
  std::string log() const { return dir_.read("target.log"); }
  const Directory& dir() const { return dir_; }

 private:
  static constexpr std::string_view kServes = "nvme-tcp://";

  Directory dir_;
  std::vector<std::string> arguments_;
  std::string launcher_;
  std::uint16_t port_;
  std::optional<apps::ChildProcess> child_;
};

}  // namespace larder::integration
