// SPDX-License-Identifier: Apache-2.0
// What all operations of a client share, and the loop that takes an operation to its end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "client/attachment.h"
#include "client/op.h"
#include "client/pool.h"
#include "client/readable_disks.h"
#include "client/route_cache.h"
#include "client/value_pool.h"
#include "larder/client.h"
#include "qos/managed.h"

namespace larder::client {

class ClientCore {
 public:
  static Result<std::unique_ptr<ClientCore>> create(ClientOptions options);
  ~ClientCore();

  // Blocks until the operation is complete. The error is of the operation as a whole.
  Result<void> run(Op& op, const CallOptions& options);
  // Takes the operation to its end without a waiting thread; it delivers its result and is
  // destroyed.
  void start(std::unique_ptr<Op> op, const CallOptions& options);

  // The next step of a started operation: its own business, and Op::on_done's.
  void go_on(std::unique_ptr<Op> op);

  Path path() const noexcept { return path_; }
  const KeySpace& space() const noexcept { return options_.space; }
  const ClientOptions& options() const noexcept { return options_; }
  std::uint64_t hash(std::string_view key) const noexcept;
  RouteCache& cache() noexcept { return cache_; }
  // The node's memory when it can be mapped and the present node is the one that was mapped;
  // attaches again after a restart, until `deadline`. Empty: use the socket.
  std::shared_ptr<Attachment> attachment(env::Nanos deadline);
  // A connection broke: if the node is gone, so are its other connections, and its memory is let
  // go, or it would outlive it here.
  void forget_dead_node();
  Pool& pool() noexcept { return *pool_; }
  ValuePool& values() noexcept { return *values_; }
  ReadableDisks& disks() noexcept { return disks_; }
  qos::ManagedTransfers& transfers() noexcept { return transfers_; }

  // Pins belong to a connection, so all of this client's go over one.
  Result<std::shared_ptr<Lane>> pin_lane(env::Nanos deadline);
  // The shared buffer that holds the range, or null.
  std::shared_ptr<Window> shared_buffer_of(ConstBytes range);
  void add_shared_buffer(const std::shared_ptr<Window>& buffer);
  // Staging memory of the lane, made when first needed.
  Result<Window*> window_of(Lane& lane, env::Nanos deadline);
  env::Nanos deadline_of(const CallOptions& options) const noexcept;

  Result<void> register_buffer(MutableBytes range);
  Result<void> unregister_buffer(MutableBytes range);

 private:
  ClientCore(ClientOptions options, rpc::ChannelOptions channel);
  Result<void> choose_path();
  bool find_local_socket();
  Result<std::shared_ptr<Lane>> lane_for(Op& op);
  Result<void> launch(Op& op, bool waited);
  std::optional<Error> judge(Op& op);
  Result<void> take_to_end(Op& op);
  void set_up(Op& op, const CallOptions& options) const;

  ClientOptions options_;
  Path path_ = Path::kTcp;
  std::uint64_t seed_ = 0;
  std::unique_ptr<Pool> pool_;
  RouteCache cache_;
  qos::ManagedTransfers transfers_{nullptr};
  const std::shared_ptr<ValuePool> values_ = std::make_shared<ValuePool>();
  ReadableDisks disks_;
  std::mutex attach_mutex_;
  std::shared_ptr<Attachment> attachment_;  // under attach_mutex_
  bool attaching_ = false;                  // under attach_mutex_: one thread is at it
  std::mutex pins_mutex_;
  std::shared_ptr<Lane> pin_lane_;
  std::mutex buffers_mutex_;
  std::vector<std::weak_ptr<Window>> shared_buffers_;
  std::set<std::pair<std::byte*, std::size_t>> registered_;
};

}  // namespace larder::client
