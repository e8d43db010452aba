// SPDX-License-Identifier: Apache-2.0
// A local node's memory as a client sees it: read-only, and checked around every copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/window.h"
#include "env/fd.h"
#include "env/page_warmer.h"
#include "larder/client.h"
#include "larder/status.h"
#include "rpc/channel.h"
#include "tier/hot/fence.h"
#include "tier/hot/segment.h"

namespace larder::client {

// Where a value lies, as the node said at some time. Believed only while its version word agrees.
struct Route {
  std::uint64_t version = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t slot = 0;
  std::uint16_t segment = 0;
};

// Copies `bytes` over the pieces, in order; they have room for them.
void scatter(const std::byte* from, std::uint64_t bytes, std::span<const MutableBytes> pieces);

// Any thread. Lives as long as anybody uses it, also beyond the node's death: valid() then says no.
class Attachment {
 public:
  static Result<std::shared_ptr<Attachment>> open(const rpc::ChannelOptions& options);

  std::uint64_t epoch() const noexcept { return epoch_; }
  // The node's incarnation is still the one that was attached to.
  bool current() const noexcept { return fence_.epoch() == epoch_; }
  // The connection to it still stands; costs a system call.
  bool node_alive() const noexcept;
  // The object is still what the route says. True is a fact at the moment of the call.
  bool valid(const Route& route) const noexcept;
  // Copies the value. False: it was removed, replaced or evicted meanwhile; what is in the
  // destination then means nothing.
  bool read(const Route& route, std::span<const MutableBytes> into) const noexcept;
  // In place; the caller holds a pin.
  const std::byte* data(const Route& route) const noexcept;
  // Tells the node that the object in `slot` was read.
  void hint(std::uint32_t slot) const noexcept { hints_->hint(slot); }
  // Within the mapped memory? Routes come from a peer: checked once, when they arrive.
  bool plausible(const Route& route) const noexcept;

 private:
  Attachment(env::Fd connection, tier::FenceView fence, tier::MappedSegment slots,
             std::vector<tier::MappedSegment> segments, std::unique_ptr<Window> hints,
             std::uint64_t epoch)
      : connection_(std::move(connection)),
        fence_(std::move(fence)),
        slots_(std::move(slots)),
        segments_(std::move(segments)),
        hints_(std::move(hints)),
        epoch_(epoch) {}
  const std::atomic<std::uint64_t>& word(std::uint32_t slot) const noexcept;

  env::Fd connection_;
  tier::FenceView fence_;
  tier::MappedSegment slots_;
  std::vector<tier::MappedSegment> segments_;
  std::unique_ptr<Window> hints_;
  const std::uint64_t epoch_;
  std::vector<std::unique_ptr<env::PageWarmer>> warmers_;  // of the segments: gone before them
};

}  // namespace larder::client
