// SPDX-License-Identifier: Apache-2.0
// Three ways for values to leave: in the stream with their checksums, through the staging window,
// or from a shared buffer where they lie.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "client/pool.h"
#include "larder/client.h"
#include "rpc/payload.h"

namespace larder::client {

class PutSource : public rpc::PayloadSource {
 public:
  explicit PutSource(std::vector<PutItem> items) : items_(std::move(items)) {}
  virtual std::uint64_t payload_bytes() const noexcept = 0;

 protected:
  // The next bytes of the present value, at most `limit`, in one piece; empty at the value's end.
  ConstBytes take(std::size_t limit) noexcept;
  bool at_end() const noexcept { return item_ == items_.size(); }
  bool value_ended() const noexcept { return piece_ == items_[item_].pieces.size(); }
  void next_value() noexcept;

  std::vector<PutItem> items_;
  std::size_t item_ = 0;
  std::size_t piece_ = 0;
  std::size_t offset_ = 0;
};

// value, checksum, value, checksum, ... Each piece is hashed just before the kernel copies it.
class InlineSource final : public PutSource {
 public:
  explicit InlineSource(std::vector<PutItem> items) : PutSource(std::move(items)) {}
  std::uint64_t payload_bytes() const noexcept override;
  std::size_t next(std::span<iovec> into) override;

 private:
  Checksum64 sum_;
  std::array<std::uint64_t, 64> trailers_{};
};

// Copies values into the lane's window, chunk by chunk, and tells the node about each: the node
// copies one chunk while the next is staged. The window is a ring of chunk-sized places.
class StagedSource final : public PutSource {
 public:
  StagedSource(std::vector<PutItem> items, Lane& lane, Window& window, env::Nanos deadline);
  std::uint64_t payload_bytes() const noexcept override;
  std::size_t next(std::span<iovec> into) override;

 private:
  bool wait_for_place();
  std::uint32_t stage(std::byte* to) noexcept;

  Lane& lane_;
  Window& window_;
  const env::Nanos deadline_;
  wire::Descriptor descriptor_;
};

// Values that lie in a shared buffer: only their places travel.
class SharedSource final : public PutSource {
 public:
  SharedSource(std::vector<PutItem> items, const Window& buffer);
  std::uint64_t payload_bytes() const noexcept override;
  std::size_t next(std::span<iovec> into) override;

 private:
  const std::byte* base_;
  std::array<wire::Descriptor, 64> batch_{};
};

}  // namespace larder::client
