// SPDX-License-Identifier: Apache-2.0
// A real `larder node` process that tests start, stop, freeze and kill; and what they check it
// with.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/child_process.h"
#include "env/clock.h"
#include "env/socket.h"
#include "env/temp_directory.h"
#include "larder/client.h"
#include "tier/hot/fence.h"

namespace larder::integration {

using Bytes = std::vector<std::byte>;

// `bytes` bytes that follow from the seed, which stands at their front when there is room.
inline Bytes make_value(std::uint64_t seed, std::size_t bytes) {
  Bytes value(bytes);
  std::uint64_t state = seed;
  for (std::size_t at = 0; at < bytes; at += sizeof(state)) {
    std::memcpy(value.data() + at, &state, std::min(sizeof(state), bytes - at));
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    state ^= state >> 29;
  }
  return value;
}

inline bool same(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

inline Code code_of(const Result<void>& result) {
  return result ? Code::kOk : result.error().code();
}
template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}
template <class T>
std::string words(const Result<T>& result) {
  return result ? "ok" : result.error().to_string();
}

// Asks again and again until it holds or the patience is over.
inline bool within(env::Nanos patience, const std::function<bool()>& holds) {
  const env::Nanos deadline = env::monotonic_now() + patience;
  while (!holds()) {
    if (env::monotonic_now() > deadline) return false;
    env::system_clock().sleep(env::kMilli);
  }
  return true;
}

// A directory of its own, gone in the end with what nodes in it left elsewhere.
class Directory {
 public:
  Directory() = default;
  ~Directory() { tier::forget_fence(file("node.sock")); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::string& path() const noexcept { return home_.path(); }
  std::string file(const std::string& name) const { return home_.file(name); }
  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

 private:
  const env::TempDirectory home_ = env::TempDirectory::create("larder-it").value();
};

inline std::uint16_t free_port() {
  const auto address = env::SocketAddress::parse("127.0.0.1:0").value();
  const env::Fd fd = env::listen_on(address, 1).value();
  return env::local_port(fd.get()).value();
}

// From the main thread only: the kernel ends a child when the thread that started it ends.
class NodeProcess {
 public:
  // `more`: further lines of the configuration.
  explicit NodeProcess(const std::string& more = "") : port_(free_port()), http_port_(free_port()) {
    dir_.write("node.yaml", "node.socket: " + dir_.file("node.sock") +
                                "\nnode.listen: [\"127.0.0.1:" + std::to_string(port_) +
                                "\"]\nnode.http: \"127.0.0.1:" + std::to_string(http_port_) +
                                "\"\nnode.reactors: 1\nhot.capacity: 8MiB\nhot.populate: false\n"
                                "hot.pages: 4k\nlog.level: error\n" +
                                more);
  }

  // Starts it on the same addresses as ever; true when it answers.
  bool start() {
    apps::ChildOptions child;
    child.program = LARDER_PROGRAM;
    child.arguments = {"node", "--config", dir_.file("node.yaml")};
    child.output_file = dir_.file("node.log");
    auto started = apps::ChildProcess::start(child);
    if (!started) return false;
    child_.emplace(std::move(*started));
    return within(30 * env::kSecond,
                  [this] {
                    if (child_->ended()) return true;
                    return Client::connect(options(Path::kUnixSocket)).has_value();
                  }) &&
           !child_->ended();
  }
  void signal(int number) const { ::kill(child_->pid(), number); }
  // SIGSTOP, and returns when every thread of it stands still.
  void freeze() const {
    signal(SIGSTOP);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child_->pid()), &info, WSTOPPED);
  }
  void thaw() const { signal(SIGCONT); }
  pid_t pid() const { return child_->pid(); }
  // SIGKILL, and reaped.
  void kill() {
    signal(SIGKILL);
    child_.reset();
  }
  // The exit code once it ended by itself; -1 when it did not within the patience.
  int wait_exit(env::Nanos patience) {
    const bool ended = within(patience, [this] { return child_->ended().has_value(); });
    const int code = ended ? child_->code() : -1;
    child_.reset();
    return code;
  }
  bool running() { return child_ && !child_->ended(); }

  ClientOptions options(Path path) const {
    ClientOptions options;
    options.path = path;
    options.address = path == Path::kTcp ? "tcp:127.0.0.1:" + std::to_string(port_)
                                         : "unix:" + dir_.file("node.sock");
    options.window_bytes = 256 << 10;
    return options;
  }
  std::unique_ptr<Client> connect(
      Path path, std::chrono::milliseconds timeout = std::chrono::seconds(10)) const {
    ClientOptions wanted = options(path);
    wanted.timeout = timeout;
    return connect(std::move(wanted));
  }
  static std::unique_ptr<Client> connect(ClientOptions wanted) {
    auto made = Client::connect(std::move(wanted));
    EXPECT_TRUE(made) << words(made);
    return made ? std::move(*made) : nullptr;
  }
  // A number from its metrics page; -1 when it is not there.
  double metric(const std::string& name) const {
    const auto address =
        env::SocketAddress::parse("127.0.0.1:" + std::to_string(http_port_)).value();
    const env::Nanos deadline = env::monotonic_now() + 5 * env::kSecond;
    auto fd = env::connect_to(address, deadline);
    const std::string_view request =
        "GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    if (!fd || !env::send_all(fd->get(), std::as_bytes(std::span(request)), deadline)) return -1;
    std::string page;
    char part[4096];
    while (env::wait_ready(fd->get(), env::kReadable, deadline) != 0) {
      const env::IoResult got = env::receive(fd->get(), part, sizeof(part));
      if (got.status != env::IoStatus::kOk) break;
      page.append(part, got.bytes);
    }
    const std::size_t at = page.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atof(page.c_str() + at + name.size() + 2);
  }
  std::string log() const { return dir_.read("node.log"); }
  const Directory& dir() const { return dir_; }

 private:
  Directory dir_;
  std::uint16_t port_;
  std::uint16_t http_port_;
  std::optional<apps::ChildProcess> child_;
};

inline constexpr Path kPaths[] = {Path::kSharedMemory, Path::kUnixSocket, Path::kTcp};
inline std::string path_test_name(const testing::TestParamInfo<Path>& path) {
  if (path.param == Path::kSharedMemory) return "SharedMemory";
  return path.param == Path::kUnixSocket ? "UnixSocket" : "Tcp";
}

}  // namespace larder::integration
