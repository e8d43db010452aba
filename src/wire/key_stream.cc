// SPDX-License-Identifier: Apache-2.0
#include "wire/key_stream.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "wire/keys.h"

namespace larder::wire {
namespace {

constexpr std::size_t kSizeBytes = sizeof(std::uint16_t);
constexpr std::size_t kSumBytes = sizeof(std::uint64_t);
constexpr std::size_t kBufferBytes = 64 << 10;
static_assert(kKeyPieceMin == kSizeBytes + kPackedKeyMax + kSumBytes);

// A short stream comes in one piece, and that is hashed without a streaming state.
void add(Checksum64& sum, std::span<const std::byte> piece, bool whole) {
  if (whole) {
    sum.update_whole(piece);
  } else if (!piece.empty()) {
    sum.update(piece);
  }
}

}  // namespace

std::uint64_t key_stream_bytes(std::span<const std::string_view> keys) noexcept {
  std::uint64_t bytes = kSumBytes + keys.size() * kSizeBytes;
  for (const std::string_view key : keys) bytes += packed(key).size();
  return bytes;
}

std::size_t KeyWriter::fill(std::span<std::byte> into) noexcept {
  std::byte* to = into.data();
  std::byte* const end = to + into.size();
  const bool first = at_ == 0;
  for (; at_ < keys_.size(); ++at_) {
    const std::string_view key = packed(keys_[at_]);
    if (static_cast<std::size_t>(end - to) < kSizeBytes + key.size()) break;
    store_le(to, static_cast<std::uint16_t>(key.size()));
    std::memcpy(to + kSizeBytes, key.data(), key.size());
    to += kSizeBytes + key.size();
  }
  add(sum_, {into.data(), to}, first && at_ == keys_.size());
  if (at_ == keys_.size() && !ended_ && static_cast<std::size_t>(end - to) >= kSumBytes) {
    store_le(to, sum_.digest());
    to += kSumBytes;
    ended_ = true;
  }
  return static_cast<std::size_t>(to - into.data());
}

Result<KeyReader> KeyReader::create(std::uint32_t count, std::uint64_t bytes) {
  const std::uint64_t least = std::uint64_t{count} * kSizeBytes + kSumBytes;
  if (bytes >= least && bytes <= least + std::uint64_t{count} * kPackedKeyMax) {
    return KeyReader(count, bytes);
  }
  return fail(Code::kInvalidArgument, std::to_string(count) + " keys cannot have a payload of " +
                                          std::to_string(bytes) + " bytes");
}

KeyReader::KeyReader(std::uint32_t count, std::uint64_t bytes)
    : size_(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kBufferBytes))),
      keys_left_(count),
      bytes_left_(bytes) {
  buffer_.reset(new std::byte[size_]);
}

std::span<std::byte> KeyReader::room() noexcept {
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return {buffer_.get() + end_,
          static_cast<std::size_t>(std::min<std::uint64_t>(size_ - end_, bytes_left_))};
}

void KeyReader::advance(std::size_t bytes) noexcept {
  // The checksum itself, the last bytes, is not part of what it sums up.
  const std::uint64_t summed = bytes_left_ > kSumBytes ? bytes_left_ - kSumBytes : 0;
  const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, summed));
  add(sum_, {buffer_.get() + end_, now}, !started_ && now == summed);
  started_ = true;
  end_ += bytes;
  bytes_left_ -= bytes;
}

bool KeyReader::next(std::string_view& key) noexcept {
  const std::size_t there = end_ - begin_;
  if (keys_left_ == 0 && there > kSumBytes) broken_ = true;
  if (broken_) begin_ = end_;  // so that there is room for the rest
  if (broken_ || keys_left_ == 0 || there < kSizeBytes) return false;
  const std::size_t size = load_le<std::uint16_t>(buffer_.get() + begin_);
  if (size > kPackedKeyMax) {
    broken_ = true;
    begin_ = end_;
    return false;
  }
  if (there < kSizeBytes + size) return false;
  key = {reinterpret_cast<const char*>(buffer_.get()) + begin_ + kSizeBytes, size};
  begin_ += kSizeBytes + size;
  --keys_left_;
  return true;
}

Result<void> KeyReader::end() const {
  if (broken_ || keys_left_ > 0 || bytes_left_ > 0 || end_ - begin_ != kSumBytes) {
    return fail(Code::kCorrupt, "key stream: sizes and bytes do not agree");
  }
  if (load_le<std::uint64_t>(buffer_.get() + begin_) != sum_.digest()) {
    return fail(Code::kCorrupt, "key stream: damaged on its way; send it again");
  }
  return {};
}

}  // namespace larder::wire
