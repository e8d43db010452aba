// SPDX-License-Identifier: Apache-2.0
// A real Linux in QEMU, which tests give shell commands: its kernel has an NVMe/TCP target and an
// initiator that are not ours. It sees this host's loopback as kHostAddress.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/child_process.h"
#include "env/fd.h"
#include "env/temp_directory.h"

namespace larder::nvmf_guest {

inline constexpr std::string_view kHostAddress = "10.0.2.2";
// The ports that can be reached from this host, with GuestProcess::port().
inline constexpr std::uint16_t kFirstPort = 4420;
inline constexpr std::size_t kPorts = 6;

// What a command printed on either stream, and its exit status.
struct Said {
  int status = 0;
  std::string text;
  bool ok() const noexcept { return status == 0; }
};

// One thread, the main one: the kernel ends a child when the thread that started it ends.
class GuestProcess {
 public:
  // Makes the guest's files where that was not done yet, boots it and waits until it takes
  // commands. kUnsupported: it cannot be made on this host (the message says what is missing);
  // anything else is a fault.
  static Result<std::unique_ptr<GuestProcess>> boot();

  ~GuestProcess();
  GuestProcess(const GuestProcess&) = delete;
  GuestProcess& operator=(const GuestProcess&) = delete;

  // Runs one line of shell in the guest (guest_lib.sh has words for it) and waits for its end. A
  // command that has not ended when the patience is over breaks the guest: status -1, now and
  // later.
  Said run(std::string_view command, env::Nanos patience = 60 * env::kSecond);
  // As run(), and a failure of the test when the status is not 0. What it printed.
  std::string must(std::string_view command);

  // The port of this host behind which `port` of the guest lies (kFirstPort and the next ones).
  std::uint16_t port(std::uint16_t port) const { return ports_[port - kFirstPort]; }

  void freeze() const;  // SIGSTOP; returns when every thread of it stands still
  void thaw() const;
  void kill();                  // SIGKILL, and reaped
  std::string console() const;  // what its kernel said

 private:
  explicit GuestProcess(env::TempDirectory dir) : dir_(std::move(dir)) {}
  Result<void> start();
  Result<void> connect(env::Nanos deadline);
  // What comes up to and without the byte; nothing when it did not come in time.
  std::optional<std::string> read_until(char end, env::Nanos deadline);

  env::TempDirectory dir_;
  std::vector<std::uint16_t> ports_;
  std::optional<apps::ChildProcess> child_;
  env::Fd line_;        // to the second serial line
  std::string unread_;  // came with what was asked for
  bool broken_ = false;
};

}  // namespace larder::nvmf_guest
