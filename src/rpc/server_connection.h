// SPDX-License-Identifier: Apache-2.0
// One accepted connection: handshake, then frames. Lives on one reactor thread.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "env/clock.h"
#include "env/fd.h"
#include "larder/status.h"
#include "rpc/frame_receiver.h"
#include "rpc/mailbox.h"
#include "rpc/server.h"
#include "rpc/service.h"
#include "wire/handshake.h"

namespace larder::rpc {

// Tells a peer that was just accepted why it cannot stay, as far as its socket takes that at once;
// the caller closes the socket then.
void turn_away(int fd, const ServerOptions& options, const Error& error);

class ServerConnection final : private FrameObserver {
 public:
  ServerConnection(env::Fd fd, Peer peer, const ServerOptions& options, Service& service,
                   ServerCounters& counters, std::shared_ptr<Mailbox> mailbox, env::Nanos now);
  ~ServerConnection() override;

  int fd() const noexcept { return fd_.get(); }
  // Handles what the socket has. False: the connection is over. `worked` tells whether bytes came.
  bool on_readable(env::Nanos now, bool& worked);
  bool on_writable(env::Nanos now);
  // The answer to a call that was passed on. False: the connection is over.
  bool on_late_reply(const wire::FrameHeader& request, Reply reply, env::Nanos now);
  bool wants_write() const noexcept { return !outbound_.empty(); }
  // Paused while the peer does not take its answers, or too many are still to come: the bound on
  // what we hold for it.
  bool wants_read() const noexcept {
    return outbound_.size() + outstanding_ < kOutboundMax && outbound_bytes_ < kOutboundBytesMax;
  }
  bool expired(env::Nanos now) const noexcept;
  // Nothing half done: no request half read or unanswered, no answer half sent.
  bool idle() const noexcept;

 private:
  enum class State : std::uint8_t { kHello, kProof, kDescriptor, kFrames, kHold };
  struct Outbound {
    std::string frame;
    std::unique_ptr<PayloadSource> payload;
    std::array<iovec, 64> pieces;  // written before read
    std::span<iovec> left;
    bool frame_taken = false;
  };

  Result<void> handshake();
  Result<bool> read_handshake(std::size_t bytes);
  Result<void> on_hello();
  Result<void> on_proof();
  Result<void> on_admitted();
  Result<void> on_descriptor();
  Result<void> hold();
  Result<void> send_handshake(std::span<const std::byte> bytes);
  void refuse(const Error& error, std::atomic<std::uint64_t>& counter);
  void send_verdict(Code code, std::uint64_t value, const std::string& text);

  Result<PayloadSink*> on_frame(const wire::FrameHeader& header, std::string_view body) override;
  Result<void> on_payload_end() override;
  bool accepts_frames() const noexcept override { return wants_read(); }
  void answer(Intake intake, const wire::FrameHeader& request);
  void pass_on(const std::function<void(Responder)>& later, const wire::FrameHeader& request);
  bool resume();
  void queue(Reply reply, const wire::FrameHeader& request);
  bool flush();
  void retire_front();

  static constexpr std::size_t kOutboundMax = 64;
  static constexpr std::size_t kOutboundBytesMax = 16 << 20;  // of frames; payload is not copied

  env::Fd fd_;
  Peer peer_;
  const ServerOptions& options_;
  Service& service_;
  ServerCounters& counters_;
  std::shared_ptr<Mailbox> mailbox_;
  State state_ = State::kHello;
  env::Nanos last_progress_;
  std::array<std::byte, wire::kClientHelloBytes> hello_bytes_{};
  std::size_t hello_filled_ = 0;
  wire::ClientHello client_hello_;
  wire::ServerHello server_hello_;
  FrameReceiver receiver_;
  std::unique_ptr<Session> session_;
  std::shared_ptr<void> buffer_;  // kBuffer connections: keeps the client's memory mapped
  wire::FrameHeader current_;
  std::optional<Reply> held_;  // a refusal that waits for its payload to pass
  std::unique_ptr<Outbound> spare_;
  std::deque<std::unique_ptr<Outbound>> outbound_;
  std::size_t outbound_bytes_ = 0;
  std::shared_ptr<ReplyLine> line_;  // null until a call is passed on
  std::size_t outstanding_ = 0;      // calls passed on and not yet answered
};

}  // namespace larder::rpc
