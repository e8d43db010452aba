// SPDX-License-Identifier: Apache-2.0
// The keys of a lookup or match_prefix on their way out.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "rpc/payload.h"
#include "wire/key_stream.h"

namespace larder::client {

class KeySource final : public rpc::PayloadSource {
 public:
  // `keys` must outlive it.
  explicit KeySource(std::span<const std::string_view> keys);
  std::uint64_t payload_bytes() const noexcept { return bytes_; }
  std::size_t next(std::span<iovec> into) override;

 private:
  std::uint64_t bytes_;
  std::size_t room_;
  std::unique_ptr<std::byte[]> buffer_;
  wire::KeyWriter writer_;
};

}  // namespace larder::client
