// SPDX-License-Identifier: Apache-2.0
// What every block device must do, of our initiator on targets of the Linux kernel that differ in
// block size, digests, in-capsule data and queues.
#include "../conformance/block_device_suite.h"
#include "kernel_target.h"

namespace larder::block {
namespace {

using nvmf_guest::GuestProcess;
using nvmf_guest::KernelTarget;
using nvmf_guest::SharedGuest;

struct Wanted {
  std::uint32_t block_bytes = 4096;
  std::string attributes = {};  // of the subsystem
  std::string options = {};     // of the URL
  std::uint16_t port = nvmf_guest::kInCapsulePort;
  bool file = false;  // a file of the guest's tmpfs, through its page cache
  std::uint32_t command_bytes_max = 2U << 20U;
};

class KernelStage final : public DeviceStage {
 public:
  KernelStage(GuestProcess& guest, const Wanted& wanted)
      : target_(guest, wanted.attributes),
        options_(KernelTarget::options(target_.url(wanted.options, 1, wanted.port))) {
    options_.command_bytes_max = wanted.command_bytes_max;
    target_.add_namespace(1, disk(guest, wanted));
    reopen();
  }
  ~KernelStage() override { device.reset(); }  // before its subsystem goes
  bool reopen() override {
    device.reset();
    auto opened = nvmf::NvmeDevice::open(options_);
    EXPECT_TRUE(opened) << opened.error().to_string();
    if (opened) device = std::move(*opened);
    return true;
  }

 private:
  // Kept from one test to the next: they are many.
  static std::string disk(GuestProcess& guest, const Wanted& wanted) {
    if (wanted.file) {
      guest.must("[ -e /tmp/disk ] || truncate -s 4M /tmp/disk");
      return "/tmp/disk";
    }
    const std::string name = fmt::format("blocks{}", wanted.block_bytes);
    guest.must(fmt::format("[ -b /dev/{0} ] || null_disk {0} 4 {1}", name, wanted.block_bytes));
    return "/dev/" + name;
  }

  KernelTarget target_;
  nvmf::NvmeDeviceOptions options_;
};

DeviceUnderTest kernel(std::string name, const Wanted& wanted) {
  return {std::move(name),
          [wanted]() -> std::unique_ptr<DeviceStage> {
            GuestProcess* const guest = SharedGuest::get();
            if (guest != nullptr) return std::make_unique<KernelStage>(*guest, wanted);
            EXPECT_TRUE(SharedGuest::impossible()) << SharedGuest::why_not();
            std::cout << SharedGuest::why_not() << "\n";
            return nullptr;
          },
          wanted.file};  // its tmpfs cannot zero a range
}

std::vector<DeviceUnderTest> devices() {
  return {
      kernel("Blocks4096", {}),
      kernel("Blocks512WithDigests", {.block_bytes = 512, .options = "hdgst=1&ddgst=1"}),
      kernel(
          "NothingInCapsules",
          {.options = "ddgst=1", .port = nvmf_guest::kNoInCapsulePort, .command_bytes_max = 65536}),
      kernel("FileOnFewQueues", {.attributes = "qid_max=8",
                                 .options = "hdgst=1",
                                 .port = nvmf_guest::kSmallInCapsulePort,
                                 .file = true}),
  };
}

INSTANTIATE_TEST_SUITE_P(Kernel, BlockDeviceConformance, testing::ValuesIn(devices()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace larder::block
