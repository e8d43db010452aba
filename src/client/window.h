// SPDX-License-Identifier: Apache-2.0
// Memory of this client that the node may read: staging windows, shared buffers, read hints. The
// only memory that both sides of a connection map and that this side writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "env/clock.h"
#include "env/fd.h"
#include "larder/status.h"
#include "rpc/channel.h"
#include "tier/hot/segment.h"
#include "wire/window.h"

namespace larder::client {

class Window {
 public:
  // A sealed memfd with `data_bytes` for data, populated and offered to the node; it stays
  // registered while this object, and its connection, live.
  static Result<std::unique_ptr<Window>> create(const rpc::ChannelOptions& options,
                                                std::uint64_t data_bytes);

  std::uint64_t id() const noexcept { return id_; }
  // The node's incarnation that knows the id.
  std::uint64_t epoch() const noexcept { return epoch_; }
  std::byte* data() const noexcept { return memory_.data() + wire::kWindowDataAt; }
  std::uint64_t data_bytes() const noexcept { return memory_.bytes() - wire::kWindowDataAt; }
  // Descriptors that the node is done with, since the window was made.
  std::uint64_t consumed() const noexcept;
  // Notes that the object in `slot` was read. Any thread.
  void hint(std::uint32_t slot) noexcept;

 private:
  Window(tier::SharedMapping memory, rpc::Handshaken connection)
      : memory_(std::move(memory)),
        connection_(std::move(connection.fd)),
        id_(connection.value),
        epoch_(connection.epoch) {}
  wire::TouchRing& ring() const noexcept {
    return *reinterpret_cast<wire::TouchRing*>(memory_.data() + wire::kTouchRingAt);
  }

  tier::SharedMapping memory_;
  env::Fd connection_;
  const std::uint64_t id_;
  const std::uint64_t epoch_;
};

}  // namespace larder::client
