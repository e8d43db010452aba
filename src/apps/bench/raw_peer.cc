// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/raw_peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace larder::apps {
namespace {

constexpr std::uint32_t kMagic = 0x5041524C;
constexpr env::Nanos kConnectPatience = 5 * env::kSecond;

enum class Kind : std::uint32_t { kExchange = 1, kSetWait = 2 };

struct Header {
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kExchange;
  std::uint64_t up_bytes = 0;
  std::uint64_t down_bytes = 0;
  Wait wait = Wait::kBlock;
  std::array<std::uint8_t, 39> padding{};
};
static_assert(sizeof(Header) == kRawHeaderBytes);

// How the next call waits, by how long the ones before it found nothing.
class Patience {
 public:
  explicit Patience(Wait wait) noexcept : wait_(wait) {}
  bool blocks() const noexcept { return wait_ == Wait::kBlock || slept_; }
  void progress() noexcept {
    idle_ = 0;
    slept_ = false;
  }
  void nothing() noexcept {
    if (wait_ != Wait::kBrief || idle_++ % kLooksPerClock != 0) return;
    const env::Nanos now = env::monotonic_now();
    if (idle_ == 1) since_ = now;
    slept_ = now - since_ > kBriefSpin;
  }

 private:
  static constexpr std::uint32_t kLooksPerClock = 16;  // a look costs a system call or more
  Wait wait_;
  bool slept_ = false;
  std::uint32_t idle_ = 0;
  env::Nanos since_ = 0;
};

bool try_again(int error) noexcept {
  return error == EAGAIN || error == EINTR;
}

// These use the kernel's calls directly rather than env: they are the yardstick, and must have
// nothing between them and the kernel. False when the other end is gone.
bool receive_exactly(int fd, std::byte* into, std::size_t bytes, Wait wait) noexcept {
  Patience patience(wait);
  while (bytes > 0) {
    const int flags = patience.blocks() ? (wait == Wait::kBlock ? MSG_WAITALL : 0) : MSG_DONTWAIT;
    const ssize_t n = ::recv(fd, into, bytes, flags);
    if (n > 0) {
      into += n;
      bytes -= static_cast<std::size_t>(n);
      patience.progress();
    } else if (n == 0 || !try_again(errno)) {
      return false;
    } else {
      patience.nothing();
    }
  }
  return true;
}

// Takes `bytes` off the front of the pieces.
void consume(std::array<iovec, 2>& pieces, std::size_t bytes) noexcept {
  for (iovec& piece : pieces) {
    const std::size_t taken = std::min(piece.iov_len, bytes);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + taken;
    piece.iov_len -= taken;
    bytes -= taken;
  }
}

bool send_exactly(int fd, std::array<iovec, 2> pieces, Wait wait) noexcept {
  Patience patience(wait);
  while (pieces[0].iov_len + pieces[1].iov_len > 0) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t n =
        ::sendmsg(fd, &message, MSG_NOSIGNAL | (patience.blocks() ? 0 : MSG_DONTWAIT));
    if (n < 0 && !try_again(errno)) return false;
    if (n > 0) {
      consume(pieces, static_cast<std::size_t>(n));
      patience.progress();
    } else {
      patience.nothing();
    }
  }
  return true;
}

bool receive_slots(int fd, Slots& sink, std::uint64_t bytes, Wait wait) noexcept {
  while (bytes > 0) {
    const auto slot = sink.next();
    const std::size_t n = std::min<std::uint64_t>(slot.size(), bytes);
    if (!receive_exactly(fd, slot.data(), n, wait)) return false;
    bytes -= n;
  }
  return true;
}

// `header` goes out in the same call as the first bytes.
bool send_slots(int fd, std::span<const std::byte> header, Slots& source, std::uint64_t bytes,
                Wait wait) noexcept {
  iovec first{const_cast<std::byte*>(header.data()), header.size()};
  do {
    const auto slot = bytes > 0 ? source.next() : std::span<std::byte>();
    const std::size_t n = std::min<std::uint64_t>(slot.size(), bytes);
    if (!send_exactly(fd, {first, iovec{slot.data(), n}}, wait)) return false;
    first = {};
    bytes -= n;
  } while (bytes > 0);
  return true;
}

void make_blocking(int fd, bool tcp) noexcept {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  if (tcp) env::set_no_delay(fd);
}

std::size_t slot_bytes_for(std::uint64_t bytes) noexcept {
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes, 64, kRawWriteBytes));
}

// Slots of the size that a message asks for, kept from message to message while it stays the same.
class SlotsForSize {
 public:
  explicit SlotsForSize(std::span<std::byte> bytes) : bytes_(bytes) {}
  Slots& of(std::uint64_t message_bytes) {
    const std::size_t size = slot_bytes_for(message_bytes);
    if (size != size_) slots_ = Slots(bytes_, size_ = size);
    return slots_;
  }

 private:
  std::span<std::byte> bytes_;
  std::size_t size_ = 0;
  Slots slots_;
};

void serve(int fd, std::span<std::byte> memory) noexcept {
  SlotsForSize incoming(memory);
  SlotsForSize outgoing(memory);
  Wait wait = Wait::kBlock;
  Header header;
  while (receive_exactly(fd, reinterpret_cast<std::byte*>(&header), sizeof(header), wait)) {
    if (header.magic != kMagic || header.up_bytes > kRawMessageMax ||
        header.down_bytes > kRawMessageMax) {
      return;
    }
    if (header.kind == Kind::kSetWait) {
      wait = header.wait;
      continue;
    }
    if (!receive_slots(fd, incoming.of(header.up_bytes), header.up_bytes, wait)) return;
    if (!send_slots(fd, {}, outgoing.of(header.down_bytes), header.down_bytes, wait)) return;
  }
}

// The peer's main loop: one thread for each connection, until the parent kills it.
[[noreturn]] void run_peer(std::array<env::Fd, 2> listeners, std::uint64_t set_bytes) {
  std::once_flag once;
  Mapping memory;
  std::array<pollfd, 2> waiting{{{listeners[0].get(), POLLIN, 0}, {listeners[1].get(), POLLIN, 0}}};
  while (true) {
    ::poll(waiting.data(), waiting.size(), -1);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      env::Fd fd;
      if (env::accept_from(waiting[i].fd, fd).status != env::IoStatus::kOk) continue;
      std::call_once(once, [&] {
        if (auto got = Mapping::shared_memory(set_bytes)) memory = std::move(*got);
      });
      if (memory.bytes().empty()) ::_exit(1);
      make_blocking(fd.get(), i == 0);
      std::thread([fd = std::move(fd), bytes = memory.bytes()] {
        serve(fd.get(), bytes);
      }).detach();
    }
  }
}

}  // namespace

Result<std::unique_ptr<RawPeer>> RawPeer::start(std::uint64_t set_bytes) {
  std::unique_ptr<RawPeer> peer(new RawPeer());
  LARDER_ASSIGN(auto directory, env::TempDirectory::create("larder-bench"));
  peer->directory_.emplace(std::move(directory));
  LARDER_ASSIGN(peer->tcp_, env::SocketAddress::parse("tcp:127.0.0.1:0"));
  LARDER_ASSIGN(peer->unix_,
                env::SocketAddress::parse("unix:" + peer->directory_->file("raw.sock")));
  std::array<env::Fd, 2> listeners;
  LARDER_ASSIGN(listeners[0], env::listen_on(peer->tcp_, 128));
  LARDER_ASSIGN(listeners[1], env::listen_on(peer->unix_, 128));
  LARDER_ASSIGN(peer->tcp_.port, env::local_port(listeners[0].get()));
  const pid_t parent = ::getpid();
  peer->pid_ = ::fork();
  if (peer->pid_ < 0) {
    return fail(Code::kExhausted, "cannot fork the raw-socket peer: " + env::errno_text(errno));
  }
  if (peer->pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    run_peer(std::move(listeners), set_bytes);
  }
  return peer;
}

RawPeer::~RawPeer() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

const env::SocketAddress& RawPeer::address(BenchPath path) const noexcept {
  return path == BenchPath::kTcp ? tcp_ : unix_;
}

Result<RawConnection> RawConnection::connect(const env::SocketAddress& address) {
  LARDER_ASSIGN(env::Fd fd, env::connect_to(address, env::monotonic_now() + kConnectPatience));
  make_blocking(fd.get(), address.kind == env::SocketAddress::Kind::kTcp);
  return RawConnection(std::move(fd));
}

Result<void> RawConnection::set_wait(Wait wait) {
  Header header;
  header.kind = Kind::kSetWait;
  header.wait = wait;
  if (!send_exactly(fd_.get(), {iovec{&header, sizeof(header)}, iovec{}}, wait_)) {
    return fail(Code::kUnavailable, "the raw-socket peer went away");
  }
  wait_ = wait;
  return {};
}

Result<void> RawConnection::exchange(std::uint64_t up_bytes, Slots& source,
                                     std::uint64_t down_bytes, Slots& sink) {
  Header header;
  header.up_bytes = up_bytes;
  header.down_bytes = down_bytes;
  const auto bytes = std::as_bytes(std::span(&header, 1));
  if (!send_slots(fd_.get(), bytes, source, up_bytes, wait_) ||
      !receive_slots(fd_.get(), sink, down_bytes, wait_)) {
    return fail(Code::kUnavailable, "the raw-socket peer went away");
  }
  return {};
}

Result<void> RawConnection::ask(std::size_t requests, std::uint64_t down_bytes) {
  Header header;
  header.down_bytes = down_bytes;
  const std::vector<Header> all(requests, header);
  const auto bytes = std::as_bytes(std::span(all));
  if (!send_exactly(fd_.get(), {iovec{const_cast<std::byte*>(bytes.data()), bytes.size()}, iovec{}},
                    wait_)) {
    return fail(Code::kUnavailable, "the raw-socket peer went away");
  }
  return {};
}

Result<void> RawConnection::answer(std::uint64_t down_bytes, Slots& sink) {
  if (receive_slots(fd_.get(), sink, down_bytes, wait_)) return {};
  return fail(Code::kUnavailable, "the raw-socket peer went away");
}

}  // namespace larder::apps
