// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nvmf/host/queue.h"
#include "nvmf/host/remote_queue.h"

namespace larder::nvmf {

class NvmeQueue final : public RemoteQueue {
 public:
  NvmeQueue(std::shared_ptr<NvmeState> state, NvmeState::Entry entry, std::size_t depth);
  ~NvmeQueue() override;

  void start() override;

 protected:
  Result<void> take(const block::BlockOp& op) override;
  std::size_t collect(std::span<block::BlockDone> into) override;
  std::size_t collect_by(std::span<block::BlockDone> into, env::Nanos deadline) override;

 private:
  struct Op : RemoteQueue::Op {
    DsmRange range;  // of a discard that has to send one
    block::Piece range_piece;
  };
  Op& op_at(std::uint32_t number) noexcept override { return ops_[number]; }
  const std::atomic<bool>& lost() const noexcept override { return connection_.association->lost; }

  // ---- operations become commands
  void issue();
  bool issue_one(std::uint32_t number);
  Request next_request(Op& op);
  Request zeroes_request(Op& op, std::uint64_t offset, std::uint64_t left, bool deallocate);
  Request discard_request(Op& op, std::uint64_t offset, std::uint64_t left);
  // ---- and end
  void advance() override;
  void reap();
  void note(const Ended& ended);
  bool worth_another(const Ended& ended, Op& op);
  // ---- connections
  void attend_connection();
  void accept(QueueLink::News news);
  void check_deadlines(env::Nanos now);
  void lose(const std::string& reason);
  void drop();
  // ---- waiting
  bool spin(env::Nanos deadline);
  void doze(env::Nanos deadline) override;
  env::Nanos next_due(env::Nanos deadline) const;
  bool idle() const noexcept override {
    return waiting_.empty() &&
           (connection_.pair == nullptr || connection_.pair->session().in_flight() == 0);
  }

  std::shared_ptr<NvmeState> state_;
  std::shared_ptr<QueueLink> link_;
  QueueLink::Connection connection_;  // without a pair: there is none
  std::vector<Op> ops_;
  env::Nanos crowded_until_ = 0;     // others want this core: no spinning
  std::uint64_t digest_errors_ = 0;  // of the session, that were counted
};

}  // namespace larder::nvmf
