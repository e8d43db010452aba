// SPDX-License-Identifier: Apache-2.0
// What all reactors of a target share: its name, who may use it, its namespaces and controllers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nvmf/pdu/log_page.h"
#include "nvmf/target/controller.h"
#include "nvmf/target/namespace.h"
#include "nvmf/target/target.h"

namespace larder::nvmf {

// What Connect ends with.
struct ConnectOutcome {
  Status status;
  ConnectRefusal refusal;
  const char* why = "";  // static text, for the log
  std::shared_ptr<Controller> controller;
};

// Any thread.
class Subsystem {
 public:
  // `options` were checked and stay. `sweep` makes every reactor look at its connections.
  Subsystem(const TargetOptions& options, std::function<void()> sweep);

  const TargetOptions& options() const noexcept { return options_; }
  const std::array<char, 20>& serial() const noexcept { return serial_; }

  // The table as it is; the number changes with it.
  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  std::shared_ptr<const NamespaceTable> table() const;
  // As those of Target.
  Result<std::uint32_t> add(const NamespaceOptions& options);
  Result<void> remove(std::uint32_t nsid);
  Result<void> replace(const NamespaceOptions& options);
  Result<void> resize(std::uint32_t nsid, std::uint64_t bytes);

  // `command` and `data` as a host sent them.
  ConnectOutcome connect(const ConnectCommand& command, const ConnectData& data, env::Nanos now);
  // Its admin connection has ended, or it has expired.
  void end(Controller& controller);
  // Makes reactors close the I/O queues of a controller that was reset.
  void sweep() { sweep_(); }
  std::size_t controllers() const;

  // Header and entries. `local`: the address that the host reached us at.
  std::vector<std::byte> discovery_log(const env::SocketAddress& local) const;

 private:
  ConnectOutcome connect_admin(const ConnectCommand& command, const ConnectData& data,
                               const std::string& host, bool discovery, env::Nanos now);
  ConnectOutcome connect_io(const ConnectCommand& command, const ConnectData& data,
                            const std::string& host);
  bool allows(const std::string& host) const;
  void put(std::uint32_t nsid, std::shared_ptr<const Namespace> space);

  const TargetOptions& options_;
  const std::function<void()> sweep_;
  std::array<char, 20> serial_{};
  std::atomic<std::uint64_t> generation_{1};
  mutable std::mutex mutex_;  // guards the following
  std::shared_ptr<const NamespaceTable> table_;
  std::map<std::uint16_t, std::shared_ptr<Controller>> controllers_;
  std::uint16_t next_cntlid_ = 1;
};

}  // namespace larder::nvmf
