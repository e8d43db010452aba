// SPDX-License-Identifier: Apache-2.0
// NUMA nodes by system calls and /sys, without libnuma. All functions from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/location.h"

namespace larder::platform {

// Numbers of the nodes that are online, ascending; {0} where the kernel tells of none. `root` is ""
// on a real host; tests give a folder that holds sys/.
std::vector<int> online_nodes(const std::string& root = {});
// "0-3,8" -> {0, 1, 2, 3, 8}. Nonsense, and numbers above kLocationIndexMax, give an empty list.
std::vector<int> parse_node_list(std::string_view text);

// Fills in for each page (any address within it) its node, or a negative errno where there is none:
// -ENOENT for a page that is not present. 0, or -errno when nothing could be asked.
using PageQuery = std::function<int(std::span<void*> pages, std::span<int> nodes)>;
int query_page_nodes(std::span<void*> pages, std::span<int> nodes);  // the kernel's answer

// Which node each part of a range is on: at most kRegionsMax regions from offset 0 to `bytes`. A
// page that is not present, or that the kernel does not tell about, has index -1. Of a range of
// more than 4096 pages as many are looked at, spread over it. Where there are more changes of node
// than regions, each region has the node that most of its pages are on.
std::vector<Region> probe_nodes(const void* ptr, std::uint64_t bytes, const PageQuery& query);

// Prefers that node for pages of the range that are touched later; they come from others when it is
// full. Where the kernel does not allow it (containers), nothing happens and the result is false.
bool prefer_node(void* ptr, std::uint64_t bytes, int node);

}  // namespace larder::platform
