// SPDX-License-Identifier: Apache-2.0
#include "env/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace larder::env {
namespace {

constexpr std::size_t kFdsPerMessageMax = 128;  // the kernel takes 253

IoResult from_errno() noexcept {
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoStatus::kWouldBlock, 0, 0};
  if (errno == ECONNRESET || errno == EPIPE) return {IoStatus::kClosed, 0, errno};
  return {IoStatus::kError, 0, errno};
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, path.c_str(), std::min(path.size() + 1, sizeof(un.sun_path)));
  return un;
}

using AddrInfo = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<AddrInfo> resolve(const SocketAddress& address, bool passive) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(address.port);
  const int rc = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &list);
  if (rc != 0) {
    return fail(Code::kUnavailable, "cannot resolve '" + address.host + "': " + ::gai_strerror(rc));
  }
  return AddrInfo(list, &::freeaddrinfo);
}

Error socket_error(const std::string& what, const SocketAddress& address, int error) {
  const bool limit = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  return {limit ? Code::kExhausted : Code::kUnavailable,
          what + " " + address.to_string() + ": " + errno_text(error)};
}

Result<Fd> finish_connect(Fd fd, const SocketAddress& address, Nanos deadline) {
  if (wait_ready(fd.get(), kWritable, deadline) == 0) {
    return fail(Code::kDeadlineExceeded,
                "connect to " + address.to_string() + ": no answer in time");
  }
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail(socket_error("connect to", address, error));
  return fd;
}

Result<Fd> connect_one(int family, const sockaddr* where, socklen_t length,
                       const SocketAddress& address, Nanos deadline) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail(socket_error("socket for", address, errno));
  if (family != AF_UNIX) set_no_delay(fd.get());
  if (::connect(fd.get(), where, length) == 0) return fd;
  if (errno == EINPROGRESS || errno == EINTR) {
    return finish_connect(std::move(fd), address, deadline);
  }
  // A Unix listener with a full backlog answers EAGAIN and offers nothing to wait on.
  return fail(socket_error("connect to", address, errno));
}

Result<Fd> listen_unix(const SocketAddress& address, int backlog) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail(socket_error("socket for", address, errno));
  const sockaddr_un un = unix_address(address.path);
  // What an earlier node left is replaced; a file that somebody needs is not.
  struct stat info {};
  if (::lstat(address.path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
    return fail(Code::kInvalidArgument,
                "listen on " + address.to_string() + ": the path exists and is not a socket");
  }
  ::unlink(address.path.c_str());
  // The mode is set on the descriptor before bind, so the path never exists with a wider one.
  ::fchmod(fd.get(), 0600);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&un), sizeof(un)) != 0 ||
      ::chmod(address.path.c_str(), 0600) != 0 || ::listen(fd.get(), backlog) != 0) {
    return fail(socket_error("listen on", address, errno));
  }
  return fd;
}

Result<Fd> listen_tcp(const SocketAddress& address, int backlog) {
  LARDER_ASSIGN(const AddrInfo list, resolve(address, true));
  int error = 0;
  for (const addrinfo* ai = list.get(); ai != nullptr; ai = ai->ai_next) {
    Fd fd(::socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) {
      error = errno;
      continue;
    }
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(fd.get(), ai->ai_addr, ai->ai_addrlen) == 0 && ::listen(fd.get(), backlog) == 0) {
      return fd;
    }
    error = errno;
  }
  return fail(socket_error("listen on", address, error));
}

}  // namespace

Result<Fd> listen_on(const SocketAddress& address, int backlog) {
  return address.kind == SocketAddress::Kind::kUnix ? listen_unix(address, backlog)
                                                    : listen_tcp(address, backlog);
}

Result<std::uint16_t> local_port(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return fail(Code::kInternal, "getsockname: " + errno_text(errno));
  }
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

Result<SocketAddress> local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  char host[NI_MAXHOST];
  const auto* where = reinterpret_cast<const sockaddr*>(&storage);
  const bool known =
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) == 0 &&
      storage.ss_family != AF_UNIX &&
      ::getnameinfo(where, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0;
  if (!known) return fail(Code::kInternal, "this socket has no address of a host");
  SocketAddress address;
  address.host = host;
  LARDER_ASSIGN(address.port, local_port(fd));
  return address;
}

Result<Fd> connect_to(const SocketAddress& address, Nanos deadline) {
  if (address.kind == SocketAddress::Kind::kUnix) {
    const sockaddr_un un = unix_address(address.path);
    return connect_one(AF_UNIX, reinterpret_cast<const sockaddr*>(&un), sizeof(un), address,
                       deadline);
  }
  LARDER_ASSIGN(const AddrInfo list, resolve(address, false));
  Error last(Code::kUnavailable, "connect to " + address.to_string() + ": no address");
  for (const addrinfo* ai = list.get(); ai != nullptr; ai = ai->ai_next) {
    auto fd = connect_one(ai->ai_family, ai->ai_addr, ai->ai_addrlen, address, deadline);
    if (fd) return fd;
    last = fd.error();
  }
  return fail(last);
}

IoResult receive(int fd, std::span<iovec> into) noexcept {
  // One place is the common case, and the plain call costs less: waiters poll with it.
  if (into.size() == 1) return receive(fd, into[0].iov_base, into[0].iov_len);
  msghdr message{};
  message.msg_iov = into.data();
  message.msg_iovlen = into.size();
  const ssize_t n = ::recvmsg(fd, &message, MSG_DONTWAIT);
  if (n > 0) return {IoStatus::kOk, static_cast<std::size_t>(n), 0};
  return n == 0 ? IoResult{IoStatus::kClosed, 0, 0} : from_errno();
}

IoResult receive(int fd, void* into, std::size_t bytes) noexcept {
  const ssize_t n = ::recv(fd, into, bytes, MSG_DONTWAIT);
  if (n > 0) return {IoStatus::kOk, static_cast<std::size_t>(n), 0};
  return n == 0 ? IoResult{IoStatus::kClosed, 0, 0} : from_errno();
}

IoResult send(int fd, std::span<const iovec> from) noexcept {
  if (from.size() == 1) {
    const ssize_t one = ::send(fd, from[0].iov_base, from[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return one >= 0 ? IoResult{IoStatus::kOk, static_cast<std::size_t>(one), 0} : from_errno();
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from.data());
  message.msg_iovlen = from.size();
  const ssize_t n = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n >= 0 ? IoResult{IoStatus::kOk, static_cast<std::size_t>(n), 0} : from_errno();
}

IoResult accept_from(int listener, Fd& accepted) noexcept {
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return from_errno();
  accepted.reset(fd);
  return {IoStatus::kOk, 0, 0};
}

Result<void> send_fds(int socket, std::span<const int> fds, Nanos deadline) {
  if (fds.empty() || fds.size() > kFdsPerMessageMax) {
    return fail(Code::kInvalidArgument, "1 to 128 descriptors fit one message");
  }
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsPerMessageMax * sizeof(int))] = {};
  char byte = 'F';
  iovec iov{&byte, 1};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  while (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      return fail(Code::kUnavailable, "passing descriptors: " + errno_text(errno));
    }
    if (wait_ready(socket, kWritable, deadline) == 0) {
      return fail(Code::kDeadlineExceeded, "passing descriptors: the peer does not read");
    }
  }
  return {};
}

Result<std::vector<Fd>> receive_fds(int socket, std::size_t count, Nanos deadline) {
  if (count == 0 || count > kFdsPerMessageMax) {
    return fail(Code::kInvalidArgument, "1 to 128 descriptors fit one message");
  }
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsPerMessageMax * sizeof(int))] = {};
  char byte = 0;
  iovec iov{&byte, 1};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n = -1;
  while ((n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
    if (errno != EAGAIN && errno != EINTR) break;
    if (wait_ready(socket, kReadable, deadline) == 0) {
      return fail(Code::kDeadlineExceeded, "waiting for descriptors: the peer does not answer");
    }
  }
  if (n <= 0) return fail(Code::kUnavailable, "the peer went away while passing descriptors");
  std::vector<Fd> fds;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t n_fds = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n_fds; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  if (fds.size() != count || byte != 'F' || (message.msg_flags & MSG_CTRUNC) != 0) {
    return fail(Code::kCorrupt, "expected " + std::to_string(count) + " descriptors, got " +
                                    std::to_string(fds.size()));
  }
  return fds;
}

Result<PeerUser> peer_user(int unix_socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return fail(Code::kInternal, "SO_PEERCRED: " + errno_text(errno));
  }
  return PeerUser{credentials.uid, credentials.pid};
}

void set_no_delay(int tcp_socket) noexcept {
  const int on = 1;
  ::setsockopt(tcp_socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void set_keep_alive(int tcp_socket) noexcept {
  const auto set = [tcp_socket](int level, int name, int value) {
    ::setsockopt(tcp_socket, level, name, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 120'000);
}

short wait_ready(int fd, short events, Nanos deadline) noexcept {
  pollfd entry{fd, events, 0};
  while (true) {
    const Nanos left = deadline - monotonic_now();
    if (left <= 0) return 0;
    const timespec timeout{left / kSecond, left % kSecond};
    const int n = ::ppoll(&entry, 1, &timeout, nullptr);
    if (n > 0) return static_cast<short>(entry.revents == 0 ? events : entry.revents);
    if (n < 0 && errno != EINTR) return events;  // let the next call report what is wrong
  }
}

Result<void> receive_all(int fd, std::span<std::byte> into, Nanos deadline) {
  while (!into.empty()) {
    const IoResult got = receive(fd, into.data(), into.size());
    if (got.status == IoStatus::kOk) {
      into = into.subspan(got.bytes);
    } else if (got.status != IoStatus::kWouldBlock) {
      return fail(Code::kUnavailable, "the peer closed the connection");
    } else if (wait_ready(fd, kReadable, deadline) == 0) {
      return fail(Code::kDeadlineExceeded, "the peer does not answer");
    }
  }
  return {};
}

Result<void> send_all(int fd, std::span<const std::byte> from, Nanos deadline) {
  while (!from.empty()) {
    const iovec iov{const_cast<std::byte*>(from.data()), from.size()};
    const IoResult sent = send(fd, std::span(&iov, 1));
    if (sent.status == IoStatus::kOk) {
      from = from.subspan(sent.bytes);
    } else if (sent.status != IoStatus::kWouldBlock) {
      return fail(Code::kUnavailable, "the peer closed the connection");
    } else if (wait_ready(fd, kWritable, deadline) == 0) {
      return fail(Code::kDeadlineExceeded, "the peer does not read");
    }
  }
  return {};
}

std::string errno_text(int error) {
  char buffer[128] = {};
  const char* text = ::strerror_r(error, buffer, sizeof(buffer));
  return std::string(text) + " (errno " + std::to_string(error) + ")";
}

}  // namespace larder::env
