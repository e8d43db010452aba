// SPDX-License-Identifier: Apache-2.0
// Takes frames off a stream socket. Small frames cost one system call; payload larger than the read
// buffer goes straight to its sink.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "env/socket.h"
#include "larder/status.h"
#include "rpc/payload.h"
#include "wire/frame.h"

namespace larder::rpc {

class FrameObserver {
 public:
  virtual ~FrameObserver() = default;
  // Header and body are in and checked. Returns where the payload goes (nullptr: discard it).
  // `body` is valid during the call only. An error ends the connection.
  virtual Result<PayloadSink*> on_frame(const wire::FrameHeader& header, std::string_view body) = 0;
  // The payload is complete. Not called for frames without payload.
  virtual Result<void> on_payload_end() = 0;
  // False: keep further frames waiting. Whoever turns it true again calls resume().
  virtual bool accepts_frames() const noexcept { return true; }
};

enum class Progress : std::uint8_t {
  kNothing,  // the socket had nothing
  kSome,     // bytes were consumed; there may be more
  kClosed,   // the peer closed
};

// One per connection; one thread at a time.
class FrameReceiver {
 public:
  FrameReceiver();
  // Receives and handles what the socket has, at most `budget` bytes. Errors are protocol
  // violations or socket errors: the connection is unusable after one.
  Result<Progress> receive(int fd, FrameObserver& observer, std::size_t budget);
  // Feeds bytes as if they had been received: for the fuzzer and tests.
  Result<void> feed(std::span<const std::byte> bytes, FrameObserver& observer);
  // Redirects the rest of the payload being received to nowhere.
  void discard_payload() noexcept;
  bool in_payload() const noexcept { return payload_left_ > 0; }
  // Handles frames that were read while the observer accepted none.
  Result<void> resume(FrameObserver& observer) { return drain_buffer(observer); }
  // Something has begun to arrive and is not complete.
  bool in_frame() const noexcept {
    return payload_left_ > 0 || large_body_ != nullptr || buffered() > 0;
  }

 private:
  Result<Progress> receive_once(int fd, FrameObserver& observer, std::size_t& budget);
  Result<void> drain_buffer(FrameObserver& observer);
  Result<bool> take_frame(FrameObserver& observer);
  void open_large_body(std::size_t frame_bytes);
  std::span<std::byte> large_body_room();
  Result<void> deliver(FrameObserver& observer, std::span<const std::byte> header,
                       std::string_view body);
  std::size_t next_places(std::span<iovec> into);
  void copy_to_sink(std::size_t bytes);
  Result<void> payload_progress(FrameObserver& observer, std::size_t bytes);
  std::size_t buffered() const noexcept { return end_ - begin_; }

  static constexpr std::size_t kBufferBytes = 16 << 10;

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::unique_ptr<std::byte[]> large_body_;  // header and body of a frame too long for the buffer
  std::size_t large_room_ = 0;               // bytes of large_body_
  std::size_t large_total_ = 0;
  bool short_ = false;  // the last call to the kernel brought less than there was room for
  std::size_t large_filled_ = 0;
  PayloadSink* sink_ = nullptr;
  std::uint64_t payload_left_ = 0;
  DiscardSink discard_;
};

}  // namespace larder::rpc
