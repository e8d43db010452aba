// SPDX-License-Identifier: Apache-2.0
#include "bench/vs_rocksdb/phase.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "env/fd.h"

namespace larder::vs_rocksdb {
namespace {

constexpr std::size_t kErrorMax = 512;

// What a child says, in one write.
struct Answer {
  Figures figures;
  bool failed = false;
  char error[kErrorMax] = {};
};
static_assert(sizeof(Answer) < 4096);  // a pipe takes it whole

std::uint64_t disk_bytes_of_process() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "write_bytes:") return value;
  }
  return 0;
}

[[noreturn]] void be_child(const Phase& phase, Ends ends, int answer_fd) {
  Answer answer;
  const auto done = phase();
  if (done) {
    answer.figures = *done;
    answer.figures.disk_bytes = disk_bytes_of_process();
  } else {
    answer.failed = true;
    std::strncpy(answer.error, done.error().to_string().c_str(), kErrorMax - 1);
  }
  const ssize_t wrote = ::write(answer_fd, &answer, sizeof answer);
  if (ends == Ends::kKilled) ::raise(SIGKILL);
  ::_exit(wrote == sizeof answer ? 0 : 1);
}

}  // namespace

Result<Figures> run_phase(const Phase& phase, Ends ends) {
  int ends_of_pipe[2];
  if (::pipe2(ends_of_pipe, O_CLOEXEC) != 0) return fail(Code::kExhausted, "no pipe");
  const env::Fd from(ends_of_pipe[0]);
  env::Fd into(ends_of_pipe[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail(Code::kExhausted, "no process");
  if (child == 0) be_child(phase, ends, into.get());
  into = env::Fd();
  Answer answer;
  ssize_t got = 0;
  do {
    got = ::read(from.get(), &answer, sizeof answer);
  } while (got < 0 && errno == EINTR);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (got != sizeof answer) return fail(Code::kInternal, "a phase ended without a word");
  if (answer.failed) return fail(Code::kInternal, answer.error);
  return answer.figures;
}

double cpu_seconds() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void drop_caches(const std::string& directory) {
  ::sync();
  std::ofstream drop("/proc/sys/vm/drop_caches");
  if (drop << "3" && drop.flush()) return;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, ignored)) {
    const env::Fd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (file.valid()) ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

}  // namespace larder::vs_rocksdb
