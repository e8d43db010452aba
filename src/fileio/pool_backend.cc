// SPDX-License-Identifier: Apache-2.0
#include "fileio/pool_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>

#include "env/thread.h"

namespace larder::fileio {
namespace {

constexpr env::Nanos kSleepMax = 3600 * env::kSecond;  // the deadline may be "never"

ssize_t once(const IoOp& op) noexcept {
  const auto offset = static_cast<off_t>(op.offset);
  switch (op.kind) {
    case IoKind::kRead:
      return ::pread(op.fd, op.memory, op.bytes, offset);
    case IoKind::kWrite:
      return ::pwrite(op.fd, op.memory, op.bytes, offset);
    case IoKind::kSync:
      return ::fdatasync(op.fd);
  }
  errno = EINVAL;
  return -1;
}

IoDone perform(const IoOp& op) noexcept {
  ssize_t result = 0;
  do {
    result = once(op);
  } while (result < 0 && errno == EINTR);
  return {op.tag, result < 0 ? -errno : result};
}

std::chrono::nanoseconds time_left(env::Nanos deadline) noexcept {
  return std::chrono::nanoseconds(
      std::clamp<env::Nanos>(deadline - env::monotonic_now(), 0, kSleepMax));
}

}  // namespace

PoolBackend::PoolBackend(const PoolOptions& options)
    : options_(options), queue_(options.depth), done_(options.depth) {}

Result<std::unique_ptr<PoolBackend>> PoolBackend::create(const PoolOptions& options) {
  if (options.depth == 0 || options.depth > kDepthMax || options.threads > kThreadsMax) {
    return fail(Code::kInvalidArgument, "a pool has a depth of 1 to " + std::to_string(kDepthMax) +
                                            " and at most " + std::to_string(kThreadsMax) +
                                            " threads");
  }
  std::unique_ptr<PoolBackend> pool(new PoolBackend(options));
  try {
    for (std::size_t i = 0; i < options.threads; ++i) {
      pool->threads_.emplace_back([raw = pool.get()] { raw->run(); });
    }
  } catch (const std::system_error& error) {
    // Some threads are enough to work with; none are not.
    if (pool->threads_.empty()) {
      return fail(Code::kExhausted, std::string("starting the threads of the file pool: ") +
                                        error.what() + "; raise the limit of processes");
    }
  }
  return pool;
}

PoolBackend::~PoolBackend() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PoolBackend::run() {
  env::set_thread_name("larder-file");
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const IoOp op = queue_.pop();
    lock.unlock();
    const IoDone done = perform(op);
    lock.lock();
    done_.push(done);
    changed_.notify_all();
  }
}

// Without threads: at most `count` operations, in the order they came.
void PoolBackend::run_here(std::size_t count) {
  for (; count > 0 && !queue_.empty(); --count) done_.push(perform(queue_.pop()));
}

Result<std::size_t> PoolBackend::submit(std::span<const IoOp> ops) {
  const auto taken = ops.first(std::min(ops.size(), options_.depth - in_flight_));
  for (const IoOp& op : taken) {
    if (op.tag == kIoTagReserved) return fail(Code::kInvalidArgument, "the tag is reserved");
  }
  {
    const std::lock_guard lock(mutex_);
    for (const IoOp& op : taken) queue_.push(op);
  }
  in_flight_ += taken.size();
  for (std::size_t i = 0; i < std::min(taken.size(), threads_.size()); ++i) work_.notify_one();
  return taken.size();
}

std::size_t PoolBackend::take_done(std::span<IoDone> into) {
  const std::size_t count = std::min(into.size(), done_.size());
  for (IoDone& done : into.first(count)) done = done_.pop();
  in_flight_ -= count;
  return count;
}

Result<std::size_t> PoolBackend::poll(std::span<IoDone> into) {
  if (threads_.empty()) {
    run_here(into.size() - std::min(into.size(), done_.size()));
    return take_done(into);
  }
  const std::lock_guard lock(mutex_);
  return take_done(into);
}

Result<std::size_t> PoolBackend::wait(std::span<IoDone> into, env::Nanos deadline) {
  LARDER_ASSIGN(const std::size_t ready, poll(into));
  if (ready > 0) return ready;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time_left(deadline), [this] { return woken_ || !done_.empty(); });
  woken_ = false;
  return take_done(into);
}

void PoolBackend::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

bool PoolBackend::quiesce(env::Nanos deadline) noexcept {
  if (threads_.empty()) run_here(options_.depth);
  std::unique_lock lock(mutex_);
  const auto quiet = [this] { return done_.size() == in_flight_; };
  while (!changed_.wait_for(lock, time_left(deadline), quiet)) {
    if (env::monotonic_now() >= deadline) return false;
  }
  return true;
}

}  // namespace larder::fileio
