// SPDX-License-Identifier: Apache-2.0
// What a connection has to send, in order, in as few system calls as the socket takes. Data are
// sent from where they lie. One thread.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "block/block_types.h"
#include "nvmf/pdu/pdu.h"

namespace larder::nvmf {

// One PDU, or two (data and the response). It and its data stay until they are sent.
struct Output {
  static constexpr std::size_t kTailMax = kDigestBytes + 32;  // a data digest, a response

  std::uint32_t head_bytes = 0;
  std::uint32_t tail_bytes = 0;
  std::uint32_t data_bytes = 0;
  // Above 0: the data may change meanwhile, in units of so many bytes, and each unit must go out
  // as it was at one moment. A power of two, 4096 at most.
  std::uint32_t unit = 0;
  std::span<const block::Piece> data;
  Output* next = nullptr;
  std::array<std::byte, kTailMax> tail;
  std::array<std::byte, kTermBytesMax> head;

  std::uint64_t total() const noexcept {
    return std::uint64_t{head_bytes} + data_bytes + tail_bytes;
  }
};
static_assert(kTermBytesMax >= kHeadBytesMax);

class SentObserver {
 public:
  // All of it is with the kernel; the output may be used again.
  virtual void on_sent(Output& output) = 0;

 protected:
  ~SentObserver() = default;
};

class Sender {
 public:
  void add(Output& output) noexcept;
  bool empty() const noexcept { return first_ == nullptr; }
  std::uint64_t sent() const noexcept { return sent_total_; }  // bytes, ever

  // Sends what the socket takes. False: the connection is broken.
  bool flush(int fd, SentObserver& observer);

 private:
  static constexpr std::size_t kIovMax = 128;

  std::size_t gather(std::span<iovec> into) const noexcept;
  static std::size_t gather_one(const Output& output, std::uint64_t skip, std::span<iovec> into,
                                std::uint64_t& covered) noexcept;
  void advance(std::uint64_t bytes, SentObserver& observer);
  void keep_unit();

  Output* first_ = nullptr;
  Output* last_ = nullptr;
  std::uint64_t sent_ = 0;  // of first_
  std::uint64_t sent_total_ = 0;
  // The rest of the unit in the middle of which the socket was full, as it was then.
  std::array<std::byte, 4096> kept_;
  std::size_t kept_at_ = 0;
  std::size_t kept_bytes_ = 0;
};

}  // namespace larder::nvmf
