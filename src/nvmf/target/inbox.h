// SPDX-License-Identifier: Apache-2.0
// What other threads have for a reactor: finished jobs, accepted connections, and the wish that it
// looks at all its connections once. The wake-up costs a system call only when the reactor sleeps.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "env/fd.h"
#include "larder/status.h"
#include "nvmf/target/disk_worker.h"

namespace larder::nvmf {

class Inbox final : public DiskJobTaker {
 public:
  struct Mail {
    std::vector<DiskJob*> jobs;
    std::vector<env::Fd> sockets;
    bool sweep = false;
  };

  // kExhausted without a free descriptor.
  static Result<std::shared_ptr<Inbox>> create();

  // Any thread.
  void take_finished(DiskJob& job) override;
  void adopt(env::Fd socket);
  void ask_sweep();
  void wake() noexcept;

  // The reactor's thread.
  int fd() const noexcept { return wake_.get(); }  // readable after a wake-up
  bool pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  // Announces that the reactor goes to sleep on fd(). False: mail is here, it must not.
  bool fall_asleep();
  void awaken();
  // Swaps what is here into `into`, which is empty.
  void collect(Mail& into);

 private:
  explicit Inbox(env::Fd wake) : wake_(std::move(wake)) {}
  template <class Put>
  void post(Put put);

  env::Fd wake_;
  std::atomic<bool> pending_{false};
  std::mutex mutex_;  // guards the following
  Mail mail_;
  bool asleep_ = false;
};

}  // namespace larder::nvmf
