// SPDX-License-Identifier: Apache-2.0
#include "block/health.h"

#include "env/socket.h"

namespace larder::block {
namespace {

bool blames_device(const BlockDone& done) noexcept {
  if (done.code == Code::kCancelled || done.code == Code::kUnsupported) return false;
  // A flush that found no space has lost writes all the same.
  return done.code != Code::kExhausted || done.kind == OpKind::kFlush;
}

}  // namespace

void HealthBook::note(BlockDone& done) {
  if (done.kind == OpKind::kFlush && done.ok() && failed()) done.code = Code::kUnavailable;
  if (done.ok()) return note_success();
  if (blames_device(done)) note_error(done);
}

void HealthBook::note_success() {
  if (spotless_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  health_.consecutive_errors = 0;
  if (health_.state != HealthState::kDegraded || ++successes_ < limits_.heal_after) return;
  health_.state = HealthState::kHealthy;
  spotless_.store(true, std::memory_order_release);
}

void HealthBook::note_error(const BlockDone& done) {
  const std::lock_guard lock(mutex_);
  spotless_.store(false, std::memory_order_release);
  successes_ = 0;
  ++health_.errors;
  ++health_.consecutive_errors;
  if (health_.state == HealthState::kFailed) return;
  health_.state = HealthState::kDegraded;
  health_.reason = std::string(op_name(done.kind)) + " at byte " + std::to_string(done.offset) +
                   ": " + std::string(code_name(done.code));
  if (done.sys_errno != 0) health_.reason += " (" + env::errno_text(done.sys_errno) + ")";
  const bool final =
      done.kind == OpKind::kFlush || health_.consecutive_errors >= limits_.fail_after;
  if (!final) return;
  health_.state = HealthState::kFailed;
  failed_.store(true, std::memory_order_release);
}

void HealthBook::fail(std::string reason) {
  const std::lock_guard lock(mutex_);
  spotless_.store(false, std::memory_order_release);
  if (health_.state == HealthState::kFailed) return;
  health_.state = HealthState::kFailed;
  health_.reason = std::move(reason);
  failed_.store(true, std::memory_order_release);
}

Health HealthBook::now() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

}  // namespace larder::block
