// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nvmf/host/remote_queue.h"
#include "nvmf/spdk/state.h"

namespace larder::nvmf {

class SpdkQueue final : public RemoteQueue {
 public:
  SpdkQueue(std::shared_ptr<SpdkState> state, std::shared_ptr<SpdkChannel> channel,
            std::size_t depth);
  ~SpdkQueue() override;

  void start() override;

 protected:
  Result<void> take(const block::BlockOp& op) override;
  std::size_t collect(std::span<block::BlockDone> into) override;
  std::size_t collect_by(std::span<block::BlockDone> into, env::Nanos deadline) override;

 private:
  struct Op : RemoteQueue::Op {
    bool bounce = false;  // its memory is not for DMA
    bool cut = false;     // a command of it was given up with the controller
  };
  Op& op_at(std::uint32_t number) noexcept override { return ops_[number]; }
  const std::atomic<bool>& lost() const noexcept override { return *lost_; }

  // ---- operations become commands
  void issue();
  bool issue_one(std::uint32_t number);
  SpdkRequest next_request(const Op& op) const;
  void note_sent(Op& op, const SpdkRequest& request);
  bool needs_bounce(std::span<const block::Piece> pieces);
  // ---- and end
  void advance() override;
  void reap();
  void note(const SpdkEnded& ended);
  void note_error(const SpdkEnded& ended, Op& op);
  // ---- the controller
  void attend_channel();
  void check_deadlines(env::Nanos now);
  void lose(const std::string& reason);
  void drop();
  // ---- waiting
  void doze(env::Nanos deadline) override;
  bool idle() const noexcept override { return waiting_.empty() && channel_->in_flight() == 0; }

  std::shared_ptr<SpdkState> state_;
  const std::shared_ptr<SpdkChannel> channel_;
  bool open_ = true;  // the channel was when it was looked at last
  // Of the controller that the channel was opened on last.
  std::shared_ptr<std::atomic<bool>> lost_;
  std::vector<Op> ops_;
  std::vector<std::uint32_t> cut_;  // operations that have no command left
  std::uint64_t memory_version_ = ~std::uint64_t{0};
  std::vector<std::span<std::byte>> memory_;  // for DMA, as of that version
};

}  // namespace larder::nvmf
