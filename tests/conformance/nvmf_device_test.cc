// SPDX-License-Identifier: Apache-2.0
// The block device suite on our initiator over our target, in one process.
#include "block/fault_device.h"
#include "block/file_device.h"
#include "block_device_suite.h"
#include "env/temp_directory.h"
#include "nvmf/host/device.h"
#include "nvmf/target/target.h"

namespace larder::block {
namespace {

using nvmf::NamespaceOptions;
using nvmf::NvmeDevice;
using nvmf::NvmeDeviceOptions;
using nvmf::Target;
using nvmf::TargetOptions;

constexpr std::uint64_t kBytes = 4U << 20U;

struct Setting {
  TargetOptions target;
  NamespaceOptions medium;
  std::string url_options;
  std::uint16_t queue_entries = 128;
};

class NvmfStage : public DeviceStage {
 public:
  explicit NvmfStage(Setting setting) : setting_(std::move(setting)) {}
  ~NvmfStage() override { device.reset(); }

  void open() {
    setting_.target.listen.port = 0;
    setting_.target.nqn = "nqn.2024-01.org.example:conformance";
    target_ = take_value(Target::create(setting_.target, {setting_.medium}));
    connect();
  }
  // Another connection to the same target: what survives is the target's memory.
  bool reopen() override {
    device.reset();
    connect();
    return true;
  }

 protected:
  void connect() {
    NvmeDeviceOptions options;
    options.url = take_value(nvmf::parse_nvme_url(target_->url() + setting_.url_options));
    options.host.nqn = "nqn.2024-01.org.example:host";
    options.queue_entries = setting_.queue_entries;
    device = take_value(NvmeDevice::open(options));
  }

  Setting setting_;
  std::unique_ptr<Target> target_;
};

// The target ends, too, and begins again on the same file.
class FileStage final : public NvmfStage {
 public:
  FileStage() : NvmfStage({}) { begin(); }
  bool reopen() override {
    device.reset();
    target_.reset();
    setting_.medium.device.reset();
    begin();
    return true;
  }

 private:
  void begin() {
    FileDeviceOptions file;
    file.path = directory_.file("medium");
    file.create = true;
    file.bytes = kBytes;
    setting_.medium.device = take_value(FileDevice::open(file));
    open();
  }
  env::TempDirectory directory_ = take_value(env::TempDirectory::create("larder-nvmf"));
};

std::unique_ptr<DeviceStage> ram(const std::function<void(Setting&)>& change) {
  Setting setting;
  setting.medium.ram_bytes = kBytes;
  change(setting);
  auto stage = std::make_unique<NvmfStage>(std::move(setting));
  stage->open();
  return stage;
}

DeviceUnderTest one(const std::string& name, std::function<void(Setting&)> change) {
  return {name, [change = std::move(change)] { return ram(change); }};
}

std::vector<DeviceUnderTest> devices() {
  return {
      one("Ram", [](Setting&) {}),
      one("RamOfSmallBlocks", [](Setting& s) { s.medium.block_bytes = 512; }),
      one("Digests", [](Setting& s) { s.url_options = "?hdgst=1&ddgst=1"; }),
      one("NarrowInEveryWay",
          [](Setting& s) {
            s.target.transfer_max = 8192;
            s.target.h2c_data_max = 4096;
            s.target.in_capsule_bytes = 0;
            s.target.queue_entries_max = 4;
            s.target.cpda = 31;
          }),
      one("ManyReadyToTransfers",
          [](Setting& s) {
            s.target.r2t_bytes_max = 4096;
            s.target.h2c_data_max = 4096;
            s.target.in_capsule_bytes = 0;
            s.url_options = "?ddgst=1";
          }),
      one("SeveralReactors", [](Setting& s) { s.target.threads = 2; }),
      {"File", [] { return std::make_unique<FileStage>(); }},
      one("LateAndReordered",
          [](Setting& s) {
            auto memory = take_value(MemoryDevice::create({.bytes = kBytes}));
            s.medium.ram_bytes = 0;
            s.medium.device = take_value(
                FaultDevice::create(std::move(memory), FaultOptions{.late = 0.3, .reorder = 0.3}));
          }),
  };
}

INSTANTIATE_TEST_SUITE_P(Nvmf, BlockDeviceConformance, testing::ValuesIn(devices()),
                         [](const auto& made) { return made.param.name; });

}  // namespace
}  // namespace larder::block
