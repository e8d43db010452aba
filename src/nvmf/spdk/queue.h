// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nvmf/spdk/state.h"

namespace larder::nvmf {

class SpdkQueue final : public block::BlockQueue {
 public:
  SpdkQueue(std::shared_ptr<SpdkState> state, std::shared_ptr<SpdkChannel> channel,
            std::size_t depth);
  ~SpdkQueue() override;

  void start() override;
  void wake() noexcept override;
  bool quiesce(env::Nanos deadline) override;

 protected:
  Result<void> take(const block::BlockOp& op) override;
  std::size_t collect(std::span<block::BlockDone> into) override;
  std::size_t collect_by(std::span<block::BlockDone> into, env::Nanos deadline) override;

 private:
  struct Op {
    block::BlockDone done;
    std::span<const block::Piece> pieces;
    qos::Purpose purpose;
    std::uint64_t planned = 0;        // bytes that commands were sent for; of a flush 1 then
    std::uint64_t total = 0;          // of a flush 1
    std::uint32_t outstanding = 0;    // commands
    std::uint8_t reissued = 0;        // commands that were sent again without a loss
    bool bounce = false;              // its memory is not for DMA
    bool waiting = false;             // in waiting_
    bool cut = false;                 // a command of it was given up with the controller
    bool retried = false;             // after a loss
    bool too_late = false;            // its command took longer than it may
    std::uint64_t writes_before = 0;  // of a flush
    env::Nanos begun = 0;
    env::Nanos wait_until = 0;  // for a controller
  };

  // ---- operations become commands
  void enqueue(std::uint32_t number);
  void issue();
  bool issue_one(std::uint32_t number);
  SpdkRequest next_request(const Op& op) const;
  void note_sent(Op& op, const SpdkRequest& request);
  bool needs_bounce(std::span<const block::Piece> pieces);
  // ---- and end
  void advance();
  void reap();
  void note(const SpdkEnded& ended);
  void note_error(const SpdkEnded& ended, Op& op);
  void finish(std::uint32_t number);
  std::size_t give(std::span<block::BlockDone> into);
  // ---- the controller
  void attend_channel();
  void check_deadlines(env::Nanos now);
  void lose(const std::string& reason);
  void drop();
  void retry_or_end(std::uint32_t number);
  void end_waiting(Code code);
  // ---- waiting
  void pause(env::Nanos deadline);
  bool idle() const { return waiting_.empty() && channel_->in_flight() == 0; }

  std::shared_ptr<SpdkState> state_;
  const std::shared_ptr<SpdkChannel> channel_;
  bool open_ = true;     // the channel was when it was looked at last
  bool wanted_ = false;  // it was asked for
  // Of the controller that the channel was opened on last.
  std::shared_ptr<std::atomic<bool>> lost_;
  std::vector<Op> ops_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> waiting_;  // with commands to be sent; at most depth
  std::deque<std::uint32_t> ended_;    // for poll(); at most depth
  std::vector<std::uint32_t> cut_;     // operations that have no command left
  std::uint64_t memory_version_ = ~std::uint64_t{0};
  std::vector<std::span<std::byte>> memory_;  // for DMA, as of that version
  env::Nanos now_ = 0;                        // of the last look at the clock
  env::Nanos checked_ = 0;                    // deadlines
  std::atomic<bool> woken_{false};
};

}  // namespace larder::nvmf
