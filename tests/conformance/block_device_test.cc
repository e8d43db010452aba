// SPDX-License-Identifier: Apache-2.0
#include "block_device_suite.h"

#include <sys/mman.h>
#include <unistd.h>

#include <iostream>

#include "block/fault_device.h"
#include "block/file_device.h"
#include "env/fd.h"
#include "env/temp_directory.h"
#include "fileio/pool_backend.h"

namespace larder::block {
namespace {

std::unique_ptr<DeviceStage> memory_stage(const MemoryDeviceOptions& options) {
  auto stage = std::make_unique<DeviceStage>();
  stage->device = take_value(MemoryDevice::create(options));
  return stage;
}

constexpr std::uint64_t kFileBytes = 4U << 20U;

class FileStage final : public DeviceStage {
 public:
  explicit FileStage(FileDeviceOptions options) : options_(std::move(options)) {
    if (options_.path.empty()) options_.path = directory_.file("device");
  }
  bool reopen() override {
    device.reset();
    auto opened = take_value(FileDevice::open(options_));
    if (!opened->direct()) std::cout << "[ note     ] through the page cache\n";
    device = std::move(opened);
    return true;
  }

  env::Fd memory;  // what the path names, if not a file of the directory

 private:
  env::TempDirectory directory_ = take_value(env::TempDirectory::create("larder-block"));
  FileDeviceOptions options_;
};

std::unique_ptr<DeviceStage> file_stage(FileDeviceOptions options) {
  options.create = true;
  options.bytes = kFileBytes;
  auto stage = std::make_unique<FileStage>(std::move(options));
  stage->reopen();
  return stage;
}

// A file of a tmpfs that needs no place.
std::unique_ptr<DeviceStage> tmpfs_stage() {
  env::Fd memory(::memfd_create("larder-block", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(memory.get(), kFileBytes), 0);
  FileDeviceOptions options;
  options.path = "/proc/self/fd/" + std::to_string(memory.get());
  auto stage = std::make_unique<FileStage>(options);
  stage->memory = std::move(memory);
  stage->reopen();
  return stage;
}

// Over a stage that survives, or over memory.
class FaultStage final : public DeviceStage {
 public:
  FaultStage(std::unique_ptr<DeviceStage> below, const FaultOptions& options)
      : below_(std::move(below)), options_(options) {
    reopen();
  }
  bool reopen() override {
    device.reset();
    below_->reopen();
    device = take_value(FaultDevice::create(below_->device, options_));
    return true;
  }

 private:
  std::unique_ptr<DeviceStage> below_;
  const FaultOptions options_;
};

Result<std::unique_ptr<fileio::IoBackend>> threads(std::size_t depth) {
  LARDER_ASSIGN(auto pool, fileio::PoolBackend::create({.depth = depth, .threads = 3}));
  return std::unique_ptr<fileio::IoBackend>(std::move(pool));
}

std::vector<DeviceUnderTest> devices() {
  return {
      {"Memory", [] { return memory_stage({.bytes = 4U << 20U}); }},
      {"MemoryOfSmallBlocks",
       [] {
         return memory_stage({.bytes = 1U << 20U, .block_bytes = 512, .memory_alignment = 4});
       }},
      {"File", [] { return file_stage({}); }},
      {"FileOfLargeBlocks", [] { return file_stage({.reserve = false, .block_bytes = 16384}); }},
      {"FileThroughThePageCache", [] { return file_stage({.direct = fileio::Direct::kNo}); }},
      {"FileByThreads", [] { return file_stage({.make_backend = threads}); }},
      {"FileOnTmpfs", tmpfs_stage},
      {"FaultOverMemory",
       [] {
         return std::make_unique<FaultStage>(memory_stage({.bytes = 4U << 20U}), FaultOptions());
       }},
      {"FaultOverFile",
       [] { return std::make_unique<FaultStage>(file_stage({}), FaultOptions()); }},
      {"LateAndReordered",
       [] {
         return std::make_unique<FaultStage>(
             memory_stage({.bytes = 4U << 20U}),
             FaultOptions{.late = 0.3, .reorder = 0.3, .cache_bytes_max = 100000});
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(All, BlockDeviceConformance, testing::ValuesIn(devices()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace larder::block
