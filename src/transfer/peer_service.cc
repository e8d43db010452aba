// SPDX-License-Identifier: Apache-2.0
#include "transfer/peer_service.h"

#include <algorithm>

#include "transfer/peer_session.h"

namespace larder::transfer {
namespace {

constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kMessageBytesMax = 64 << 10;
constexpr std::size_t kDescriptorsMax = 128;

}  // namespace

Result<void> check_notification(const Notification& notification) {
  if (notification.name.empty() || notification.name.size() > kNameBytesMax) {
    return fail(Code::kInvalidArgument, "a notification's name has 1 to 255 bytes, this one " +
                                            std::to_string(notification.name.size()));
  }
  if (notification.message.size() > kMessageBytesMax) {
    return fail(Code::kInvalidArgument,
                "a notification's message has at most 65536 bytes, this "
                "one " +
                    std::to_string(notification.message.size()));
  }
  return {};
}

Result<void> Mailbox::put(Notification notification) {
  LARDER_TRY(check_notification(notification));
  const std::lock_guard lock(mutex_);
  if (messages_.size() == kMessagesMax) {
    return fail(Code::kBackpressure, "the receiver has 1024 notifications that it has not read");
  }
  messages_.push_back(std::move(notification));
  return {};
}

std::vector<Notification> Mailbox::take_all() {
  const std::lock_guard lock(mutex_);
  std::vector<Notification> all(std::make_move_iterator(messages_.begin()),
                                std::make_move_iterator(messages_.end()));
  messages_.clear();
  return all;
}

std::unique_ptr<rpc::Session> PeerService::open_session(const rpc::Peer&) {
  return std::make_unique<PeerSession>(*this);
}

std::vector<int> PeerService::shared_descriptors() {
  std::vector<int> descriptors;
  const MemoryTable::Reader reader(memory_);
  for (const auto& range : reader.all()) {
    if (range->shared_fd >= 0 && descriptors.size() < kDescriptorsMax) {
      descriptors.push_back(range->shared_fd);
    }
  }
  return descriptors;
}

Result<std::pair<std::uint64_t, std::shared_ptr<void>>> PeerService::adopt_buffer(env::Fd,
                                                                                  std::uint64_t) {
  return fail(Code::kUnsupported, "a transfer engine takes no buffers");
}

}  // namespace larder::transfer
