// SPDX-License-Identifier: Apache-2.0
// Stream sockets over TCP and Unix domain. All sockets made here are non-blocking and
// close-on-exec.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "env/fd.h"
#include "larder/status.h"

namespace larder::env {

// "unix:/path/to.sock", "tcp:host:port", "host:port" or "[v6]:port".
struct SocketAddress {
  enum class Kind : std::uint8_t { kTcp, kUnix };
  Kind kind = Kind::kTcp;
  std::string host;        // TCP: a name or number
  std::uint16_t port = 0;  // TCP
  std::string path;        // Unix; at most 107 bytes

  static Result<SocketAddress> parse(std::string_view text);
  std::string to_string() const;
  bool is_loopback() const;  // Unix sockets, 127.0.0.0/8, ::1 and "localhost"
};

// Unix sockets are created with mode 0600. TCP sets SO_REUSEADDR.
Result<Fd> listen_on(const SocketAddress& address, int backlog);
// The port that listen_on(tcp, port 0) got.
Result<std::uint16_t> local_port(int fd);
// Where a connected TCP socket is on this side, in numbers; kInternal for other sockets.
Result<SocketAddress> local_address(int fd);
// Waits for the connection until `deadline` (monotonic). kUnavailable or kDeadlineExceeded.
Result<Fd> connect_to(const SocketAddress& address, Nanos deadline);

enum class IoStatus : std::uint8_t { kOk, kWouldBlock, kClosed, kError };
struct IoResult {
  IoStatus status = IoStatus::kOk;
  std::size_t bytes = 0;
  int error = 0;  // errno when kError
};
IoResult receive(int fd, std::span<iovec> into) noexcept;
IoResult receive(int fd, void* into, std::size_t bytes) noexcept;
IoResult send(int fd, std::span<const iovec> from) noexcept;
// The connection that accept() had waiting, or kWouldBlock. kError carries errno (EMFILE, ...).
IoResult accept_from(int listener, Fd& accepted) noexcept;

// Sends `fds` (at most 128) with one byte of data, and receives them. Unix sockets only.
Result<void> send_fds(int socket, std::span<const int> fds, Nanos deadline);
Result<std::vector<Fd>> receive_fds(int socket, std::size_t count, Nanos deadline);

struct PeerUser {
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
};
Result<PeerUser> peer_user(int unix_socket);

void set_no_delay(int tcp_socket) noexcept;
// A peer whose host vanished without a word is noticed within about two minutes.
void set_keep_alive(int tcp_socket) noexcept;

inline constexpr short kReadable = 1;
inline constexpr short kWritable = 4;
// Waits until the socket is ready, or `deadline`. Returns the ready set; 0 on time-out.
short wait_ready(int fd, short events, Nanos deadline) noexcept;
// Reads or writes exactly all bytes before `deadline`. For handshakes, not for hot paths.
Result<void> receive_all(int fd, std::span<std::byte> into, Nanos deadline);
Result<void> send_all(int fd, std::span<const std::byte> from, Nanos deadline);

std::string errno_text(int error);

}  // namespace larder::env
