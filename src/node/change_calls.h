// SPDX-License-Identifier: Apache-2.0
// Removes and pins, some of whose objects have records on disks.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "node/pin_table.h"
#include "node/restore_batch.h"
#include "node/store_core.h"
#include "rpc/service.h"

namespace larder::node {

// A remove answers when the records are given up durably: no restart brings them back.
class RemoveCall {
 public:
  RemoveCall(StoreCore& core, std::size_t items) : core_(core) { items_.reserve(items); }
  // The next key; null: nothing is stored in its space.
  void add(const route::KeyRef* key);
  bool must_wait() const noexcept { return must_wait_; }
  rpc::Reply reply() const;
  static void answer_later(std::shared_ptr<RemoveCall> call, rpc::Responder responder);

 private:
  struct Item {
    route::EntryRef entry;  // being deleted; its record has to go first
    Code code = Code::kOk;
    std::string text;
  };
  void on_forgotten(Item& item, const Result<void>& result);

  StoreCore& core_;
  std::vector<Item> items_;
  bool must_wait_ = false;
  std::atomic<std::size_t> left_{0};
};

// A pin holds bytes in memory, so what is on disk alone is brought there first.
class PinCall {
 public:
  PinCall(StoreCore& core, std::shared_ptr<PinTable> pins, env::Nanos lease_end, std::size_t items)
      : core_(core), pins_(std::move(pins)), lease_end_(lease_end) {
    items_.reserve(items);
  }
  void add(route::EntryRef entry);
  bool must_wait() const noexcept { return must_wait_; }
  rpc::Reply reply();
  static void answer_later(std::shared_ptr<PinCall> call, qos::Purpose purpose,
                           rpc::Responder responder);

 private:
  struct Item {
    route::EntryRef entry;
    Code code = Code::kOk;
  };
  void take(std::vector<RestoreItem> restored);

  StoreCore& core_;
  const std::shared_ptr<PinTable> pins_;  // of the connection, which may close meanwhile
  const env::Nanos lease_end_;
  std::vector<Item> items_;
  bool must_wait_ = false;
};

}  // namespace larder::node
