// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "nvmf/host/queue.h"

namespace larder::nvmf {

class NvmeQueue final : public block::BlockQueue {
 public:
  NvmeQueue(std::shared_ptr<NvmeState> state, NvmeState::Entry entry, std::size_t depth);
  ~NvmeQueue() override;

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
    TrafficClass traffic_class = TrafficClass::kLow;
    std::uint64_t planned = 0;        // bytes that commands were sent for; of a flush 1 then
    std::uint64_t total = 0;          // of a flush 1
    std::uint32_t outstanding = 0;    // commands
    std::uint8_t reissued = 0;        // commands that were sent again on the same connection
    bool waiting = false;             // in waiting_
    bool retried = false;             // after a loss
    bool too_late = false;            // its command took longer than it may
    std::uint64_t writes_before = 0;  // of a flush
    env::Nanos begun = 0;
    env::Nanos wait_until = 0;  // for a connection
    DsmRange range;             // of a discard that has to send one
    block::Piece range_piece;
  };

  // ---- operations become commands
  void enqueue(std::uint32_t number);
  void issue();
  bool issue_one(std::uint32_t number);
  Request next_request(Op& op);
  Request zeroes_request(Op& op, std::uint64_t offset, std::uint64_t left, bool deallocate);
  Request discard_request(Op& op, std::uint64_t offset, std::uint64_t left);
  // ---- and end
  void advance();
  void reap();
  void note(const Ended& ended);
  bool worth_another(const Ended& ended, Op& op);
  void finish(std::uint32_t number);
  std::size_t give(std::span<block::BlockDone> into);
  // ---- connections
  void attend_connection();
  void accept(QueueLink::News news);
  void check_deadlines(env::Nanos now);
  void lose(const std::string& reason);
  void drop();
  void retry_or_end(std::uint32_t number);
  void end_waiting(Code code);
  // ---- waiting
  bool spin(env::Nanos deadline);
  void doze(env::Nanos deadline);
  env::Nanos next_due(env::Nanos deadline) const;
  bool idle() const noexcept {
    return waiting_.empty() &&
           (connection_.pair == nullptr || connection_.pair->session().in_flight() == 0);
  }

  std::shared_ptr<NvmeState> state_;
  std::shared_ptr<QueueLink> link_;
  QueueLink::Connection connection_;  // without a pair: there is none
  bool wanted_ = false;               // one was asked for
  std::vector<Op> ops_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> waiting_;  // with commands to be sent; at most depth
  std::deque<std::uint32_t> ended_;    // for poll(); at most depth
  env::Nanos now_ = 0;                 // of the last look at the clock
  env::Nanos crowded_until_ = 0;       // others want this core: no spinning
  env::Nanos checked_ = 0;             // deadlines
  std::uint64_t digest_errors_ = 0;    // of the session, that were counted
  std::atomic<bool> woken_{false};
};

}  // namespace larder::nvmf
