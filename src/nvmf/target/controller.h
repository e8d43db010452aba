// SPDX-License-Identifier: Apache-2.0
// One controller: what a host got by its Connect on an admin queue, until that connection ends. Its
// I/O queues may be connections of other reactors.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "env/clock.h"
#include "nvmf/pdu/command.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/pdu/properties.h"

namespace larder::nvmf {

// Any thread.
class Controller {
 public:
  struct Options {
    std::uint16_t cntlid = 0;
    std::string host_nqn;
    Id16 host_id{};
    bool discovery = false;
    std::uint32_t queue_entries_max = 0;
    std::uint32_t io_queues_max = 0;
    std::uint32_t keep_alive_ms = 0;  // 0: none
    env::Nanos now = 0;
  };
  explicit Controller(const Options& options);

  std::uint16_t cntlid() const noexcept { return options_.cntlid; }
  const std::string& host_nqn() const noexcept { return options_.host_nqn; }
  const Id16& host_id() const noexcept { return options_.host_id; }
  bool discovery() const noexcept { return options_.discovery; }
  std::uint32_t queue_entries_max() const noexcept { return options_.queue_entries_max; }

  // It has ended; all its connections are to be closed.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  void end() noexcept { ended_.store(true, std::memory_order_release); }
  bool ready() const noexcept { return ready_.load(std::memory_order_acquire); }
  // Changes with every reset: I/O queues of an earlier incarnation are to be closed.
  std::uint32_t incarnation() const noexcept {
    return incarnation_.load(std::memory_order_acquire);
  }

  // Keep-alive. Every command counts as a sign of life.
  void touch(env::Nanos now) noexcept { seen_.store(now, std::memory_order_relaxed); }
  bool expired(env::Nanos now) const noexcept;
  std::uint32_t keep_alive_ms() const noexcept {
    return keep_alive_ms_.load(std::memory_order_relaxed);
  }
  void set_keep_alive_ms(std::uint32_t ms) noexcept {
    keep_alive_ms_.store(ms, std::memory_order_relaxed);
  }

  // Properties. nullopt: there is none of that name and size.
  std::optional<std::uint64_t> get_property(std::uint32_t offset, std::uint32_t bytes) const;
  // False: it cannot be set. `was_reset`: the I/O queues are gone.
  bool set_property(std::uint32_t offset, std::uint32_t bytes, std::uint64_t value,
                    bool& was_reset);

  // Takes a queue id, 1 and up, for an I/O queue of the present incarnation.
  enum class QueueTaken : std::uint8_t { kYes, kNotReady, kBadId, kInUse };
  QueueTaken take_queue(std::uint16_t qid);
  void release_queue(std::uint16_t qid, std::uint32_t incarnation);

  // Events. A type is held back after it was sent until the host has read its log page.
  void set_event_mask(std::uint32_t mask);
  std::uint32_t event_mask() const;
  void note_changed(std::uint32_t nsid);
  void note_discovery_changed();
  std::optional<AsyncEvent> next_event();
  // The ids of log page 04h, ascending; 0xFFFFFFFF alone for too many.
  std::vector<std::uint32_t> changed(bool retain);
  void discovery_log_read(bool retain);

 private:
  void set_configuration(Cc cc, bool& was_reset);

  const Options options_;
  const Cap cap_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> ready_{false};
  std::atomic<std::uint32_t> incarnation_{0};
  std::atomic<env::Nanos> seen_;
  std::atomic<std::uint32_t> keep_alive_ms_;
  mutable std::mutex mutex_;  // guards the following
  Cc cc_;
  std::uint32_t csts_ = 0;
  std::vector<bool> queues_;  // by queue id
  std::uint32_t event_mask_ = 0;
  std::vector<std::uint32_t> changed_;  // ascending
  bool changed_pending_ = false;        // to be sent
  bool changed_held_ = false;           // sent, and the page not read
  bool discovery_pending_ = false;
  bool discovery_held_ = false;
};

}  // namespace larder::nvmf
