// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/inbox.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "env/socket.h"

namespace larder::nvmf {

Result<std::shared_ptr<Inbox>> Inbox::create() {
  env::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return fail(Code::kExhausted, "eventfd for a reactor: " + env::errno_text(errno));
  }
  return std::shared_ptr<Inbox>(new Inbox(std::move(wake)));
}

// The bell rings under the lock: whoever the mail makes free to go cannot take the bell along.
template <class Put>
void Inbox::post(Put put) {
  const std::lock_guard lock(mutex_);
  put(mail_);
  pending_.store(true, std::memory_order_release);
  if (!std::exchange(asleep_, false)) return;
  wake();
}

void Inbox::take_finished(DiskJob& job) {
  post([&](Mail& mail) { mail.jobs.push_back(&job); });
}

void Inbox::adopt(env::Fd socket) {
  post([&](Mail& mail) { mail.sockets.push_back(std::move(socket)); });
}

void Inbox::ask_sweep() {
  post([](Mail& mail) { mail.sweep = true; });
}

void Inbox::wake() noexcept {
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then the reactor wakes anyway.
  static_cast<void>(::write(wake_.get(), &one, sizeof(one)));
}

bool Inbox::fall_asleep() {
  const std::lock_guard lock(mutex_);
  if (pending_.load(std::memory_order_relaxed)) return false;
  asleep_ = true;
  return true;
}

void Inbox::awaken() {
  {
    const std::lock_guard lock(mutex_);
    asleep_ = false;
  }
  std::uint64_t count = 0;
  static_cast<void>(::read(wake_.get(), &count, sizeof(count)));
}

void Inbox::collect(Mail& into) {
  const std::lock_guard lock(mutex_);
  std::swap(mail_, into);
  pending_.store(false, std::memory_order_relaxed);
}

}  // namespace larder::nvmf
