// SPDX-License-Identifier: Apache-2.0
// For tests of the operator's calls: devices that are not there, and a node that has them.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "env/temp_directory.h"
#include "node/device_control.h"
#include "node/node_testing.h"
#include "node/request_service.h"
#include "rpc/server.h"

namespace larder::node {

// Remembers what was asked.
class FakeDevices final : public DeviceControl {
 public:
  static std::string id(int number) {
    return "0000000" + std::to_string(number) + "-aaaa-4bbb-8ccc-dddddddddddd";
  }
  Result<std::vector<DeviceStatus>> list() override {
    const std::lock_guard lock(mutex_);
    asked_.emplace_back("list");
    return devices_;
  }
  Result<DeviceStatus> add(const std::string& path, std::uint64_t size) override {
    const std::lock_guard lock(mutex_);
    asked_.push_back("add " + path + " " + std::to_string(size));
    if (path == "/other") return fail(Code::kConflict, "/other is owned by node n2:7");
    DeviceStatus device;
    device.id = id(static_cast<int>(devices_.size()));
    device.path = path;
    device.capacity = size == 0 ? 1 << 30 : size;
    devices_.push_back(device);
    return device;
  }
  Result<DeviceStatus> drain(const std::string& id) override {
    return change("drain", id, tier::DeviceState::kDraining);
  }
  Result<DeviceStatus> disable(const std::string& id) override {
    return change("disable", id, tier::DeviceState::kDisabledByAdmin);
  }
  Result<DeviceStatus> enable(const std::string& id) override {
    return change("enable", id, tier::DeviceState::kHealthy);
  }
  Result<void> remove(const std::string& id) override {
    LARDER_TRY(change("remove", id, tier::DeviceState::kHealthy));
    const std::lock_guard lock(mutex_);
    std::erase_if(devices_, [&id](const DeviceStatus& device) { return device.id == id; });
    return {};
  }

  void set(std::size_t index, const std::function<void(DeviceStatus&)>& edit) {
    const std::lock_guard lock(mutex_);
    edit(devices_.at(index));
  }
  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  // Changes wait from now on, until let_go().
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  // Waits until so many calls have come in.
  bool wait_asked(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return asked_.size() >= count; });
  }

 private:
  Result<DeviceStatus> change(const char* what, const std::string& id, tier::DeviceState state) {
    std::unique_lock lock(mutex_);
    asked_.push_back(std::string(what) + " " + id);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    for (DeviceStatus& device : devices_) {
      if (device.id != id) continue;
      device.state = state;
      return device;
    }
    return fail(Code::kNotFound, "this node has no device " + id);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<DeviceStatus> devices_;
  std::vector<std::string> asked_;
  bool held_ = false;
};

// Serves a store over a Unix socket and TCP, with devices or without.
class DeviceNode {
 public:
  explicit DeviceNode(DeviceControl* devices, const std::string& token = {}) {
    store_.core.id = "n1:1";
    store_.core.socket = dir_.path() + "/node.sock";
    store_.core.share_memory = false;
    store_.core.devices = devices;
    rpc::ServerOptions options;
    options.listen = {env::SocketAddress::parse("unix:" + store_.core.socket).value(),
                      env::SocketAddress::parse("tcp:127.0.0.1:0").value()};
    options.token = token;
    server_ = rpc::Server::create(std::move(options), service_, env::system_clock()).value();
  }
  ~DeviceNode() { server_.reset(); }
  const std::string& socket() const { return store_.core.socket; }
  std::string unix_address() const { return server_->addresses()[0].to_string(); }
  std::string tcp_address() const { return server_->addresses()[1].to_string(); }
  const std::string& dir() const { return dir_.path(); }
  rpc::Server& server() { return *server_; }
  std::string metrics() { return store_.registry.text(); }

 private:
  const env::TempDirectory dir_ = env::TempDirectory::create("larder-devices").value();
  TestStore store_;
  RequestService service_{store_.core};
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace larder::node
