// SPDX-License-Identifier: Apache-2.0
// One connection's requests. Messages are kept and reused, so that a steady stream allocates
// little.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "larder.pb.h"
#include "node/lookup_call.h"
#include "node/put_call.h"
#include "node/store_core.h"
#include "rpc/service.h"
#include "wire/keys.h"

namespace larder::node {

class DeviceCalls;

class NodeSession final : public rpc::Session {
 public:
  NodeSession(StoreCore& core, DeviceCalls& device_calls, const rpc::Peer& peer);
  rpc::Intake on_request(const wire::FrameHeader& header, std::string_view body) override;
  rpc::Intake on_payload_end(const wire::FrameHeader& header) override;

 private:
  Result<rpc::Intake> dispatch(const wire::FrameHeader& header, std::string_view body);
  // Requests with payload: put, lookup and match_prefix.
  Result<rpc::PayloadSink*> begin(const wire::FrameHeader& header, std::string_view body);
  Result<rpc::PayloadSink*> begin_put(const wire::FrameHeader& header, std::string_view body);
  template <class Request>
  Result<rpc::PayloadSink*> begin_lookup(const wire::FrameHeader& header, std::string_view body,
                                         LookupKind kind);
  Result<rpc::Intake> get(const wire::FrameHeader& header, std::string_view body);
  Result<rpc::Intake> remove(std::string_view body);
  Result<rpc::Reply> stat(std::string_view body);
  Result<rpc::Intake> pin(const wire::FrameHeader& header, std::string_view body);
  Result<rpc::Reply> unpin(std::string_view body);
  Result<rpc::Reply> list(std::string_view body);
  Result<rpc::Reply> info(std::string_view body);

  // Answered later, by another thread; errors that are known at once are returned.
  Result<rpc::Intake> devices(std::string_view body);

  // Resolves the keys of a request into refs_. False: nothing is stored in that key space.
  Result<bool> resolve(const pb::Keys& keys);
  route::EntryRef find_ahead(std::size_t index);
  tier::DirectWish direct_wish() const;

  StoreCore& core_;
  DeviceCalls& device_calls_;
  const bool local_;
  const bool may_change_devices_;
  std::shared_ptr<PinTable> pins_;
  wire::KeyList keys_;
  std::vector<route::KeyRef> refs_;
  pb::PutRequest put_request_;
  std::unique_ptr<PutCall> put_;
  std::unique_ptr<LookupCall> lookup_;
  env::Nanos started_ = 0;
  pb::GetRequest get_request_;
};

}  // namespace larder::node
