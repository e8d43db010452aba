// SPDX-License-Identifier: Apache-2.0
// The SPDK device over SPDK itself, where it was found, to a target of ours in this process. It
// asks for ordinary pages, which do for TCP; where SPDK does not start even so, it is skipped.
#include <iostream>

#include "block_device_suite.h"
#include "nvmf/host/url.h"
#include "nvmf/spdk/device.h"
#include "nvmf/target/target.h"

namespace larder::block {
namespace {

class RealStage final : public DeviceStage {
 public:
  explicit RealStage(std::unique_ptr<nvmf::Target> target) : target_(std::move(target)) {
    options_.remote.url = take_value(nvmf::parse_nvme_url(target_->url()));
    options_.environment.huge_pages = false;
  }
  bool reopen() override {
    device.reset();
    auto opened = nvmf::SpdkDevice::open(options_);
    if (!opened) std::cout << "[ note     ] " << opened.error().message() << '\n';
    if (opened) device = std::move(*opened);
    return device != nullptr;
  }

 private:
  std::unique_ptr<nvmf::Target> target_;
  nvmf::SpdkDeviceOptions options_;
};

std::unique_ptr<DeviceStage> real_stage() {
  nvmf::TargetOptions options;
  options.listen.port = 0;
  nvmf::NamespaceOptions memory;
  memory.ram_bytes = 4U << 20U;
  auto stage = std::make_unique<RealStage>(take_value(nvmf::Target::create(options, {memory})));
  return stage->reopen() ? std::unique_ptr<DeviceStage>(std::move(stage)) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(RealSpdk, BlockDeviceConformance,
                         testing::Values(DeviceUnderTest{"Tcp", real_stage}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace larder::block
