// SPDX-License-Identifier: Apache-2.0
// Values of a request that are on disk, brought into memory together.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "node/store_core.h"
#include "tier/cold/restorer.h"

namespace larder::node {

struct RestoreItem {
  // In: a route without a hot copy. Out: as it is now; with a hot copy, if it got one.
  route::EntryRef entry;
  tier::RestoredRef value;  // out, with kOk and an entry without a hot copy: the bytes
  // kOk; kNotFound: gone, or lost with its disk; else as Restorer::restore().
  Code code = Code::kOk;
  std::string text;
};

// Alive until the last of its reads has ended.
class RestoreBatch : public std::enable_shared_from_this<RestoreBatch> {
 public:
  using Done = std::function<void(std::vector<RestoreItem>)>;

  // `done` is called once, on whatever thread ends the last read; at once when there is none.
  static void run(StoreCore& core, std::vector<RestoreItem> items, qos::Purpose purpose,
                  bool into_dram, Done done);

 private:
  RestoreBatch(StoreCore& core, std::vector<RestoreItem> items, qos::Purpose purpose,
               bool into_dram, Done done);
  void read(std::size_t i, int tries);
  void on_read(std::size_t i, int tries, Result<tier::RestoredRef> result);
  void look_again(std::size_t i, int tries);
  void one_less();

  StoreCore& core_;
  std::vector<RestoreItem> items_;
  const qos::Purpose purpose_;
  const bool into_dram_;
  Done done_;
  std::atomic<std::size_t> left_;
};

}  // namespace larder::node
