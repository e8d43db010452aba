// SPDX-License-Identifier: Apache-2.0
// Another engine, and what is known of it. A peer that was restarted is another incarnation: what
// was learned of the old one is forgotten, and requests that were made for it are refused.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "larder/transfer.h"
#include "rpc/channel.h"
#include "transfer/shared_memory.h"

namespace google::protobuf {
class MessageLite;
}

namespace larder::transfer {

// A registered range of a peer.
struct RemoteBuffer {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Location location;
  std::uint64_t inode = 0;                 // of its memfd; 0: none
  std::shared_ptr<SharedMapping> mapping;  // here; null: not mapped
};

struct RemoteDescription {
  std::uint64_t incarnation = 0;
  std::uint64_t generation = 0;
  bool same_machine = false;
  std::string socket;
  std::vector<RemoteBuffer> buffers;  // by address, disjoint
  // While it is open, and it is as long as the peer lives, mappings are worth something.
  std::shared_ptr<env::Fd> attachment;

  // Null unless one buffer holds all of the range. `guess`: one of these, or null.
  const RemoteBuffer* find(std::uint64_t address, std::uint64_t length,
                           const RemoteBuffer* guess = nullptr) const noexcept;
};

struct PeerOptions {
  rpc::ChannelOptions channel;
  bool map_memory = true;  // of a peer on this machine
  unsigned streams = 2;    // connections of each class
};

// Any thread.
class Peer {
 public:
  // Connects and learns what the peer has registered. The errors of rpc::Channel::connect.
  static Result<std::shared_ptr<Peer>> open(const PeerOptions& options);

  // What is known; never null. Learned again first if the peer has another incarnation by now, or
  // if a connection to it has ended, for which this looks every 10 ms (some system calls).
  std::shared_ptr<const RemoteDescription> current();
  // Learned again because something was not in it; at most every 100 ms unless `insist`.
  std::shared_ptr<const RemoteDescription> renewed(bool insist = false);
  // A connection of the class; made again when it is broken, but after a failure at the earliest
  // 100 ms later. `number`: any; it picks the stream. kUnavailable.
  Result<std::shared_ptr<rpc::Channel>> stream(TrafficClass traffic_class, unsigned number);
  // Connections that are open now.
  std::vector<std::shared_ptr<rpc::Channel>> open_streams() const;
  unsigned streams() const noexcept { return options_.streams; }
  // Breaks all connections: calls in flight end soon.
  void shut_down();
  // One round trip.
  Result<std::chrono::nanoseconds> probe();
  Result<void> notify(const Notification& notification);
  // The same without waiting for the answer; whether it arrived is told to `ended`, on any thread.
  void notify_later(const Notification& notification, std::function<void(Result<void>)> ended);

 private:
  explicit Peer(const PeerOptions& options);
  Result<void> refresh();
  bool gone() const;
  std::string notification_frame(const Notification& notification);
  void map_buffers(const RemoteDescription* before, RemoteDescription& description) const;
  // Sends a request without payload and waits for its answer, at most the connect time-out.
  Result<void> ask(wire::Op op, const google::protobuf::MessageLite& request,
                   google::protobuf::MessageLite& reply, std::uint64_t* incarnation = nullptr);

  struct Stream {
    std::mutex mutex;
    std::shared_ptr<rpc::Channel> channel;
    env::Nanos retry_at = 0;
    std::string last_error;
  };
  const PeerOptions options_;
  std::vector<std::unique_ptr<Stream>> streams_;  // HIGH ones first, then LOW ones
  mutable std::shared_mutex description_mutex_;
  std::shared_ptr<const RemoteDescription> description_;
  std::mutex refresh_mutex_;  // one refresh at a time
  std::atomic<env::Nanos> refresh_after_{0};
  std::atomic<env::Nanos> look_after_{0};
  std::atomic<std::uint64_t> latest_incarnation_{0};  // that any stream has met
};

}  // namespace larder::transfer
