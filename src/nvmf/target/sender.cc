// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/sender.h"

#include <algorithm>
#include <cstring>

#include "env/socket.h"

namespace larder::nvmf {
namespace {

// Adds [skip, bytes) of `from` and takes `bytes` off `skip`, not below 0.
void add_part(std::byte* from, std::uint64_t bytes, std::uint64_t& skip, std::span<iovec> into,
              std::size_t& count, std::uint64_t& covered) noexcept {
  if (skip >= bytes) {
    skip -= bytes;
    return;
  }
  if (count == into.size()) return;
  into[count++] = {from + skip, static_cast<std::size_t>(bytes - skip)};
  covered += bytes - skip;
  skip = 0;
}

}  // namespace

void Sender::add(Output& output) noexcept {
  output.next = nullptr;
  if (last_ != nullptr) {
    last_->next = &output;
  } else {
    first_ = &output;
  }
  last_ = &output;
}

bool Sender::flush(int fd, SentObserver& observer) {
  std::array<iovec, kIovMax> parts;
  while (first_ != nullptr) {
    const std::size_t count = gather(parts);
    std::uint64_t offered = 0;
    for (std::size_t i = 0; i < count; ++i) offered += parts[i].iov_len;
    const env::IoResult sent = env::send(fd, std::span(parts).first(count));
    if (sent.status == env::IoStatus::kWouldBlock) return true;
    if (sent.status != env::IoStatus::kOk) return false;
    advance(sent.bytes, observer);
    if (sent.bytes < offered) return true;  // the socket is full
  }
  return true;
}

std::size_t Sender::gather(std::span<iovec> into) const noexcept {
  std::size_t count = 0;
  std::uint64_t skip = sent_;
  if (kept_bytes_ > 0) {
    into[count++] = {const_cast<std::byte*>(kept_.data()) + kept_at_, kept_bytes_};
    skip += kept_bytes_;
  }
  for (const Output* output = first_; output != nullptr && count < into.size();
       output = output->next) {
    std::uint64_t covered = 0;
    count += gather_one(*output, skip, into.subspan(count), covered);
    if (skip + covered < output->total()) break;  // no room for all of it
    skip = 0;
  }
  return count;
}

std::size_t Sender::gather_one(const Output& output, std::uint64_t skip, std::span<iovec> into,
                               std::uint64_t& covered) noexcept {
  std::size_t count = 0;
  add_part(const_cast<std::byte*>(output.head.data()), output.head_bytes, skip, into, count,
           covered);
  std::uint64_t left = output.data_bytes;
  for (const block::Piece& piece : output.data) {
    if (left == 0) break;
    const std::uint64_t part = std::min<std::uint64_t>(piece.bytes, left);
    add_part(piece.data, part, skip, into, count, covered);
    left -= part;
  }
  add_part(const_cast<std::byte*>(output.tail.data()), output.tail_bytes, skip, into, count,
           covered);
  return count;
}

void Sender::advance(std::uint64_t bytes, SentObserver& observer) {
  sent_total_ += bytes;
  const std::uint64_t of_kept = std::min<std::uint64_t>(bytes, kept_bytes_);
  kept_at_ += of_kept;
  kept_bytes_ -= of_kept;
  sent_ += bytes;
  while (first_ != nullptr && sent_ >= first_->total()) {
    Output& done = *first_;
    sent_ -= done.total();
    first_ = done.next;
    if (first_ == nullptr) last_ = nullptr;
    observer.on_sent(done);
  }
  if (kept_bytes_ == 0 && first_ != nullptr) keep_unit();
}

void Sender::keep_unit() {
  const Output& output = *first_;
  if (output.unit == 0 || sent_ <= output.head_bytes) return;
  const std::uint64_t at = sent_ - output.head_bytes;
  if (at >= output.data_bytes || at % output.unit == 0) return;
  const std::uint64_t rest =
      std::min<std::uint64_t>(output.unit - at % output.unit, output.data_bytes - at);
  // Data that may change are memory of a namespace: one piece.
  std::memcpy(kept_.data(), output.data.front().data + at, rest);
  kept_at_ = 0;
  kept_bytes_ = rest;
}

}  // namespace larder::nvmf
