// SPDX-License-Identifier: Apache-2.0
#include "client/remote_disk.h"

#include <system_error>

#include "env/thread.h"
#include "obs/log.h"

namespace larder::client {
namespace {

// The node reads it, too: rather than wait any longer, ask it.
constexpr env::Nanos kConnect = 2 * env::kSecond;
constexpr env::Nanos kAnswer = 2 * env::kSecond;
constexpr std::uint16_t kQueues = 8;

Result<nvmf::NvmeDeviceOptions> options_of(const std::string& url, const std::string& id) {
  nvmf::NvmeDeviceOptions options;
  LARDER_ASSIGN(options.url, nvmf::parse_nvme_url(url));
  options.url.io_timeout.reset();  // of the node's patience, not of ours
  options.queues = kQueues;
  options.connect_timeout = kConnect;
  options.io_timeout = kAnswer;
  options.reattach = nvmf::Reattach::kNever;
  options.expected_id = id;
  return options;
}

}  // namespace

std::shared_ptr<RemoteDisk> RemoteDisk::open(const std::string& url, const std::string& id) {
  std::shared_ptr<RemoteDisk> disk(new RemoteDisk());
  try {
    disk->thread_ = std::thread([raw = disk.get(), url, id] { raw->connect(url, id); });
  } catch (const std::system_error&) {  // no more threads
    disk->state_.store(State::kFailed, std::memory_order_release);
  }
  return disk;
}

RemoteDisk::~RemoteDisk() {
  if (thread_.joinable()) thread_.join();
}

void RemoteDisk::connect(const std::string& url, const std::string& id) {
  env::set_thread_name("larder-remote");
  const auto options = options_of(url, id);
  auto device = options ? nvmf::NvmeDevice::open(*options)
                        : Result<std::shared_ptr<nvmf::NvmeDevice>>(fail(options.error()));
  if (!device) {
    obs::log(obs::Level::kInfo, "remote_disk_not_reached",
             {{"disk", url},
              {"error", device.error().to_string()},
              {"action", "values on it come through the node"}});
    return state_.store(State::kFailed, std::memory_order_release);
  }
  device_ = std::move(*device);
  state_.store(State::kReady, std::memory_order_release);
}

RemoteDisk::State RemoteDisk::state() const noexcept {
  const State state = state_.load(std::memory_order_acquire);
  if (state != State::kReady) return state;
  const bool failed = device_->health().state == block::HealthState::kFailed;
  return failed ? State::kFailed : State::kReady;
}

Result<std::unique_ptr<PartQueue>> RemoteDisk::queue() {
  if (state() != State::kReady) return fail(Code::kUnavailable, "the remote disk is not ready");
  LARDER_ASSIGN(auto queue, device_->open_queue(PartQueue::kDepth));
  return queue_of_namespace(std::move(queue));
}

}  // namespace larder::client
