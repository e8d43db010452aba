// SPDX-License-Identifier: Apache-2.0
// The connections of one client to one node, opened when concurrent calls need them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "client/window.h"
#include "env/clock.h"
#include "larder/status.h"
#include "rpc/channel.h"

namespace larder::client {

// A connection and the staging window that goes with it.
struct Lane {
  std::shared_ptr<rpc::Channel> channel;
  std::mutex window_mutex;         // of making the window
  std::unique_ptr<Window> window;  // made at the first put that needs it
  // Chunks put into the window so far. Changed inside Channel::send() only, which runs one at a
  // time.
  std::uint64_t staged = 0;
};

class Pool {
 public:
  Pool(rpc::ChannelOptions options, std::size_t lanes_max)
      : options_(std::move(options)), lanes_max_(lanes_max) {}

  // An idle lane, else a new one, else the least busy. Connects when needed, until `deadline`.
  Result<std::shared_ptr<Lane>> acquire(env::Nanos deadline);
  // Lanes whose node closed them are taken for broken from now on. Costs a system call per lane.
  void drop_closed();
  const rpc::ChannelOptions& options() const noexcept { return options_; }
  // The same, with no more patience than until `deadline`.
  rpc::ChannelOptions options_until(env::Nanos deadline) const;
  // Ends every connection; calls in flight end with kUnavailable.
  void shut_down();

 private:
  Result<std::shared_ptr<Lane>> connect(env::Nanos deadline);
  void bury_broken();

  const rpc::ChannelOptions options_;
  const std::size_t lanes_max_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  // Broken lanes that a call may still hold. They are let go by later callers, so that the last
  // reference to a channel never dies on that channel's own thread.
  std::vector<std::shared_ptr<Lane>> broken_;
  std::size_t connecting_ = 0;
  bool closed_ = false;
};

}  // namespace larder::client
