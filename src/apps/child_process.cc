// SPDX-License-Identifier: Apache-2.0
#include "apps/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/units.h"
#include "env/fd.h"

namespace larder::apps {
namespace {

// Runs in the child between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(const char* program, char* const* argv, int output, int report,
                         pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
  // Its own group: a Ctrl-C at our terminal reaches us alone, and we stop it in good order.
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execv(program, argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(report, &error, sizeof(error));
  ::_exit(127);
}

// 0 once the child runs its program, else why it could not (from the close-on-exec pipe).
int wait_for_exec(int pipe) noexcept {
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(pipe, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildOptions& options) {
  env::Fd output(
      ::open(options.output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!output.valid()) {
    return fail(Code::kInvalidArgument,
                fmt::format("cannot write {}: {}", base::quoted(options.output_file, 256),
                            std::strerror(errno)));
  }
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Code::kExhausted, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  env::Fd told(ends[0]);
  env::Fd report(ends[1]);
  std::vector<char*> argv{const_cast<char*>(options.program.c_str())};
  for (const auto& argument : options.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return fail(Code::kExhausted, fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (pid == 0) become(options.program.c_str(), argv.data(), output.get(), report.get(), parent);
  report.reset();
  ChildProcess child(pid);
  if (const int error = wait_for_exec(told.get()); error != 0) {
    child.reap(true);
    return fail(
        Code::kNotFound,
        fmt::format("cannot run {}: {}", base::quoted(options.program, 256), std::strerror(error)));
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}

ChildProcess::~ChildProcess() {
  stop(2 * env::kSecond);
}

bool ChildProcess::reap(bool block) noexcept {
  if (pid_ < 0) return true;
  pid_t got = 0;
  do {
    got = ::waitpid(pid_, &status_, block ? 0 : WNOHANG);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  pid_ = -1;
  return true;
}

void ChildProcess::stop(env::Nanos patience) noexcept {
  if (reap(false)) return;
  ::kill(pid_, SIGTERM);
  const env::Nanos end = env::monotonic_now() + patience;
  while (env::monotonic_now() < end) {
    if (reap(false)) return;
    env::system_clock().sleep(5 * env::kMilli);
  }
  if (reap(false)) return;
  ::kill(pid_, SIGKILL);
  reap(true);
}

int ChildProcess::code() const noexcept {
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

std::optional<std::string> ChildProcess::ended() noexcept {
  if (!reap(false)) return std::nullopt;
  if (WIFSIGNALED(status_)) return fmt::format("signal {}", WTERMSIG(status_));
  return fmt::format("exit code {}", WEXITSTATUS(status_));
}

Result<std::string> own_program() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) {
    return fail(Code::kUnsupported, fmt::format("cannot read /proc/self/exe (is /proc mounted?): "
                                                "{}",
                                                std::strerror(errno)));
  }
  return std::string(path.data(), static_cast<std::size_t>(length));
}

}  // namespace larder::apps
