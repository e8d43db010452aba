// SPDX-License-Identifier: Apache-2.0
#include "client/direct_list.h"

#include <limits>

#include "larder.pb.h"

namespace larder::client {
namespace {

constexpr std::uint32_t kExtentsMax = 64;  // of one value
constexpr int kDisksMax = 256;
constexpr std::uint32_t kNumberMax = 254;

tl::unexpected<Error> malformed() {
  return fail(Code::kCorrupt, "the node's list of values on disk is malformed");
}

Result<DirectItem> item_at(const pb::GetReply& reply, int i, int& extent) {
  const pb::DirectReads& list = reply.direct();
  DirectItem item;
  item.item = list.items(i);
  item.disk = list.files(i);
  const bool known = item.item < static_cast<std::uint32_t>(reply.codes_size()) &&
                     item.item < static_cast<std::uint32_t>(reply.sizes_size()) &&
                     item.disk < static_cast<std::uint32_t>(list.paths_size()) &&
                     list.extents(i) >= 1 && list.extents(i) <= kExtentsMax &&
                     static_cast<int>(list.extents(i)) <= list.offsets_size() - extent;
  if (!known || reply.codes(static_cast<int>(item.item)) != 0) return malformed();
  std::uint64_t bytes = 0;
  for (std::uint32_t n = 0; n < list.extents(i); ++n, ++extent) {
    const DiskExtent one{list.offsets(extent), list.lengths(extent)};
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (one.offset > kMost || one.bytes > kMost - one.offset || one.bytes > kMost - bytes) {
      return malformed();
    }
    bytes += one.bytes;
    item.extents.push_back(one);
  }
  if (bytes < reply.sizes(static_cast<int>(item.item))) return malformed();
  return item;
}

}  // namespace

Result<DirectList> direct_list(const pb::GetReply& reply) {
  const pb::DirectReads& list = reply.direct();
  const int count = list.items_size();
  const int disks = list.paths_size();
  const bool consistent = list.files_size() == count && list.extents_size() == count &&
                          list.offsets_size() == list.lengths_size() && disks <= kDisksMax &&
                          list.devices_size() == disks && list.inodes_size() == disks &&
                          list.ids_size() == disks && list.numbers_size() == disks;
  if (!consistent) return malformed();
  DirectList out;
  for (int i = 0; i < disks; ++i) {
    if (list.numbers(i) > kNumberMax) return malformed();
    out.disks.push_back(
        {list.numbers(i), list.paths(i), {list.devices(i), list.inodes(i)}, list.ids(i)});
  }
  int extent = 0;
  for (int i = 0; i < count; ++i) {
    LARDER_ASSIGN(DirectItem item, item_at(reply, i, extent));
    if (!out.items.empty() && out.items.back().item >= item.item) return malformed();
    out.items.push_back(std::move(item));
  }
  if (extent != list.offsets_size()) return malformed();
  return out;
}

}  // namespace larder::client
