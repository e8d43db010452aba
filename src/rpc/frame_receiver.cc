// SPDX-License-Identifier: Apache-2.0
#include "rpc/frame_receiver.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace larder::rpc {
namespace {

constexpr std::size_t kPlacesMax = 64;
// One receive call takes at most this much, so that whoever checks the bytes finds them in the
// cache.
constexpr std::size_t kReceiveBytesMax = 256 << 10;
// A long body's memory is at most this many times what has arrived of it.
constexpr std::size_t kLargeGrowth = 4;

std::span<const std::byte, wire::kHeaderBytes> header_of(const std::byte* from) {
  return std::span<const std::byte, wire::kHeaderBytes>(from, wire::kHeaderBytes);
}

// Cuts the list so that it holds at most `limit` bytes; returns the number of places kept.
std::size_t limit_places(std::span<iovec> places, std::uint64_t limit) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (total + places[i].iov_len >= limit) {
      places[i].iov_len = static_cast<std::size_t>(limit - total);
      return places[i].iov_len == 0 ? i : i + 1;
    }
    total += places[i].iov_len;
  }
  return places.size();
}

}  // namespace

FrameReceiver::FrameReceiver() : buffer_(new std::byte[kBufferBytes]) {}

Result<Progress> FrameReceiver::receive(int fd, FrameObserver& observer, std::size_t budget) {
  Progress progress = Progress::kNothing;
  LARDER_TRY(drain_buffer(observer));
  while (budget > 0) {
    if (payload_left_ == 0 && !observer.accepts_frames()) return progress;
    LARDER_ASSIGN(const Progress step, receive_once(fd, observer, budget));
    if (step == Progress::kClosed) return step;
    if (step == Progress::kNothing) return progress;
    progress = Progress::kSome;
    // Less than there was room for means that the socket is empty: save the call that says so.
    if (short_) return progress;
  }
  return progress;
}

Result<Progress> FrameReceiver::receive_once(int fd, FrameObserver& observer, std::size_t& budget) {
  std::array<iovec, kPlacesMax> places;
  std::size_t count = 0;
  const bool payload = payload_left_ > 0;
  if (payload) {
    count = next_places(places);
    const std::uint64_t limit = std::min<std::uint64_t>(payload_left_, kReceiveBytesMax);
    count = limit_places(std::span(places).first(count), limit);
  } else if (large_body_) {
    const std::span<std::byte> room = large_body_room();
    places[count++] = {room.data(), room.size()};
  } else {
    if (begin_ > 0) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, buffered());
      end_ -= begin_;
      begin_ = 0;
    }
    places[count++] = {buffer_.get() + end_, kBufferBytes - end_};
  }
  const env::IoResult got = env::receive(fd, std::span(places).first(count));
  switch (got.status) {
    case env::IoStatus::kWouldBlock:
      return Progress::kNothing;
    case env::IoStatus::kClosed:
      return Progress::kClosed;
    case env::IoStatus::kError:
      return fail(Code::kUnavailable, "receiving: " + env::errno_text(got.error));
    case env::IoStatus::kOk:
      break;
  }
  short_ = got.bytes < total_bytes(std::span(places).first(count));
  const std::size_t weight = payload ? sink_->weight() : 1;
  budget -= std::min(budget, got.bytes * weight);
  if (payload) {
    LARDER_TRY(payload_progress(observer, got.bytes));
    return Progress::kSome;
  }
  if (large_body_) {
    large_filled_ += got.bytes;
  } else {
    end_ += got.bytes;
  }
  LARDER_TRY(drain_buffer(observer));
  return Progress::kSome;
}

Result<void> FrameReceiver::feed(std::span<const std::byte> bytes, FrameObserver& observer) {
  while (!bytes.empty()) {
    std::size_t n = 0;
    if (large_body_) {
      const std::span<std::byte> room = large_body_room();
      n = std::min(bytes.size(), room.size());
      std::memcpy(room.data(), bytes.data(), n);
      large_filled_ += n;
    } else {
      if (begin_ > 0) std::memmove(buffer_.get(), buffer_.get() + begin_, buffered());
      end_ -= begin_;
      begin_ = 0;
      n = std::min(bytes.size(), kBufferBytes - end_);
      std::memcpy(buffer_.get() + end_, bytes.data(), n);
      end_ += n;
    }
    bytes = bytes.subspan(n);
    LARDER_TRY(drain_buffer(observer));
  }
  return {};
}

Result<void> FrameReceiver::drain_buffer(FrameObserver& observer) {
  while (true) {
    if (payload_left_ > 0) {
      if (buffered() == 0) return {};
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(buffered(), payload_left_));
      copy_to_sink(n);
      LARDER_TRY(payload_progress(observer, 0));
      continue;
    }
    if (!observer.accepts_frames()) return {};
    LARDER_ASSIGN(const bool taken, take_frame(observer));
    if (!taken) return {};
  }
}

// Handles one frame whose header and body are complete. False: more bytes are needed.
Result<bool> FrameReceiver::take_frame(FrameObserver& observer) {
  if (large_body_) {
    if (large_filled_ < large_total_) return false;
    const std::unique_ptr<std::byte[]> frame = std::move(large_body_);
    LARDER_TRY(deliver(observer, {frame.get(), wire::kHeaderBytes},
                       {reinterpret_cast<const char*>(frame.get()) + wire::kHeaderBytes,
                        large_total_ - wire::kHeaderBytes}));
    return true;
  }
  if (buffered() < wire::kHeaderBytes) return false;
  const std::byte* at = buffer_.get() + begin_;
  LARDER_ASSIGN(const wire::FrameHeader header, wire::decode_header(header_of(at)));
  const std::size_t frame_bytes = wire::kHeaderBytes + header.body_bytes;
  if (frame_bytes > kBufferBytes) {
    open_large_body(frame_bytes);
    return false;
  }
  if (buffered() < frame_bytes) return false;
  begin_ += frame_bytes;
  LARDER_TRY(deliver(observer, {at, wire::kHeaderBytes},
                     {reinterpret_cast<const char*>(at) + wire::kHeaderBytes, header.body_bytes}));
  return true;
}

// The frame is longer than the buffer, so the buffer holds only a part of it, and nothing else.
void FrameReceiver::open_large_body(std::size_t frame_bytes) {
  large_total_ = frame_bytes;
  large_room_ = std::min(frame_bytes, kReceiveBytesMax);
  large_body_.reset(new std::byte[large_room_]);
  large_filled_ = buffered();
  std::memcpy(large_body_.get(), buffer_.get() + begin_, large_filled_);
  begin_ = end_;
}

// Memory grows with what has arrived, not with what the header promises.
std::span<std::byte> FrameReceiver::large_body_room() {
  if (large_filled_ == large_room_) {
    large_room_ = std::min(large_total_, large_room_ * kLargeGrowth);
    std::unique_ptr<std::byte[]> larger(new std::byte[large_room_]);
    std::memcpy(larger.get(), large_body_.get(), large_filled_);
    large_body_ = std::move(larger);
  }
  return {large_body_.get() + large_filled_, large_room_ - large_filled_};
}

Result<void> FrameReceiver::deliver(FrameObserver& observer, std::span<const std::byte> raw,
                                    std::string_view body) {
  if (!wire::check_frame(header_of(raw.data()), body)) {
    return fail(Code::kCorrupt, "frame: header and body do not fit their check value");
  }
  LARDER_ASSIGN(const wire::FrameHeader header, wire::decode_header(header_of(raw.data())));
  LARDER_ASSIGN(PayloadSink* const sink, observer.on_frame(header, body));
  payload_left_ = header.payload_bytes;
  sink_ = sink != nullptr ? sink : &discard_;
  return {};
}

std::size_t FrameReceiver::next_places(std::span<iovec> into) {
  std::size_t count = sink_->next(into);
  if (total_bytes(into.first(count)) == 0) {  // no place left although bytes remain
    sink_ = &discard_;
    count = sink_->next(into);
  }
  return count;
}

void FrameReceiver::copy_to_sink(std::size_t bytes) {
  while (bytes > 0) {
    iovec place{};
    next_places(std::span(&place, 1));
    const std::size_t n = std::min(bytes, place.iov_len);
    std::memcpy(place.iov_base, buffer_.get() + begin_, n);
    begin_ += n;
    bytes -= n;
    payload_left_ -= n;
    sink_->advance(n);
  }
}

Result<void> FrameReceiver::payload_progress(FrameObserver& observer, std::size_t bytes) {
  if (bytes > 0) {
    payload_left_ -= bytes;
    sink_->advance(bytes);
  }
  if (payload_left_ > 0) return {};
  sink_ = nullptr;
  return observer.on_payload_end();
}

void FrameReceiver::discard_payload() noexcept {
  if (payload_left_ > 0) sink_ = &discard_;
}

}  // namespace larder::rpc
