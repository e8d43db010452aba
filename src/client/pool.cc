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

Result<std::shared_ptr<Lane>> Pool::acquire() {
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
  auto lane = connect();
  const std::lock_guard lock(mutex_);
  --connecting_;
  if (lane && closed_) return fail(Code::kCancelled, "the client was closed");
  if (lane) lanes_.push_back(*lane);
  return lane;
}

Result<std::shared_ptr<Lane>> Pool::connect() {
  auto lane = std::make_shared<Lane>();
  LARDER_ASSIGN(lane->channel, rpc::Channel::connect(options_));
  return lane;
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
  for (const auto& lane : all) lane->channel->close();
}

}  // namespace larder::client
