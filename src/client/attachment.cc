// SPDX-License-Identifier: Apache-2.0
#include "client/attachment.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "env/clock.h"
#include "env/socket.h"

namespace larder::client {
namespace {

constexpr std::size_t kDescriptorsMin = 3;  // fence, version words, at least one segment
constexpr std::size_t kDescriptorsMax = 16;
constexpr std::uint64_t kHintWindowBytes = 4096;

Result<tier::MappedSegment> map_whole(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_size <= 0) {
    return fail(Code::kCorrupt, "the node passed something that is not memory");
  }
  tier::MapOptions options;
  options.huge_pages = true;
  return tier::MappedSegment::map(fd, static_cast<std::uint64_t>(info.st_size), options);
}

}  // namespace

void scatter(const std::byte* from, std::uint64_t bytes, std::span<const MutableBytes> pieces) {
  for (const MutableBytes piece : pieces) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, piece.size()));
    if (n > 0) std::memcpy(piece.data(), from, n);
    from += n;
    bytes -= n;
    if (bytes == 0) return;
  }
}

Result<std::shared_ptr<Attachment>> Attachment::open(const rpc::ChannelOptions& options) {
  LARDER_ASSIGN(rpc::Handshaken connection,
                rpc::connect_and_shake(options, wire::Purpose::kAttach));
  const std::size_t count = connection.value;
  if (count < kDescriptorsMin || count > kDescriptorsMax) {
    return fail(Code::kCorrupt, "the node offers an unlikely number of segments");
  }
  LARDER_ASSIGN(
      std::vector<env::Fd> fds,
      env::receive_fds(connection.fd.get(), count, env::monotonic_now() + options.connect_timeout));
  LARDER_ASSIGN(tier::FenceView fence, tier::FenceView::map(fds[0].get()));
  LARDER_ASSIGN(tier::MappedSegment slots, map_whole(fds[1].get()));
  std::vector<tier::MappedSegment> segments;
  for (std::size_t i = 2; i < count; ++i) {
    LARDER_ASSIGN(tier::MappedSegment segment, map_whole(fds[i].get()));
    segments.push_back(std::move(segment));
  }
  LARDER_ASSIGN(std::unique_ptr<Window> hints, Window::create(options, kHintWindowBytes));
  std::shared_ptr<Attachment> attachment(new Attachment(std::move(connection.fd), std::move(fence),
                                                        std::move(slots), std::move(segments),
                                                        std::move(hints), connection.epoch));
  for (const tier::MappedSegment& segment : attachment->segments_) {
    attachment->warmers_.push_back(
        std::make_unique<env::PageWarmer>(segment.view(), env::PageWarmer::By::kReader));
  }
  return attachment;
}

const std::atomic<std::uint64_t>& Attachment::word(std::uint32_t slot) const noexcept {
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(slots_.data())[slot];
}

bool Attachment::plausible(const Route& route) const noexcept {
  return route.slot < slots_.bytes() / sizeof(std::uint64_t) && route.segment < segments_.size() &&
         route.version != 0 && route.offset <= segments_[route.segment].bytes() &&
         route.length <= segments_[route.segment].bytes() - route.offset;
}

bool Attachment::node_alive() const noexcept {
  char byte = 0;
  return ::recv(connection_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

bool Attachment::valid(const Route& route) const noexcept {
  return word(route.slot).load(std::memory_order_acquire) == route.version && current();
}

const std::byte* Attachment::data(const Route& route) const noexcept {
  return segments_[route.segment].data() + route.offset;
}

// The reader's half of a sequence lock: versions are never used twice, so if the word says the same
// before and after, nobody wrote over the bytes in between.
bool Attachment::read(const Route& route, std::span<const MutableBytes> into) const noexcept {
  if (!valid(route)) return false;
  scatter(data(route), route.length, into);
  std::atomic_thread_fence(std::memory_order_acquire);
  return word(route.slot).load(std::memory_order_relaxed) == route.version && current();
}

}  // namespace larder::client
