// SPDX-License-Identifier: Apache-2.0
// What a device's queues and its background thread tell each other.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "nvmf/host/queue_pair.h"
#include "nvmf/host/waker.h"

namespace larder::nvmf {

// A host's tie to one controller (Fabrics 1.1 section 1.4.4): its admin queue and its I/O queues
// live and end together. Any thread; all but `lost` is fixed.
struct Association {
  std::uint64_t number = 0;  // counts up
  PairOptions io;            // of an I/O queue, but for its number
  std::uint16_t queues = 0;  // I/O queues granted
  std::uint32_t command_bytes_max = 0;
  std::uint64_t zeroes_bytes_max = 0;  // of one Write Zeroes
  std::atomic<bool> lost{false};
};

// How a queue gets its connections. The queue and the background thread share it.
class QueueLink {
 public:
  QueueLink(std::uint16_t qid, Waker waker) : qid_(qid), waker_(std::move(waker)) {}

  std::uint16_t qid() const noexcept { return qid_; }
  const Waker& waker() const noexcept { return waker_; }

  struct Connection {
    std::shared_ptr<Association> association;
    std::unique_ptr<QueuePair> pair;
  };
  using News = Result<Connection>;

  // By the queue: it needs a connection; not later than `until`.
  void want(env::Nanos until) {
    const std::lock_guard lock(mutex_);
    wanted_until_ = until;
  }
  std::optional<News> take() {
    const std::lock_guard lock(mutex_);
    std::optional<News> out;
    out.swap(news_);
    return out;
  }
  // By the background thread: until when one is wanted; nothing: none is.
  std::optional<env::Nanos> wanted() const {
    const std::lock_guard lock(mutex_);
    return wanted_until_;
  }
  void give(News news) {
    {
      const std::lock_guard lock(mutex_);
      wanted_until_.reset();
      news_ = std::move(news);
    }
    waker_.notify();
  }

 private:
  const std::uint16_t qid_;
  const Waker waker_;
  mutable std::mutex mutex_;  // guards what follows
  std::optional<env::Nanos> wanted_until_;
  std::optional<News> news_;
};

}  // namespace larder::nvmf
