// SPDX-License-Identifier: Apache-2.0
// get_into: through shared memory when the node is here, or from its disk; else one round trip
// whose payload is received straight into the destinations and checked on the way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "client/attachment.h"
#include "client/disk_reader.h"
#include "client/op.h"

namespace larder::pb {
class GetReply;
}

namespace larder::client {

class GetOp final : public Op, private rpc::PayloadSink {
 public:
  GetOp(ClientCore& core, std::vector<GetItem> items);
  // Into memory of the client's pool, taken when a value's size is known.
  GetOp(ClientCore& core, std::span<const std::string_view> keys);
  Result<bool> local_pass() override;
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  void on_end(const Error* error) override;
  void deliver(const Error* error) override;
  Intent own_intent() const noexcept override { return Intent::kForegroundPrefixFetch; }
  std::vector<GetResult>& result() noexcept { return results_; }
  std::vector<Value>& values() noexcept { return values_; }
  Callback<std::vector<GetResult>> done;

 private:
  // One value of the answer being received.
  struct Incoming {
    std::uint32_t item = 0;
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;
  };

  std::size_t next(std::span<iovec> into) override;
  void advance(std::size_t bytes) override;
  std::uint64_t room(std::uint32_t item) const noexcept;
  // A place for the value, when places are this operation's to find.
  Result<void> make_place(std::uint32_t item, std::uint64_t bytes);
  Result<void> make_places();
  Result<void> take_direct(const pb::GetReply& reply);
  void read_disks();
  bool read_local(std::uint32_t item, const Route& route, Attachment& attachment);
  void settle(std::uint32_t item, Code code, std::uint64_t size, std::string_view text);
  void finish_value();
  void again(std::uint32_t item);

  std::vector<GetItem> items_;
  const bool owned_;
  std::vector<Value> values_;         // owned_: the results' memory, and
  std::vector<MutableBytes> places_;  // what the items' pieces refer to
  std::vector<GetResult> results_;
  std::vector<std::uint8_t> tries_;     // rounds that an item went through in vain
  std::vector<std::uint32_t> pending_;  // items without a result
  std::vector<std::uint32_t> asked_;    // those in the round in flight
  bool scanned_ = false;                // the route cache was asked
  bool by_routes_ = false;              // the round asks for routes, not for bytes
  bool direct_ = false;                 // and for places on disks of this host, on remote ones
  bool direct_remote_ = false;
  bool inline_only_ = false;  // the node has no room in memory for what it reads from disk
  // To be read from disks, and which items those are.
  std::vector<DiskRead> disk_reads_;
  std::vector<std::uint32_t> disk_items_;
  std::vector<Incoming> incoming_;
  std::size_t at_ = 0;            // the value coming in
  std::uint64_t done_bytes_ = 0;  // of it
  std::size_t piece_ = 0;         // of its destination
  std::size_t piece_done_ = 0;
  Checksum64 sum_;
  // For the books: what came which way, and a record of the operation if it asked the node.
  struct Moved {
    std::uint64_t values = 0;
    std::uint64_t bytes = 0;
  };
  Moved copied_;
  Moved received_;
  Moved read_;         // from disks of this host
  Moved read_remote_;  // from others
  qos::ManagedTransfers::Transfer transfer_;
};

std::uint64_t room_of(const GetItem& item) noexcept;

}  // namespace larder::client
