// SPDX-License-Identifier: Apache-2.0
// The operations of a queue to a remote namespace, whoever speaks for it: which wait, how they end,
// and what becomes of them when the tie to the controller is lost. How they become commands is for
// the derived.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "nvmf/host/remote_state.h"

namespace larder::nvmf {

class RemoteQueue : public block::BlockQueue {
 public:
  void wake() noexcept override;
  bool quiesce(env::Nanos deadline) override;

 protected:
  struct Op {
    block::BlockDone done;
    std::span<const block::Piece> pieces;
    qos::Purpose purpose;
    std::uint64_t planned = 0;        // bytes that commands were sent for; of a flush 1 then
    std::uint64_t total = 0;          // of a flush 1
    std::uint32_t outstanding = 0;    // commands
    std::uint8_t reissued = 0;        // commands that were sent again without a loss
    bool waiting = false;             // in waiting_
    bool retried = false;             // after a loss
    bool too_late = false;            // its command took longer than it may
    std::uint64_t writes_before = 0;  // of a flush
    env::Nanos begun = 0;
    env::Nanos wait_until = 0;  // for a tie
  };

  static constexpr env::Nanos kCheckEvery = 20 * env::kMilli;  // deadlines of commands
  static constexpr env::Nanos kLinger = 5 * env::kSecond;      // of a queue that is destroyed

  // `state` and `waker` live as long as it is used.
  RemoteQueue(RemoteState& state, const Waker& waker, std::size_t depth);

  virtual Op& op_at(std::uint32_t number) noexcept = 0;
  // Of the tie that it was used on last.
  virtual const std::atomic<bool>& lost() const noexcept = 0;
  virtual bool idle() const noexcept = 0;
  virtual void advance() = 0;  // everything that can be done without waiting
  virtual void doze(env::Nanos deadline) = 0;

  std::uint32_t take_number();
  // All that a new operation has of `op`; reads the clock.
  void begin(Op& slot, const block::BlockOp& op);
  void enqueue(std::uint32_t number);
  void finish(std::uint32_t number);
  std::size_t give(std::span<block::BlockDone> into);
  void end_waiting(Code code);
  // Until when somebody waits for a new tie that was not asked for; ends them if there will be
  // none.
  std::optional<env::Nanos> newly_wanted();
  // After a loss, of operations without a command left: again from their start, or the end.
  void retry_or_end(std::uint32_t number);
  // After a loss: all that wait have their whole time for the next tie.
  void restart_waits();

  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> waiting_;  // with commands to be sent; at most depth
  std::deque<std::uint32_t> ended_;    // for poll(); at most depth
  bool wanted_ = false;                // a new tie was asked for
  env::Nanos now_ = 0;                 // of the last look at the clock
  env::Nanos checked_ = 0;             // deadlines
  std::atomic<bool> woken_{false};

 private:
  RemoteState& state_of_;
  const Waker& waker_;
};

}  // namespace larder::nvmf
