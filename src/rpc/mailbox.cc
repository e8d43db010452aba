// SPDX-License-Identifier: Apache-2.0
#include "rpc/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "env/socket.h"

namespace larder::rpc {

Result<std::shared_ptr<Mailbox>> Mailbox::create() {
  env::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return fail(Code::kExhausted, "cannot create a mailbox: " + env::errno_text(errno));
  }
  return std::shared_ptr<Mailbox>(new Mailbox(std::move(wake)));
}

void Mailbox::post(LateReply late) {
  bool sleeps = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    replies_.push_back(std::move(late));
    pending_.store(true, std::memory_order_release);
    sleeps = std::exchange(asleep_, false);
  }
  if (sleeps) wake();
}

void Mailbox::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
}

bool Mailbox::fall_asleep() {
  const std::lock_guard lock(mutex_);
  asleep_ = replies_.empty();
  return asleep_;
}

void Mailbox::awaken() {
  const std::lock_guard lock(mutex_);
  asleep_ = false;
}

void Mailbox::collect(std::vector<LateReply>& into) {
  const std::lock_guard lock(mutex_);
  into.swap(replies_);
  pending_.store(false, std::memory_order_relaxed);
}

void Mailbox::close() {
  std::vector<LateReply> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(replies_);
  pending_.store(false, std::memory_order_relaxed);
}

void ReplyLine::take(const wire::FrameHeader& request, Reply reply) {
  if (wanted()) mailbox_->post({shared_from_this(), request, std::move(reply)});
}

void ReplyLine::cut() noexcept {
  connection_ = nullptr;
  open_.store(false, std::memory_order_release);
}

}  // namespace larder::rpc
