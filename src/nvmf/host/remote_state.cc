// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/remote_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "nvmf/host/facts.h"
#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr env::Nanos kPauseMin = 20 * env::kMilli;  // between attempts to reattach
constexpr env::Nanos kPauseMax = 500 * env::kMilli;

}  // namespace

void RemoteState::note_write(const std::atomic<bool>& lost) noexcept {
  if (books_->geometry().volatile_cache) flushes_.note_write(lost);
}

void RemoteState::fail_flush() {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    why = lost_because_;
  }
  books_->health().fail("the " + tie_ + " was lost" + (why.empty() ? why : " (" + why + ")") +
                        " before a flush: writes in the volatile cache of the target may be gone");
}

bool RemoteState::begin_loss(std::atomic<bool>& lost, const char* event,
                             const std::string& reason) {
  if (lost.exchange(true)) return false;
  if (books_->geometry().volatile_cache) flushes_.note_loss();
  counters_->lost.fetch_add(1, std::memory_order_relaxed);
  obs::log(obs::Level::kWarn, event, {{"device", books_->identity().name}, {"reason", reason}});
  return true;
}

void RemoteState::end_loss(const std::string& reason) {
  if (remote().reattach == Reattach::kNever) books_->health().fail(reason);
  waker_.notify();
}

Result<void> RemoteState::check_same(const block::Geometry& geometry,
                                     const block::Identity& identity) {
  const std::string changed =
      what_changed(books_->geometry(), books_->identity(), geometry, identity);
  if (changed.empty()) return {};
  books_->health().fail("after the " + tie_ + " was lost, " + changed);
  return fail(Code::kConflict, changed);
}

void RemoteState::set_witness(block::Witness witness) {
  const std::lock_guard lock(mutex_);
  witness_ = std::move(witness);
}

Result<void> RemoteState::ask_witness(const ReadBlock& read) {
  block::Witness witness;
  {
    const std::lock_guard lock(mutex_);
    witness = witness_;
  }
  if (!witness.judge) return {};
  const std::size_t block = books_->geometry().block_bytes;
  std::vector<std::byte> blocks(witness.offsets.size() * block);
  for (std::size_t i = 0; i < witness.offsets.size(); ++i) {
    LARDER_TRY(read(witness.offsets[i], std::span(blocks).subspan(i * block, block)));
  }
  const Result<void> judged = witness.judge(blocks);
  if (judged) return {};
  books_->health().fail("after the " + tie_ + " was lost: " + judged.error().message());
  return fail(Code::kConflict, judged.error().message());
}

void RemoteState::put_off() {
  const env::Nanos most = std::max(kPauseMin, std::min(kPauseMax, remote().reattach_timeout / 4));
  attempt_pause_ = std::clamp(2 * attempt_pause_, kPauseMin, most);
  attempt_next_ = env::monotonic_now() + attempt_pause_;
}

}  // namespace larder::nvmf
