// SPDX-License-Identifier: Apache-2.0
#include "block/file_device_state.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "block/file_device.h"

namespace larder::block {
namespace {

int discard_device(int fd, std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t range[2] = {offset, bytes};
  return ::ioctl(fd, BLKDISCARD, range) == 0 ? 0 : errno;
}

int zero_device(int fd, std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t range[2] = {offset, bytes};
  return ::ioctl(fd, BLKZEROOUT, range) == 0 ? 0 : errno;
}

int change_extents(int fd, int how, std::uint64_t offset, std::uint64_t bytes) {
  int error = 0;
  do {
    const int answer = ::fallocate(fd, how, static_cast<off_t>(offset), static_cast<off_t>(bytes));
    error = answer == 0 ? 0 : errno;
  } while (error == EINTR);
  return error;
}

}  // namespace

int FileDeviceState::discard(std::uint64_t offset, std::uint64_t bytes) const {
  const int fd = file_.buffered_fd();
  if (file_.is_device()) return discard_device(fd, offset, bytes);
  if (reserved_) {
    const int error = change_extents(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, bytes);
    if (error != EOPNOTSUPP) return error;
  }
  return change_extents(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
}

// Of a file that was cut short it makes the old size again, as a write would.
int FileDeviceState::zero(std::uint64_t offset, std::uint64_t bytes) {
  if (cannot_zero_.load(std::memory_order_relaxed)) return EOPNOTSUPP;
  const int fd = file_.buffered_fd();
  const int error = file_.is_device() ? zero_device(fd, offset, bytes)
                                      : change_extents(fd, FALLOC_FL_ZERO_RANGE, offset, bytes);
  if (error == EOPNOTSUPP) cannot_zero_.store(true, std::memory_order_relaxed);
  return error;
}

std::span<std::byte> zeroes() noexcept {
  alignas(kZeroesAlignment) static std::array<std::byte, 1U << 20U> bytes{};
  return bytes;
}

Result<void> FileDeviceState::enter(fileio::FileQueue* queue) {
  const std::lock_guard lock(mutex_);
  if (queues_.size() >= kQueuesMax) {
    return fail(Code::kExhausted, "the block device has its most queues open; share some");
  }
  queues_.push_back(queue);
  for (const auto& memory : buffers_) queue->add_buffer(memory);
  return {};
}

void FileDeviceState::leave(fileio::FileQueue* queue) {
  const std::lock_guard lock(mutex_);
  std::erase(queues_, queue);
}

bool FileDeviceState::add_buffer(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  if (buffers_.size() >= FileDevice::kBuffersMax) return false;
  buffers_.push_back(memory);
  bool pinned = false;
  for (fileio::FileQueue* queue : queues_) pinned |= queue->add_buffer(memory);
  return pinned;
}

void FileDeviceState::remove_buffer(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  const auto same = [&](const std::span<std::byte>& one) {
    return one.data() == memory.data() && one.size() == memory.size();
  };
  if (std::erase_if(buffers_, same) == 0) return;
  for (fileio::FileQueue* queue : queues_) queue->remove_buffer(memory);
}

}  // namespace larder::block
