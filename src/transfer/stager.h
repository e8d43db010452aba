// SPDX-License-Identifier: Apache-2.0
// Device memory by way of the host, for a transport that reaches host memory only.
//
// A piece goes through one of a few buffers: a write is copied out of the device and then handed to
// the transport, a read comes from the transport and is then copied in. Pieces are in different
// halves at the same time, so copy engine and transport both stay busy. The half that the transport
// does has the piece's own class, intent, deadline and incarnation.
//
// One that is cancelled ends when its half has: a copy is soon over, and the transport is asked to
// give it up. It does not go on to the other half.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "platform/platform_set.h"
#include "transfer/transport.h"
#include "transfer/two_class_queue.h"

namespace larder::transfer {

struct StagerOptions {
  std::uint64_t buffer_bytes = 1 << 20;  // a piece's limit
  unsigned buffers = 16;                 // pieces under way; others wait for one
};

class Stager final : public Transport {
 public:
  // Platforms and sink outlive it. set_inner() comes before the first piece. kExhausted: no memory
  // for the buffers.
  static Result<std::unique_ptr<Stager>> create(const StagerOptions& options,
                                                const platform::PlatformSet& platforms,
                                                PieceSink& sink);
  ~Stager() override;
  void set_inner(std::unique_ptr<Transport> inner) { inner_ = std::move(inner); }
  // Where the inner transport's pieces end.
  PieceSink& inner_sink() noexcept { return ends_; }

  TransportType type() const noexcept override { return inner_->type(); }
  TransportAbilities abilities() const noexcept override;
  void submit(std::span<const Piece* const> pieces) override;
  void cancel(PieceToken token) noexcept override;
  bool drain(std::int64_t deadline) override;

 private:
  // One buffer, and the piece that is in it.
  struct Place {
    std::byte* buffer = nullptr;
    const Piece* outer = nullptr;  // null: free
    Piece inner;
    std::uint32_t generation = 0;
    bool with_transport = false;  // under the lock, as is the next
    bool cancelled = false;
    std::unique_ptr<Error> error;
  };
  class Ends final : public PieceSink {
   public:
    explicit Ends(Stager& stager) : stager_(stager) {}
    void piece_done(PieceToken token, const Error* error) noexcept override {
      stager_.inner_done(token, error);
    }

   private:
    Stager& stager_;
  };

  Stager(const StagerOptions& options, const platform::PlatformSet& platforms, PieceSink& sink);
  void inner_done(PieceToken token, const Error* error) noexcept;
  void run();
  bool start_some();
  void begin(std::uint32_t index);
  bool take_back(PieceToken token);
  void hand_out();
  void cancel_again(std::uint32_t index);
  void drop(std::uint32_t index);
  void copy(std::uint32_t index);
  void after_inner(std::uint32_t index);
  std::size_t finish_copies();
  void finish(std::uint32_t index);
  Result<platform::CopyEngine*> engine_for(MemoryType type);

  const StagerOptions options_;
  const platform::PlatformSet& platforms_;
  PieceSink& sink_;
  Ends ends_{*this};
  platform::Allocation memory_;
  std::vector<Place> places_;  // the worker's own, but for what inner_done() says
  std::map<MemoryType, std::unique_ptr<platform::CopyEngine>> engines_;
  std::vector<platform::HostPin> pins_;
  std::size_t copies_ = 0;               // under way
  std::vector<std::uint32_t> outgoing_;  // places that go to the transport next

  std::mutex mutex_;  // the rest
  std::condition_variable changed_;
  std::condition_variable drained_;
  TwoClassQueue waiting_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> moved_;  // places that the transport is done with
  std::size_t unfinished_ = 0;
  bool stopping_ = false;
  std::thread thread_;
  std::unique_ptr<Transport> inner_;  // goes first: it writes into the buffers
};

}  // namespace larder::transfer
