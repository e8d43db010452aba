// SPDX-License-Identifier: Apache-2.0
// One lookup or match_prefix in the making: keys are looked up as they come in.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "larder.pb.h"
#include "node/store_core.h"
#include "rpc/payload.h"
#include "rpc/service.h"
#include "wire/key_stream.h"

namespace larder::node {

enum class LookupKind : std::uint8_t {
  kEach,    // a bit for every key
  kPrefix,  // how many are there from the front without a gap
};

// One connection's thread.
class LookupCall final : public rpc::PayloadSink {
 public:
  LookupCall(StoreCore& core, LookupKind kind) : core_(core), kind_(kind) {}
  // The request without its keys: what is wrong with it ends the call, not the connection.
  Result<void> begin(const pb::Keys& keys, bool with_routes, std::uint64_t payload_bytes);
  std::size_t next(std::span<iovec> into) override;
  void advance(std::size_t bytes) override;
  // After the last key.
  Result<rpc::Reply> finish();

 private:
  static constexpr std::size_t kStep = 128;

  void look_up();
  void found(std::uint32_t index, const route::RouteView& view);
  template <class Reply>
  void add_route(const route::RouteView& view, Reply& reply);

  StoreCore& core_;
  const LookupKind kind_;
  bool with_routes_ = false;
  bool known_ = false;  // the key space holds something
  bool gap_ = false;    // kPrefix: a key was not there, the rest does not matter
  route::Space space_;
  std::optional<wire::KeyReader> reader_;
  std::uint32_t at_ = 0;  // keys looked up
  std::size_t waiting_ = 0;
  std::array<route::KeyRef, kStep> refs_;
  std::array<route::RouteView, kStep> views_;
  pb::LookupReply each_;
  pb::MatchReply prefix_;
};

}  // namespace larder::node
