// SPDX-License-Identifier: Apache-2.0
// Transfers that somebody else than a transport of the transfer engine carries out, in the engine's
// books all the same: with an intent, a class, and the engine's series. The store's values are
// such: they travel in the store's own frames, because there a get is one round trip and a put is
// hashed on its way in, where a read or write by the engine would need a second round trip and a
// second pass; this is option B of seed 003 (executors stay, the books are one).
//
// What moves beside the books shows as larder_unmanaged_transfer_bytes: the difference between what
// a path moved, counted at its lowest level, and what the books know of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "obs/metrics.h"
#include "qos/telemetry.h"

namespace larder::qos {

// Why the bytes of a frame, or of an operation on a disk, move. Of a disk unknown (and LOW) is what
// a store reads for itself: superblocks, the scan at the start, the scrubber. An intent of theirs
// would be one that callers can give and that travels; it is not needed to tell them from the rest,
// since a get of unknown intent (by others than our clients) shows in the books, and they do not.
//
// Numbers that are none are an unknown intent's; a class that is none is the intent's own.
struct Purpose {
  Intent intent = Intent::kUnknown;
  TrafficClass traffic_class = TrafficClass::kLow;  // never kFromIntent
};
Purpose purpose_of(std::uint8_t intent, std::uint8_t traffic_class) noexcept;

// Any thread.
class ManagedTransfers {
 public:
  // `registry` null: one of its own.
  explicit ManagedTransfers(obs::Registry* registry) : telemetry_(registry) {}

  // One of them, under way: in flight until it ends, and failed unless it completed before.
  class Transfer {
   public:
    Transfer() = default;
    Transfer(Transfer&& other) noexcept;
    Transfer& operator=(Transfer&& other) noexcept;
    ~Transfer() { end(Outcome::kFailed); }
    explicit operator bool() const noexcept { return books_ != nullptr; }
    // `requests` values, of `bytes` in all, are where they should be.
    void completed(std::uint64_t requests, std::uint64_t bytes);
    void end(Outcome outcome) noexcept;

   private:
    friend class ManagedTransfers;
    Transfer(ManagedTransfers& books, const Label& label);
    ManagedTransfers* books_ = nullptr;
    Label label_;
    std::int64_t begun_ = 0;
  };
  Transfer begin(const Label& label) { return Transfer(*this, label); }
  // What is over too soon to be watched: counted only.
  void completed(const Label& label, std::uint64_t requests, std::uint64_t bytes);
  void failed(const Label& label, std::uint64_t requests);

  // `bytes` of payload took `resource` under these books.
  void know(Resource resource, std::uint64_t bytes) noexcept {
    known_[static_cast<std::size_t>(resource)].fetch_add(bytes, std::memory_order_relaxed);
  }
  // Exports larder_unmanaged_transfer_bytes{path, resource}: what `moved` counts and know() was not
  // told. `moved` is asked at each scrape, while the handle lives.
  Result<obs::CallbackHandle> export_unmanaged(std::string_view path, Resource resource,
                                               std::function<std::uint64_t()> moved);
  // The same for what a server receives (kNicRx) and sends (kNicTx) as payload; both outlive the
  // handles.
  Result<std::array<obs::CallbackHandle, 2>> export_unmanaged_payload(
      std::string_view path, const std::atomic<std::uint64_t>& in,
      const std::atomic<std::uint64_t>& out);
  obs::Registry& registry() noexcept { return telemetry_.registry(); }

 private:
  Telemetry telemetry_;
  std::array<std::atomic<std::uint64_t>, kResourceCount> known_{};
};

}  // namespace larder::qos
