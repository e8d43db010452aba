// SPDX-License-Identifier: Apache-2.0
#include "block_device_suite.h"

namespace larder::block {
namespace {

std::unique_ptr<DeviceStage> memory_stage(const MemoryDeviceOptions& options) {
  auto stage = std::make_unique<DeviceStage>();
  stage->device = take_value(MemoryDevice::create(options));
  return stage;
}

std::vector<DeviceUnderTest> devices() {
  return {
      {"Memory", [] { return memory_stage({.bytes = 4U << 20U}); }},
      {"MemoryOfSmallBlocks",
       [] {
         return memory_stage({.bytes = 1U << 20U, .block_bytes = 512, .memory_alignment = 4});
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(All, BlockDeviceConformance, testing::ValuesIn(devices()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace larder::block
