// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "larder.pb.h"
#include "rpc/payload.h"
#include "rpc/service.h"
#include "transfer/memory_table.h"
#include "transfer/peer_service.h"

namespace larder::transfer {

// One range of a request, pinned while it is in use.
struct ServedItem {
  RangePin pin;
  std::byte* at = nullptr;
  std::uint64_t length = 0;
  Code code = Code::kOk;
  std::string text;
};

// The ranges that are sent, in order.
class ServedSource final : public rpc::PayloadSource {
 public:
  explicit ServedSource(std::vector<ServedItem> items) : items_(std::move(items)) {}
  std::size_t next(std::span<iovec> into) override;

 private:
  std::vector<ServedItem> items_;
  std::size_t item_ = 0;
};

// The ranges that are written to, in order; what is refused goes nowhere.
class ServedSink final : public rpc::PayloadSink {
 public:
  void reset(std::vector<ServedItem> items);
  std::size_t next(std::span<iovec> into) override;
  void advance(std::size_t bytes) override;
  // Ends the pins and gives the items' verdicts.
  std::vector<ServedItem> take();

 private:
  std::vector<ServedItem> items_;
  std::size_t item_ = 0;
  std::uint64_t done_ = 0;  // bytes of that item
  std::unique_ptr<std::byte[]> scratch_;
};

// One connection of a peer; one thread.
class PeerSession final : public rpc::Session {
 public:
  explicit PeerSession(PeerService& service) : service_(service) {}
  rpc::Intake on_request(const wire::FrameHeader& header, std::string_view body) override;
  rpc::Intake on_payload_end(const wire::FrameHeader& header) override;

 private:
  rpc::Reply info() const;
  Result<rpc::Reply> read(std::string_view body);
  Result<rpc::Reply> notify(std::string_view body);
  Result<void> begin_write(const wire::FrameHeader& header, std::string_view body);
  Result<std::vector<ServedItem>> pin_items(const pb::TransferRequest& request) const;

  PeerService& service_;
  pb::TransferRequest request_;
  ServedSink sink_;
};

}  // namespace larder::transfer
