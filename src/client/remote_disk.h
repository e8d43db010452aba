// SPDX-License-Identifier: Apache-2.0
// A remote namespace that this client reads by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "block/block_device.h"
#include "client/part_queue.h"
#include "larder/status.h"
#include "nvmf/host/device.h"

namespace larder::client {

// Any thread, but for the destructor.
class RemoteDisk {
 public:
  enum class State : std::uint8_t {
    kOpening = 0,
    kReady = 1,
    kFailed = 2,  // could not be opened, or was lost; for good
  };
  // Connects in the background, for who reads meanwhile goes another way: within seconds, or it has
  // failed. `id`: block::Identity::id; another namespace is not opened.
  static std::shared_ptr<RemoteDisk> open(const std::string& url, const std::string& id);
  // Waits for an attempt under way.
  ~RemoteDisk();

  State state() const noexcept;
  // kUnavailable: it is not ready. kExhausted: the target gives no further queue.
  Result<std::unique_ptr<PartQueue>> queue();

 private:
  RemoteDisk() = default;
  void connect(const std::string& url, const std::string& id);

  std::atomic<State> state_{State::kOpening};
  std::shared_ptr<nvmf::NvmeDevice> device_;  // there once it is kReady
  std::thread thread_;
};

}  // namespace larder::client
