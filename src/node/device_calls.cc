// SPDX-License-Identifier: Apache-2.0
#include "node/device_calls.h"

#include <utility>

#include "env/clock.h"
#include "env/thread.h"
#include "larder.pb.h"
#include "node/device_control.h"
#include "node/store_core.h"
#include "wire/message.h"

namespace larder::node {
namespace {

void add_device(const DeviceStatus& status, pb::DevicesReply& reply) {
  pb::Device& device = *reply.add_devices();
  device.set_id(status.id);
  device.set_path(status.path);
  device.set_state(std::string(tier::device_state_name(status.state)));
  device.set_capacity_bytes(status.capacity);
  device.set_used_bytes(status.used);
  device.set_records(status.records);
  device.set_errors(status.errors);
  device.set_last_error(tier::device_error_text(status.last_error));
}

Result<DeviceStatus> change(DeviceControl& devices, const DeviceCall& call) {
  switch (*call.action) {
    case DeviceAction::kAdd:
      return devices.add(call.device, call.size);
    case DeviceAction::kDrain:
      return devices.drain(call.device);
    case DeviceAction::kDisable:
      return devices.disable(call.device);
    case DeviceAction::kEnable:
      return devices.enable(call.device);
    case DeviceAction::kRemove:
      break;  // leaves no device
  }
  return fail(Code::kInternal, "devices: this action was let through");
}

Result<pb::DevicesReply> perform(DeviceControl& devices, const DeviceCall& call) {
  pb::DevicesReply reply;
  if (!call.action) {
    LARDER_ASSIGN(const std::vector<DeviceStatus> all, devices.list());
    for (const DeviceStatus& status : all) add_device(status, reply);
  } else if (*call.action == DeviceAction::kRemove) {
    LARDER_TRY(devices.remove(call.device));
  } else {
    LARDER_ASSIGN(const DeviceStatus changed, change(devices, call));
    add_device(changed, reply);
  }
  return reply;
}

}  // namespace

DeviceCalls::~DeviceCalls() {
  std::deque<Waiting> given_up;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    given_up.swap(waiting_);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void DeviceCalls::submit(DeviceCall call, rpc::Responder responder) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < kWaitingMax && !stopping_) {
      waiting_.push_back({std::move(call), std::move(responder)});
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      changed_.notify_all();
      return;
    }
  }
  core_.metrics.ops[static_cast<std::size_t>(wire::Op::kDevices)].errors->add();
  responder.complete(rpc::error_reply(
      Error(Code::kBackpressure, "this node has " + std::to_string(kWaitingMax) +
                                     " calls about devices waiting; try again later")));
}

void DeviceCalls::run() {
  env::set_thread_name("larder-devices");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    // An operator who hung up while waiting does not get what he can no longer see.
    if (next.responder.wanted()) answer(std::move(next));
    lock.lock();
  }
}

void DeviceCalls::answer(Waiting waiting) {
  const OpMetrics& metrics = core_.metrics.ops[static_cast<std::size_t>(wire::Op::kDevices)];
  const env::Nanos began = env::monotonic_now();
  const Result<pb::DevicesReply> done = perform(*core_.devices, waiting.call);
  if (!done) {
    metrics.errors->add();
    waiting.responder.complete(rpc::error_reply(done.error()));
    return;
  }
  metrics.latency->record(static_cast<std::uint64_t>(env::monotonic_now() - began));
  rpc::Reply reply;
  reply.frame = wire::frame_with(*done);
  waiting.responder.complete(std::move(reply));
}

}  // namespace larder::node
