// SPDX-License-Identifier: Apache-2.0
#include "platform/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <map>

#include "base/units.h"
#include "platform/platform.h"

namespace larder::platform {
namespace {

constexpr std::uint64_t kSamplesMax = 4096;
constexpr int kPreferred = 1;  // MPOL_PREFERRED
constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);

// The pages of a range, cut into equal spans of which one page each is looked at.
struct Samples {
  std::uintptr_t begin = 0;  // the range
  std::uint64_t bytes = 0;
  std::uint64_t pages = 0;
  std::uint64_t count = 0;  // spans

  Samples(const void* ptr, std::uint64_t length)
      : begin(reinterpret_cast<std::uintptr_t>(ptr)), bytes(length) {
    pages = (begin + bytes - 1) / kPageBytes - begin / kPageBytes + 1;
    count = std::min(pages, kSamplesMax);
  }
  std::uint64_t first_page(std::uint64_t span) const { return span * pages / count; }
  // Any page of the span, but not always the first: interleaved nodes repeat with the page number.
  std::uint64_t page_of(std::uint64_t span) const {
    const std::uint64_t first = first_page(span);
    const std::uint64_t width = first_page(span + 1) - first;
    return first + (span * 0x9E3779B97F4A7C15ULL >> 32U) % width;
  }
  void* address(std::uint64_t page) const {
    return reinterpret_cast<void*>((begin / kPageBytes + page) * kPageBytes);
  }
  // Bytes of the range before a span.
  std::uint64_t offset(std::uint64_t span) const {
    if (span == 0) return 0;
    if (span == count) return bytes;
    return (begin / kPageBytes + first_page(span)) * kPageBytes - begin;
  }
};

std::vector<int> label(const Samples& samples, const PageQuery& query) {
  std::vector<void*> pages(samples.count);
  for (std::uint64_t i = 0; i < samples.count; ++i) {
    pages[i] = samples.address(samples.page_of(i));
  }
  std::vector<int> nodes(samples.count, -1);
  if (query(pages, nodes) != 0) std::fill(nodes.begin(), nodes.end(), -1);
  // Among others -ENOENT (not present) and -EFAULT (also for a page of zeros that was only read).
  std::replace_if(
      nodes.begin(), nodes.end(), [](int node) { return node < 0; }, -1);
  return nodes;
}

// The label that most have; a known node before none.
int majority(std::span<const int> nodes) {
  if (nodes.size() == 1) return nodes.front();
  std::map<int, std::size_t> votes;
  for (const int node : nodes) ++votes[node];
  int best = nodes.front();
  for (const auto& [node, count] : votes) {
    if (count > votes[best] || (count == votes[best] && best < 0)) best = node;
  }
  return best;
}

void append(std::vector<Region>& regions, std::uint64_t begin, std::uint64_t end, int node) {
  if (!regions.empty() && regions.back().location.index == node) {
    regions.back().bytes += end - begin;
  } else {
    regions.push_back({begin, end - begin, {MemoryType::kCpu, node}});
  }
}

// Cuts the spans into `pieces`, then joins neighbours on one node.
std::vector<Region> join(const Samples& samples, const std::vector<int>& nodes,
                         std::uint64_t pieces) {
  std::vector<Region> regions;
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const std::uint64_t first = piece * samples.count / pieces;
    const std::uint64_t last = (piece + 1) * samples.count / pieces;
    const int node = majority(std::span(nodes).subspan(first, last - first));
    append(regions, samples.offset(first), samples.offset(last), node);
  }
  return regions;
}

}  // namespace

std::vector<int> parse_node_list(std::string_view text) {
  std::vector<int> nodes;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const auto first = base::parse_u64(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : base::parse_u64(part.substr(dash + 1));
    if (!first || !last || *last > kLocationIndexMax || *first > *last) return {};
    if (!nodes.empty() && static_cast<int>(*first) <= nodes.back()) return {};
    for (std::uint64_t node = *first; node <= *last; ++node) {
      nodes.push_back(static_cast<int>(node));
    }
  }
  return nodes;
}

std::vector<int> online_nodes(const std::string& root) {
  std::ifstream in(root + "/sys/devices/system/node/online");
  std::array<char, 4096> text{};
  in.read(text.data(), text.size());
  const auto got = static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0));
  std::vector<int> nodes = parse_node_list({text.data(), got});
  return nodes.empty() ? std::vector<int>{0} : nodes;
}

int query_page_nodes(std::span<void*> pages, std::span<int> nodes) {
  // Without a list of nodes the call moves nothing and only answers.
  const long rc =
      ::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0);
  return rc == 0 ? 0 : -errno;
}

std::vector<Region> probe_nodes(const void* ptr, std::uint64_t bytes, const PageQuery& query) {
  const Samples samples(ptr, bytes);
  const std::vector<int> nodes = label(samples, query);
  std::vector<Region> regions = join(samples, nodes, samples.count);
  if (regions.size() > kRegionsMax) regions = join(samples, nodes, kRegionsMax);
  return regions;
}

bool prefer_node(void* ptr, std::uint64_t bytes, int node) {
  std::array<unsigned long, kLocationIndexMax / kWordBits + 1> mask{};
  const auto bit = static_cast<std::size_t>(node);
  if (node < 0 || bit / kWordBits >= mask.size()) return false;
  mask[bit / kWordBits] = 1UL << (bit % kWordBits);
  // The kernel reads one bit less than it is told, and refuses more than it has pages for.
  const unsigned long bits = bit + 2;
  return ::syscall(SYS_mbind, ptr, bytes, kPreferred, mask.data(), bits, 0) == 0;
}

}  // namespace larder::platform
