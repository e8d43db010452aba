// SPDX-License-Identifier: Apache-2.0
// Host memory to and from a peer's, over the peer protocol. Pieces of one submit to one peer share
// frames; HIGH and LOW, and reads and large writes, have connections of their own.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transfer/peer.h"
#include "transfer/transport.h"
#include "transfer/write_lane.h"

namespace larder::transfer {

class TcpTransport final : public Transport {
 public:
  // `timeout`: of a piece whose request has no deadline: what a dead peer costs.
  TcpTransport(env::Nanos timeout, PieceSink& sink) : timeout_(timeout), sink_(sink) {}
  ~TcpTransport() override;

  TransportType type() const noexcept override { return TransportType::kTcp; }
  TransportAbilities abilities() const noexcept override;
  void submit(std::span<const Piece* const> pieces) override;
  void cancel(PieceToken token) noexcept override;
  bool help() override;
  bool look() override;
  bool worth_polling() const override;
  void rest() override;
  bool doze(int wake, std::int64_t deadline) override;
  bool drain(std::int64_t deadline) override;
  // The peer is let go of: its connections and lanes close. Not from a thread of theirs.
  void forget(const std::shared_ptr<Peer>& peer);
  bool knows(const Peer& peer) const;

 private:
  struct Lanes {
    std::shared_ptr<Peer> peer;
    std::vector<std::shared_ptr<WriteLane>> writes;  // HIGH ones, then LOW ones
  };
  // What a thread that lends itself looks through. Never changed, only replaced: a poll takes a
  // reference and no copy.
  struct Work {
    std::vector<std::shared_ptr<rpc::Channel>> channels;  // with calls in flight, or lately
    std::vector<std::shared_ptr<WriteLane>> lanes;
  };
  void start(std::vector<const Piece*> pieces);
  void send_now(Peer& peer, std::unique_ptr<TcpCall> call, unsigned stream);
  void send_later(const std::shared_ptr<Peer>& peer, std::unique_ptr<TcpCall> call);
  std::shared_ptr<WriteLane> lane_for(const std::shared_ptr<Peer>& peer,
                                      TrafficClass traffic_class);
  void use(std::shared_ptr<rpc::Channel> channel);
  std::shared_ptr<const Work> work() const;
  void replace_lanes();
  static bool look(const Work& work);

  const env::Nanos timeout_;
  PieceSink& sink_;
  std::atomic<unsigned> next_{0};
  mutable std::mutex mutex_;  // the rest
  std::map<const Peer*, std::unique_ptr<Lanes>> lanes_;
  std::shared_ptr<const Work> work_ = std::make_shared<Work>();
};

}  // namespace larder::transfer
