// SPDX-License-Identifier: Apache-2.0
// Copies within the host's memory: this process's own, or a peer's that is mapped here.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "transfer/transport.h"
#include "transfer/two_class_queue.h"

namespace larder::transfer {

// Small copies are made by the submitting thread, through copy(); others by workers, and by threads
// that wait for them. HIGH goes first; LOW gets every eighth turn while HIGH lasts. Without workers
// the first thread that stops helping to sleep leaves one in its place: what comes later must not
// wait for another to come by.
class CopyTransport final : public Transport {
 public:
  // kMemcpy or kShm.
  CopyTransport(TransportType type, unsigned workers, PieceSink& sink);
  ~CopyTransport() override;

  TransportType type() const noexcept override { return type_; }
  TransportAbilities abilities() const noexcept override;
  void submit(std::span<const Piece* const> pieces) override;
  void cancel(PieceToken token) noexcept override;
  bool help() override;
  bool worth_polling() const override;
  void rest() override;
  bool drain(std::int64_t deadline) override;

  // kUnavailable: the target is not in this process, or its owner has taken it back.
  static Result<void> copy(Opcode opcode, std::byte* local, std::byte* near,
                           const SharedMapping* mapping, std::uint64_t bytes);

 private:
  const Piece* take();  // under the lock; null: nothing to do
  void run_worker();
  void run(const Piece& piece);
  void ended();

  const TransportType type_;
  PieceSink& sink_;
  mutable std::mutex mutex_;      // the rest
  std::condition_variable work_;  // workers sleep here and nobody else: a new piece wakes one
  std::condition_variable drained_;
  TwoClassQueue waiting_;
  unsigned running_ = 0;
  unsigned sleeping_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace larder::transfer
