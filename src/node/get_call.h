// SPDX-License-Identifier: Apache-2.0
// One get: what its keys lead to, and the answer made of that.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/restore_batch.h"
#include "node/store_core.h"
#include "rpc/service.h"
#include "wire/frame.h"

namespace larder::node {

struct GetItem {
  route::EntryRef entry;                   // empty: nothing is there
  std::optional<tier::DirectPlace> place;  // the caller reads it
  tier::RestoredRef value;
  std::uint64_t room = 0;  // what the caller has for it
  Code code = Code::kNotFound;
  std::string text;
};

class GetCall {
 public:
  struct Mode {
    bool routes_only = false;  // no bytes: where they are in shared memory
    tier::DirectWish direct;   // or on disks
  };
  GetCall(StoreCore& core, const wire::FrameHeader& header, const Mode& mode, std::size_t items)
      : core_(core), header_(header), routes_only_(mode.routes_only), wish_(mode.direct) {
    items_.reserve(items);
  }
  // The next key. `fits`: it is one.
  void add(route::EntryRef entry, bool fits, std::uint64_t room);
  // Some values are on disk, and have to be read first.
  bool must_wait() const noexcept { return must_wait_; }
  // The answer from what is in memory.
  rpc::Reply reply();
  // Reads what is on disk, then answers. Of a large batch the first group is answered, while the
  // rest is being read into DRAM already, so that the disk and the way to the client work at the
  // same time: the caller asks for that again.
  static void answer_later(std::shared_ptr<GetCall> call, rpc::Responder responder);

  static constexpr std::uint64_t kGroupBytes = 8U << 20U;
  static constexpr std::uint64_t kAheadBytes = 64U << 20U;  // and an eighth of DRAM at most

 private:
  void judge(GetItem& item);
  bool waits(const GetItem& item) const;
  std::vector<route::EntryRef> put_off();
  std::vector<std::size_t> choose_group(std::vector<route::EntryRef>& ahead);
  void take(const std::vector<std::size_t>& group, std::vector<RestoreItem> restored);

  StoreCore& core_;
  const wire::FrameHeader header_;
  const bool routes_only_;
  const tier::DirectWish wish_;
  std::vector<GetItem> items_;
  std::uint64_t payload_bytes_ = 0;
  bool must_wait_ = false;
  bool has_places_ = false;
  bool again_ = false;        // some items are to be asked for again
  bool inline_only_ = false;  // by their bytes
};

}  // namespace larder::node
