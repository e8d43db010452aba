// SPDX-License-Identifier: Apache-2.0
#include "client/put_source.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "client/put_op.h"
#include "env/thread.h"

namespace larder::client {
namespace {

// A descriptor's limit. Smaller chunks let the node start earlier, but each costs two system calls:
// 64, 128 and 256 KiB were measured at 0.56, 0.68 and 0.70 of memcpy + XXH3 for 1 MiB. A small
// first chunk was no faster.
constexpr std::size_t kStageBytes = 256 << 10;
// At most this much is hashed before it is sent: the receiver works meanwhile, and the kernel's
// copy finds it in the cache. 32, 64, 256 and 1024 KiB were measured at 0.86, 1.1, 0.4 and 0.74 of
// a raw exchange of 1 MiB.
constexpr std::size_t kInlineBytes = 64 << 10;
constexpr int kPollsPerYield = 64;
constexpr int kPollsPerLook = 4096;  // at whether the peer is still there

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

ConstBytes PutSource::take(std::size_t limit) noexcept {
  const auto pieces = items_[item_].pieces;
  while (piece_ < pieces.size() && offset_ == pieces[piece_].size()) {
    ++piece_;
    offset_ = 0;
  }
  if (piece_ == pieces.size()) return {};
  const std::size_t n = std::min(limit, pieces[piece_].size() - offset_);
  const ConstBytes part = pieces[piece_].subspan(offset_, n);
  offset_ += n;
  if (offset_ == pieces[piece_].size()) {
    ++piece_;
    offset_ = 0;
    while (piece_ < pieces.size() && pieces[piece_].empty()) ++piece_;
  }
  return part;
}

void PutSource::next_value() noexcept {
  ++item_;
  piece_ = 0;
  offset_ = 0;
}

// ---- in the stream ----

std::uint64_t InlineSource::payload_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const PutItem& item : items_) bytes += bytes_of(item) + sizeof(std::uint64_t);
  return bytes;
}

std::size_t InlineSource::next(std::span<iovec> into) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  std::size_t trailers = 0;
  while (count + 1 < into.size() && bytes < kInlineBytes && !at_end()) {
    const ConstBytes part = take(kInlineBytes - bytes);
    if (!part.empty()) {
      if (part.size() == bytes_of(items_[item_])) {
        sum_.update_whole(part);
      } else {
        sum_.update(part);
      }
      into[count++] = {const_cast<std::byte*>(part.data()), part.size()};
      bytes += part.size();
    }
    if (!value_ended()) continue;
    trailers_[trailers] = sum_.digest();
    into[count++] = {&trailers_[trailers++], sizeof(std::uint64_t)};
    sum_.reset();
    next_value();
  }
  return count;
}

// ---- through the window ----

StagedSource::StagedSource(std::vector<PutItem> items, Lane& lane, Window& window,
                           env::Nanos deadline)
    : PutSource(std::move(items)), lane_(lane), window_(window), deadline_(deadline) {}

std::uint64_t StagedSource::payload_bytes() const noexcept {
  std::uint64_t chunks = 0;
  for (const PutItem& item : items_) chunks += ceil_div(bytes_of(item), kStageBytes);
  return chunks * sizeof(wire::Descriptor);
}

// One chunk at a time: the sooner the node knows of it, the sooner it copies.
std::size_t StagedSource::next(std::span<iovec> into) {
  if (at_end() || !wait_for_place()) return 0;
  const std::uint64_t places = window_.data_bytes() / kStageBytes;
  const std::uint64_t at = (lane_.staged % places) * kStageBytes;
  descriptor_.item = static_cast<std::uint32_t>(item_);
  descriptor_.offset = wire::kWindowDataAt + at;
  descriptor_.bytes = stage(window_.data() + at);
  ++lane_.staged;
  if (value_ended()) next_value();
  into[0] = {&descriptor_, sizeof(descriptor_)};
  return 1;
}

std::uint32_t StagedSource::stage(std::byte* to) noexcept {
  std::size_t filled = 0;
  while (filled < kStageBytes && !value_ended()) {
    const ConstBytes part = take(kStageBytes - filled);
    if (!part.empty()) std::memcpy(to + filled, part.data(), part.size());
    filled += part.size();
  }
  return static_cast<std::uint32_t>(filled);
}

// The node frees places in order. It does so within microseconds, unless it is gone or stopped.
bool StagedSource::wait_for_place() {
  const std::uint64_t places = window_.data_bytes() / kStageBytes;
  for (int polls = 1; lane_.staged - window_.consumed() >= places; ++polls) {
    if (polls % kPollsPerYield == 0) ::sched_yield();
    if (polls % kPollsPerLook != 0) continue;
    if (env::monotonic_now() > deadline_ || lane_.channel->peer_closed()) return false;
  }
  return true;
}

// ---- from a shared buffer ----

SharedSource::SharedSource(std::vector<PutItem> items, const Window& buffer)
    : PutSource(std::move(items)), base_(buffer.data() - wire::kWindowDataAt) {}

std::uint64_t SharedSource::payload_bytes() const noexcept {
  std::uint64_t descriptors = 0;
  for (const PutItem& item : items_) {
    for (const ConstBytes piece : item.pieces) {
      descriptors += ceil_div(piece.size(), wire::kDescriptorBytesMax);
    }
  }
  return descriptors * sizeof(wire::Descriptor);
}

std::size_t SharedSource::next(std::span<iovec> into) {
  std::size_t count = 0;
  while (count < batch_.size() && !at_end()) {
    const ConstBytes part = take(wire::kDescriptorBytesMax);
    batch_[count++] = {static_cast<std::uint64_t>(part.data() - base_),
                       static_cast<std::uint32_t>(part.size()), static_cast<std::uint32_t>(item_)};
    if (value_ended()) next_value();
  }
  into[0] = {batch_.data(), count * sizeof(wire::Descriptor)};
  return count == 0 ? 0 : 1;
}

}  // namespace larder::client
