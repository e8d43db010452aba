// SPDX-License-Identifier: Apache-2.0
// Operations that move no values: exists, match_prefix, remove, stat, pin, unpin, list, info.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/attachment.h"
#include "client/key_source.h"
#include "client/op.h"

namespace larder::pb {
class Routes;
}

namespace larder::client {

// The route of position `i` in a reply's arrays; version 0 when the arrays are too short.
Route route_at(const pb::Routes& routes, int i, std::uint64_t version, std::uint64_t length);

class ExistsOp final : public Op {
 public:
  ExistsOp(ClientCore& core, std::span<const std::string_view> keys);
  Result<bool> local_pass() override;
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  void deliver(const Error* error) override;
  std::vector<bool>& result() noexcept { return present_; }
  Callback<std::vector<bool>> done;

 private:
  std::span<const std::string_view> keys_;
  std::vector<bool> present_;
  std::vector<std::uint32_t> unknown_;  // items that the route cache could not answer
  std::vector<std::string_view> asked_;
  std::optional<KeySource> source_;
  bool all_unknown_ = false;  // no cache to ask: every key goes to the node
  bool answered_ = false;
  bool scanned_ = false;
};

class MatchOp final : public Op {
 public:
  MatchOp(ClientCore& core, std::span<const std::string_view> keys) : Op(core), keys_(keys) {}
  Result<bool> local_pass() override;
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  void deliver(const Error* error) override;
  PrefixMatch& result() noexcept { return match_; }
  Callback<PrefixMatch> done;

 private:
  std::span<const std::string_view> keys_;
  PrefixMatch match_;
  std::optional<KeySource> source_;
  bool answered_ = false;
};

class RemoveOp final : public Op {
 public:
  RemoveOp(ClientCore& core, std::span<const std::string_view> keys) : Op(core), keys_(keys) {}
  Result<bool> local_pass() override { return answered_; }
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  void deliver(const Error* error) override;
  // A repeated remove would answer "not found" for what the first one removed.
  bool repeatable() const noexcept override { return false; }
  std::vector<RemoveResult>& result() noexcept { return results_; }
  Callback<std::vector<RemoveResult>> done;

 private:
  std::span<const std::string_view> keys_;
  std::vector<RemoveResult> results_;
  bool answered_ = false;
};

class StatOp final : public Op {
 public:
  StatOp(ClientCore& core, std::span<const std::string_view> keys) : Op(core), keys_(keys) {}
  Result<bool> local_pass() override { return answered_; }
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  void deliver(const Error* error) override;
  std::vector<StatResult>& result() noexcept { return results_; }
  Callback<std::vector<StatResult>> done;

 private:
  std::span<const std::string_view> keys_;
  std::vector<StatResult> results_;
  bool answered_ = false;
};

class PinOp final : public Op {
 public:
  PinOp(ClientCore& core, std::span<const std::string_view> keys, std::uint64_t lease_ms)
      : Op(core), keys_(keys), lease_ms_(lease_ms) {}
  Result<bool> local_pass() override { return answered_; }
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  bool repeatable() const noexcept override { return false; }
  bool pinned_lane() const noexcept override { return true; }
  std::vector<Code>& result() noexcept { return codes_; }
  const std::vector<Route>& routes() const noexcept { return routes_; }

 private:
  std::span<const std::string_view> keys_;
  std::uint64_t lease_ms_;
  std::vector<Code> codes_;
  std::vector<Route> routes_;
  bool answered_ = false;
};

class UnpinOp final : public Op {
 public:
  UnpinOp(ClientCore& core, std::span<const std::string_view> keys) : Op(core), keys_(keys) {}
  // For a view that is let go: owns its key.
  UnpinOp(ClientCore& core, std::string key);
  Result<bool> local_pass() override { return answered_; }
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  bool repeatable() const noexcept override { return false; }
  bool pinned_lane() const noexcept override { return true; }
  std::vector<Code>& result() noexcept { return codes_; }

 private:
  std::string owned_;
  std::string_view owned_view_;
  std::span<const std::string_view> keys_;
  std::vector<Code> codes_;
  bool answered_ = false;
};

class ListOp final : public Op {
 public:
  ListOp(ClientCore& core, std::string_view prefix, std::uint64_t cursor, std::uint32_t limit)
      : Op(core), prefix_(prefix), cursor_(cursor), limit_(limit) {}
  Result<bool> local_pass() override { return answered_; }
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  ListPage& result() noexcept { return page_; }

 private:
  std::string_view prefix_;
  std::uint64_t cursor_;
  std::uint32_t limit_;
  ListPage page_;
  bool answered_ = false;
};

class InfoOp final : public Op {
 public:
  explicit InfoOp(ClientCore& core) : Op(core) {}
  Result<bool> local_pass() override { return answered_; }
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  NodeInfo& info() noexcept { return info_; }
  const std::string& socket() const noexcept { return socket_; }

 private:
  NodeInfo info_;
  std::string socket_;
  bool answered_ = false;
};

// The node's error as this side's, or none when the reply is good.
Result<void> check_reply(const wire::FrameHeader& header, std::string_view body);

}  // namespace larder::client
