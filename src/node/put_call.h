// SPDX-License-Identifier: Apache-2.0
// A batch of values on its way in. Each value goes straight to reserved space; it is published as
// soon as its last byte and checksum are there, and its neighbours do not wait for it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "larder.pb.h"
#include "larder/client.h"
#include "node/store_core.h"
#include "rpc/payload.h"
#include "rpc/service.h"
#include "wire/keys.h"
#include "wire/window.h"

namespace larder::node {

class PutCall final : public rpc::PayloadSink {
 public:
  // `purpose`: why the values come.
  PutCall(StoreCore& core, qos::Purpose purpose);
  ~PutCall() override;

  // Checks the request as a whole; items are judged one by one later. `local`: the peer may name
  // shared memory. The body must outlive the call (it is parsed into `request`).
  Result<void> begin(const pb::PutRequest& request, const wire::KeyList& keys,
                     std::uint64_t payload_bytes, bool local);
  rpc::Reply finish();
  // After the payload. Some values found no room, but disks are taking others out of the way, and
  // the caller has time; or they replaced values that are on disk. Then answer_later() answers when
  // there may be room, and tells the caller to send those values again, and when no crash brings
  // the replaced ones back.
  bool must_wait(const wire::FrameHeader& header);
  static void answer_later(std::shared_ptr<PutCall> call, rpc::Responder responder);

  std::size_t next(std::span<iovec> into) override;
  void advance(std::size_t bytes) override;
  std::size_t weight() const noexcept override;

 private:
  enum class Fate : std::uint8_t {
    kUnseen,   // not looked at yet
    kStore,    // goes into its reservation
    kCompare,  // the key holds a value of this length, and there is no space to spare: hash only
    kRefused,  // let it pass
  };
  struct Item {
    route::KeyRef key;
    std::uint64_t length = 0;
    Fate fate = Fate::kUnseen;
    Code code = Code::kOk;
    std::uint32_t flags = 0;
    std::uint64_t version = 0;
    tier::Reservation space;
    route::EntryRef present;  // what the key leads to when the item was looked at
    std::string text;
  };

  void prepare(Item& item);
  void refuse(Item& item, Code code, std::string text);
  std::size_t plan_values(std::span<iovec> into);
  std::size_t plan_one(std::span<iovec> into);
  std::byte* trailer_of(std::size_t item) noexcept;
  void advance_values(std::size_t bytes);
  void advance_descriptors(std::size_t bytes);
  bool take_descriptor(const wire::Descriptor& descriptor);
  void value_bytes(const std::byte* at, std::uint64_t bytes);
  void complete_item(bool checksum_fits);
  void settle(Item& item, std::uint64_t checksum);
  void publish(Item& item, std::uint64_t checksum);
  void close_books();
  void end_items();
  Item& current() { return items_[at_]; }

  // Values whose places are given out together: small ones then share a system call.
  static constexpr std::size_t kPlannedItemsMax = 32;

  StoreCore& core_;
  const qos::Purpose purpose_;
  qos::ManagedTransfers::Transfer transfer_;  // fails with this object, if nothing ends it before
  PutMode mode_ = PutMode::kReplace;
  bool force_ = false;
  std::vector<Item> items_;
  std::size_t at_ = 0;            // the item that is coming in
  std::uint64_t done_ = 0;        // bytes of its value that are in
  std::size_t trailer_done_ = 0;  // bytes of its checksum that are in
  std::array<std::array<std::byte, sizeof(std::uint64_t)>, kPlannedItemsMax> trailers_{};
  Checksum64 sum_;
  std::unique_ptr<std::byte[]> scratch_;  // for values that are compared or refused
  std::shared_ptr<ClientBuffer> buffer_;  // set: the payload is descriptors
  std::array<wire::Descriptor, 4> descriptors_{};
  std::size_t descriptor_bytes_ = 0;
  struct Replaced {
    std::uint64_t version = 0;
    std::uint64_t place = 0;
  };
  std::vector<Replaced> replaced_;
  std::uint64_t room_wanted_ = 0;  // bytes of values that found none
  std::uint64_t room_least_ = 0;   // of the smallest of them
  env::Nanos room_wait_ = 0;       // how long the caller may be kept waiting for it
  bool retry_ = false;             // they are to be sent again
  bool ended_ = false;
  bool broken_ = false;  // descriptors that make no sense: everything from here on is refused
};

}  // namespace larder::node
