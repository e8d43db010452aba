// SPDX-License-Identifier: Apache-2.0
// What a get's answer says of values that the client reads from disks itself, checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/readable_disks.h"
#include "larder/status.h"

namespace larder::pb {
class GetReply;
}

namespace larder::client {

struct DirectItem {
  std::uint32_t item = 0;
  std::uint32_t disk = 0;  // an index into DirectList::disks
  std::vector<DiskExtent> extents;
};
struct DirectList {
  std::vector<DiskName> disks;
  std::vector<DirectItem> items;  // ascending
};

// kCorrupt: it contradicts itself, or the rest of the answer, which has `codes` and `sizes` of all
// items.
Result<DirectList> direct_list(const pb::GetReply& reply);

}  // namespace larder::client
