// SPDX-License-Identifier: Apache-2.0
// The SPDK device over the stand-in for SPDK (src/nvmf/spdk/fake).
#include "block_device_suite.h"
#include "nvmf/spdk/spdk_testing.h"

namespace larder::block {
namespace {

class SpdkStage final : public DeviceStage {
 public:
  SpdkStage(nvmf::SpdkTransport transport, bool zeroes) : options_(nvmf::fake_options(transport)) {
    nvmf::reset_fake_spdk();
    nvmf::fake_spdk().dma_only = transport == nvmf::SpdkTransport::kRdma;
    nvmf::fake_spdk().controller.vwc = 1;
    if (!zeroes) nvmf::fake_spdk().ns.dlfeat = 0;
    reopen();
  }
  ~SpdkStage() override {
    device.reset();
    EXPECT_EQ(nvmf::fake_spdk().leftovers(), "");
  }
  bool reopen() override {
    device.reset();
    device = take_value(nvmf::SpdkDevice::open(options_));
    return true;
  }

 private:
  const nvmf::SpdkDeviceOptions options_;
};

std::vector<DeviceUnderTest> devices() {
  return {
      {"SpdkOverTcp", [] { return std::make_unique<SpdkStage>(nvmf::SpdkTransport::kTcp, true); }},
      {"SpdkOverRdma",
       [] { return std::make_unique<SpdkStage>(nvmf::SpdkTransport::kRdma, true); }},
      {"SpdkWithDatasetManagement",
       [] { return std::make_unique<SpdkStage>(nvmf::SpdkTransport::kTcp, false); }},
  };
}

INSTANTIATE_TEST_SUITE_P(Spdk, BlockDeviceConformance, testing::ValuesIn(devices()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace larder::block
