// SPDX-License-Identifier: Apache-2.0
#include "client/pool.h"

#include <algorithm>

namespace larder::client {

void Pool::bury_broken() {
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    if (!(*it)->channel->broken()) {
      ++it;
      continue;
    }
    broken_.push_back(std::move(*it));
    it = lanes_.erase(it);
  }
  std::erase_if(broken_, [](const std::shared_ptr<Lane>& lane) {
    return lane.use_count() == 1 && lane->channel.use_count() == 1 &&
           lane->channel->in_flight() == 0 && !lane->channel->on_pump_thread();
  });
}

Result<std::shared_ptr<Lane>> Pool::acquire(env::Nanos deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return fail(Code::kCancelled, "the client was closed");
    bury_broken();
    std::shared_ptr<Lane> best;
    for (const auto& lane : lanes_) {
      if (lane->channel->in_flight() == 0) return lane;
      if (!best || lane->channel->in_flight() < best->channel->in_flight()) best = lane;
    }
    if (lanes_.size() + connecting_ >= lanes_max_ && best) return best;
    ++connecting_;
  }
  auto lane = connect(deadline);
  const std::lock_guard lock(mutex_);
  --connecting_;
  if (lane && closed_) return fail(Code::kCancelled, "the client was closed");
  if (lane) lanes_.push_back(*lane);
  return lane;
}

Result<std::shared_ptr<Lane>> Pool::connect(env::Nanos deadline) {
  auto lane = std::make_shared<Lane>();
  LARDER_ASSIGN(lane->channel, rpc::Channel::connect(options_until(deadline)));
  return lane;
}

rpc::ChannelOptions Pool::options_until(env::Nanos deadline) const {
  rpc::ChannelOptions options = options_;
  const env::Nanos left = std::max<env::Nanos>(1, deadline - env::monotonic_now());
  options.connect_timeout = std::min(options.connect_timeout, left);
  return options;
}

void Pool::drop_closed() {
  const std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    if (lane->channel->peer_closed()) lane->channel->shut_down();
  }
}

void Pool::shut_down() {
  std::vector<std::shared_ptr<Lane>> all;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    all.swap(lanes_);
    for (auto& lane : broken_) all.push_back(std::move(lane));
    broken_.clear();
  }
  // Twice: a call that one channel's thread was just moving to another lane may have been sent
  // after that one was closed. No such thread is left after the first round.
  for (int round = 0; round < 2; ++round) {
    for (const auto& lane : all) lane->channel->close();
  }
}

}  // namespace larder::client
