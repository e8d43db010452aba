// SPDX-License-Identifier: Apache-2.0
#include "fileio/uring_backend.h"

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "env/fd.h"
#include "env/socket.h"
#include "fileio/fixed_buffers.h"

namespace larder::fileio {
namespace {

constexpr std::uint64_t kWakeTag = kIoTagReserved;
constexpr env::Nanos kCloseGrace = 5 * env::kSecond;
constexpr env::Nanos kSleepMax = 3600 * env::kSecond;  // "no deadline" must fit into a timespec

// Errors after which the same call may be made again.
bool is_transient(int error) noexcept {
  return error == EINTR || error == EAGAIN || error == EBUSY || error == ETIME || error == ENOMEM;
}

tl::unexpected<Error> refuse_setup(int error) {
  switch (error) {
    case ENOSYS:
      return fail(Code::kUnsupported,
                  "this kernel has no io_uring; reads and writes take the pool");
    case EPERM:
    case EACCES:
      return fail(Code::kUnsupported,
                  "io_uring is forbidden here, by kernel.io_uring_disabled (0 allows it) or by the "
                  "container's seccomp profile (allow io_uring_setup, _enter and _register)");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return fail(Code::kExhausted, "making an io_uring: " + env::errno_text(error) +
                                        "; raise the limit of open files (ulimit -n) or of locked "
                                        "memory (ulimit -l), or use fewer workers");
    default:
      return fail(Code::kUnsupported, "making an io_uring: " + env::errno_text(error));
  }
}

}  // namespace

struct UringBackend::Ring {
  ~Ring() {
    if (made) ::io_uring_queue_exit(&uring);
  }

  Result<void> set_up(std::size_t wanted);
  Result<void> prove();
  static void prepare(io_uring_sqe* sqe, const IoOp& op, int fixed_index) noexcept;
  Result<void> enter();
  Result<void> enter_until(env::Nanos deadline);
  std::size_t reap(std::span<IoDone> into) noexcept;
  void set_aside() noexcept;
  void take_wake() noexcept;
  Result<void> die(int error);
  std::size_t in_kernel() noexcept;

  io_uring uring{};
  bool made = false;
  bool wake_armed = false;     // a poll of wake_fd is in the ring
  unsigned wake_position = 0;  // of that poll in the submission ring
  int dead = 0;                // errno that ended it
  std::size_t depth = 0;
  std::size_t in_flight = 0;
  env::Fd wake_fd;
  std::atomic<bool> woken{false};
  FixedBuffers fixed;
  std::vector<IoDone> set_aside_;  // completions that quiesce() found; poll() gives them first
};

Result<void> UringBackend::Ring::set_up(std::size_t wanted) {
  depth = wanted;
  set_aside_.reserve(depth);
  wake_fd.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd.valid()) return refuse_setup(errno);
  io_uring_params params{};
  // One more for the poll of wake_fd. The completion ring is twice as large, so it cannot overflow.
  const int error = ::io_uring_queue_init_params(static_cast<unsigned>(depth + 1), &uring, &params);
  if (error != 0) return refuse_setup(-error);
  made = true;
  // 5.13 is the first with all of these; older ones also wait for idle rings when buffers are
  // registered, for ever with our poll in the ring.
  constexpr unsigned kNeeded = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_RSRC_TAGS;
  if ((params.features & kNeeded) != kNeeded) {
    return fail(Code::kUnsupported,
                "the io_uring of this kernel is too old; 5.13 or newer is needed");
  }
  fixed.set_up(uring);
  return prove();
}

// Some sandboxes let a ring be made and refuse its use.
Result<void> UringBackend::Ring::prove() {
  io_uring_sqe* sqe = ::io_uring_get_sqe(&uring);
  ::io_uring_prep_nop(sqe);
  const int sent = ::io_uring_submit_and_wait(&uring, 1);
  if (sent < 0) return refuse_setup(-sent);
  io_uring_cqe* cqe = nullptr;
  const int got = ::io_uring_peek_cqe(&uring, &cqe);
  if (got != 0) return refuse_setup(-got);
  ::io_uring_cqe_seen(&uring, cqe);
  return {};
}

void UringBackend::Ring::prepare(io_uring_sqe* sqe, const IoOp& op, int fixed_index) noexcept {
  if (op.kind == IoKind::kSync) {
    ::io_uring_prep_fsync(sqe, op.fd, IORING_FSYNC_DATASYNC);
  } else {
    const bool read = op.kind == IoKind::kRead;
    int opcode = read ? IORING_OP_READ : IORING_OP_WRITE;
    if (fixed_index >= 0) opcode = read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
    ::io_uring_prep_rw(opcode, sqe, op.fd, op.memory, op.bytes, op.offset);
    if (fixed_index >= 0) sqe->buf_index = static_cast<std::uint16_t>(fixed_index);
  }
  ::io_uring_sqe_set_data64(sqe, op.tag);
}

// What the kernel has taken and not yet reported; entries it never saw cannot touch memory.
std::size_t UringBackend::Ring::in_kernel() noexcept {
  const unsigned ready = ::io_uring_sq_ready(&uring);
  const unsigned first = uring.sq.sqe_tail - ready;  // positions count up and wrap
  const bool wake_unseen = wake_armed && wake_position - first < ready;
  const std::size_t unseen = ready - (wake_unseen ? 1U : 0U);
  return in_flight - std::min(in_flight, unseen + set_aside_.size());
}

Result<void> UringBackend::Ring::die(int error) {
  if (dead == 0) dead = error;
  return fail(Code::kUnavailable, "the io_uring broke: " + env::errno_text(dead));
}

Result<void> UringBackend::Ring::enter() {
  if (dead != 0) return die(dead);
  if (::io_uring_sq_ready(&uring) == 0) return {};
  const int sent = ::io_uring_submit(&uring);
  // What a transient error left behind goes with the next call.
  if (sent < 0 && !is_transient(-sent)) return die(-sent);
  return {};
}

// Submits what is left and sleeps, in one system call.
Result<void> UringBackend::Ring::enter_until(env::Nanos deadline) {
  if (!wake_armed) {
    if (io_uring_sqe* sqe = ::io_uring_get_sqe(&uring); sqe != nullptr) {
      ::io_uring_prep_poll_add(sqe, wake_fd.get(), POLLIN);
      ::io_uring_sqe_set_data64(sqe, kWakeTag);
      wake_position = uring.sq.sqe_tail - 1;
      wake_armed = true;
    }
  }
  const env::Nanos left = std::min(deadline - env::monotonic_now(), kSleepMax);
  if (left <= 0) return enter();
  __kernel_timespec time{};
  time.tv_sec = left / env::kSecond;
  time.tv_nsec = left % env::kSecond;
  io_uring_cqe* cqe = nullptr;
  const int got = ::io_uring_submit_and_wait_timeout(&uring, &cqe, 1, &time, nullptr);
  if (got < 0 && !is_transient(-got)) return die(-got);
  return {};
}

void UringBackend::Ring::take_wake() noexcept {
  eventfd_t count = 0;
  (void)::eventfd_read(wake_fd.get(), &count);
}

std::size_t UringBackend::Ring::reap(std::span<IoDone> into) noexcept {
  std::size_t count = 0;
  while (count < into.size() && !set_aside_.empty()) {
    into[count++] = set_aside_.back();
    set_aside_.pop_back();
  }
  io_uring_cqe* cqe = nullptr;
  while (count < into.size() && ::io_uring_peek_cqe(&uring, &cqe) == 0) {
    const IoDone done{::io_uring_cqe_get_data64(cqe), cqe->res};
    ::io_uring_cqe_seen(&uring, cqe);
    if (done.tag == kWakeTag) {
      wake_armed = false;
      take_wake();
    } else {
      into[count++] = done;
    }
  }
  in_flight -= std::min(in_flight, count);
  return count;
}

// Moves the completions out of the ring, so that what is in flight can be told from what is not.
void UringBackend::Ring::set_aside() noexcept {
  io_uring_cqe* cqe = nullptr;
  while (::io_uring_peek_cqe(&uring, &cqe) == 0) {
    const IoDone done{::io_uring_cqe_get_data64(cqe), cqe->res};
    ::io_uring_cqe_seen(&uring, cqe);
    if (done.tag == kWakeTag) {
      wake_armed = false;
      take_wake();
    } else if (set_aside_.size() < depth) {  // reserved: never allocates
      set_aside_.push_back(done);
    }
  }
}

Result<std::unique_ptr<UringBackend>> UringBackend::create(const UringOptions& options) {
  if (options.depth == 0 || options.depth > kDepthMax) {
    return fail(Code::kInvalidArgument, "the depth of an io_uring is 1 to " +
                                            std::to_string(kDepthMax) + ", not " +
                                            std::to_string(options.depth));
  }
  auto ring = std::make_unique<Ring>();
  LARDER_TRY(ring->set_up(options.depth));
  return std::unique_ptr<UringBackend>(new UringBackend(std::move(ring)));
}

UringBackend::UringBackend(std::unique_ptr<Ring> ring) : ring_(std::move(ring)) {}

UringBackend::~UringBackend() {
  quiesce(env::monotonic_now() + kCloseGrace);
}

std::size_t UringBackend::depth() const noexcept {
  return ring_->depth;
}

std::size_t UringBackend::in_flight() const noexcept {
  return ring_->in_flight;
}

Result<std::size_t> UringBackend::submit(std::span<const IoOp> ops) {
  Ring& ring = *ring_;
  if (ring.dead != 0) return fail(ring.die(ring.dead).error());
  const std::size_t room = ring.depth - ring.in_flight;
  const auto taken = ops.first(std::min(ops.size(), room));
  for (const IoOp& op : taken) {
    if (op.tag == kIoTagReserved) return fail(Code::kInvalidArgument, "the tag is reserved");
  }
  std::size_t count = 0;
  const FixedBuffers::Lookup fixed(ring.fixed);
  for (const IoOp& op : taken) {
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring.uring);
    if (sqe == nullptr) break;
    Ring::prepare(sqe, op, fixed.index_of(op));
    ++count;
  }
  ring.in_flight += count;
  return count;
}

Result<void> UringBackend::start() {
  return ring_->enter();
}

Result<std::size_t> UringBackend::poll(std::span<IoDone> into) {
  LARDER_TRY(ring_->enter());
  return ring_->reap(into);
}

Result<std::size_t> UringBackend::wait(std::span<IoDone> into, env::Nanos deadline) {
  if (ring_->dead != 0) return fail(ring_->die(ring_->dead).error());
  if (const std::size_t ready = ring_->reap(into); ready > 0) {
    LARDER_TRY(ring_->enter());
    return ready;
  }
  if (ring_->woken.exchange(false, std::memory_order_acq_rel)) {
    ring_->take_wake();
    LARDER_TRY(ring_->enter());
    return 0U;
  }
  LARDER_TRY(ring_->enter_until(deadline));
  ring_->woken.store(false, std::memory_order_release);
  return ring_->reap(into);
}

void UringBackend::wake() noexcept {
  // One write is enough until the waiter has seen it. It is a system call because the waiter
  // sleeps in the kernel.
  if (!ring_->woken.exchange(true, std::memory_order_acq_rel)) {
    (void)::eventfd_write(ring_->wake_fd.get(), 1);
  }
}

bool UringBackend::quiesce(env::Nanos deadline) noexcept {
  Ring& ring = *ring_;
  for (;;) {
    if (ring.dead == 0) (void)ring.enter();
    ring.set_aside();
    const std::size_t unseen = ring.dead == 0 ? ::io_uring_sq_ready(&ring.uring) : 0;
    if (ring.in_kernel() == 0 && unseen == 0) return true;
    if (env::monotonic_now() >= deadline) return false;
    // A dead ring may not let us sleep in it, but what it ran ends in its completion ring all the
    // same: then there is nothing left but to look again.
    if (ring.dead != 0 || !ring.enter_until(deadline)) env::system_clock().sleep(env::kMilli);
  }
}

bool UringBackend::add_buffer(std::span<std::byte> memory) noexcept {
  return ring_->fixed.add(memory);
}

void UringBackend::remove_buffer(std::span<std::byte> memory) noexcept {
  ring_->fixed.remove(memory);
}

}  // namespace larder::fileio
