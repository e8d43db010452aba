// SPDX-License-Identifier: Apache-2.0
// Pieces that travel to one peer in one frame.
#pragma once

#include <memory>
#include <vector>

#include "rpc/channel.h"
#include "rpc/payload.h"
#include "transfer/transport.h"

namespace larder::transfer {

// Lives until its answer came, or could not come: then every piece has ended, and it destroys
// itself. One direction, one class, one incarnation of one peer.
class TcpCall : public rpc::Call {
 public:
  // `pieces`: 1 to wire::kTransferItemsMax.
  static std::unique_ptr<TcpCall> make(std::vector<const Piece*> pieces, PieceSink& sink);
  ~TcpCall() override = default;

  // Sends itself; by then it may be gone already.
  static void send(std::unique_ptr<TcpCall> call, rpc::Channel& channel, env::Nanos timeout,
                   rpc::Attendance attendance);
  // Ends it without having been sent.
  static void fail_all(std::unique_ptr<TcpCall> call, const Error& error);

  Opcode opcode() const noexcept { return pieces_.front()->opcode; }
  TrafficClass traffic_class() const noexcept { return pieces_.front()->traffic_class; }
  std::int64_t deadline() const noexcept { return pieces_.front()->deadline; }
  bool attended() const noexcept { return pieces_.front()->attended; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::size_t pieces() const noexcept { return pieces_.size(); }
  bool holds(PieceToken token) const noexcept;

 protected:
  TcpCall(std::vector<const Piece*> pieces, PieceSink& sink);
  rpc::PayloadSink* on_reply(const wire::FrameHeader& reply, std::string_view body) override;
  void on_done(const Error* error) override;
  // What is sent, and where the answer goes; null: nothing.
  virtual rpc::PayloadSource* payload() { return nullptr; }
  virtual rpc::PayloadSink* destination(std::uint64_t bytes) { return nullptr; }
  // Pieces that the peer has accepted, in order.
  std::vector<const Piece*> accepted() const;

  std::vector<const Piece*> pieces_;

 private:
  PieceSink& sink_;
  std::uint64_t bytes_ = 0;
  std::vector<std::unique_ptr<Error>> errors_;  // by piece; empty: none
  std::unique_ptr<Error> error_;                // of all
};

}  // namespace larder::transfer
