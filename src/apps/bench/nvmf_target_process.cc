// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/nvmf_target_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "env/fd.h"
#include "env/socket.h"
#include "nvmf/target/target.h"

namespace larder::apps {
namespace {

constexpr env::Nanos kStartPatience = 30 * env::kSecond;
constexpr std::size_t kLineMax = 1024;

// Tells its URL, or what is wrong behind a '!', and serves until it is killed.
[[noreturn]] void run_target(const env::Fd& tell, std::uint64_t bytes) {
  nvmf::TargetOptions options;
  options.listen.port = 0;
  options.nqn = "nqn.2014-08.org.nvmexpress:larder-bench";
  nvmf::NamespaceOptions ram;
  ram.ram_bytes = bytes;
  auto target = nvmf::Target::create(std::move(options), {ram});
  const std::string line = target ? (*target)->url() : "!" + target.error().message();
  static_cast<void>(::write(tell.get(), line.data(), line.size()) < 0);
  if (!target) ::_exit(1);
  static_cast<void>(::close(tell.get()));
  for (;;) ::pause();
}

}  // namespace

Result<std::unique_ptr<NvmfTargetProcess>> NvmfTargetProcess::start(std::uint64_t bytes) {
  std::unique_ptr<NvmfTargetProcess> process(new NvmfTargetProcess());
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Code::kExhausted, "cannot make a pipe: " + env::errno_text(errno));
  }
  env::Fd hear(ends[0]);
  env::Fd tell(ends[1]);
  const pid_t parent = ::getpid();
  process->pid_ = ::fork();
  if (process->pid_ < 0) {
    return fail(Code::kExhausted, "cannot fork the target: " + env::errno_text(errno));
  }
  if (process->pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    run_target(tell, bytes);
  }
  tell.reset();
  env::wait_ready(hear.get(), env::kReadable, env::monotonic_now() + kStartPatience);
  std::string line(kLineMax, '\0');
  const ssize_t got = ::read(hear.get(), line.data(), line.size());
  line.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (line.empty() || line.front() == '!') {
    return fail(Code::kUnavailable, "the target did not start: " + line);
  }
  process->url_ = std::move(line);
  return process;
}

NvmfTargetProcess::~NvmfTargetProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool pin_to_core(unsigned core) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof(set), &set);
    return set;
  }();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || core-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return ::sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  return false;
}

env::Nanos cpu_time_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // Behind the name, which may hold anything: state, ten numbers, then user and system ticks.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream rest(text.substr(end + 1));
  std::string skipped;
  for (int i = 0; i < 12; ++i) rest >> skipped;
  std::int64_t user = 0;
  std::int64_t system = 0;
  rest >> user >> system;
  return (user + system) * (env::kSecond / ::sysconf(_SC_CLK_TCK));
}

}  // namespace larder::apps
