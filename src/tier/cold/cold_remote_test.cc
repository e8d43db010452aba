// SPDX-License-Identifier: Apache-2.0
// A remote disk whose target comes back with the same name, and with something else behind it.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "block/memory_device.h"
#include "nvmf/target/target.h"
#include "tier/cold/cold_testing.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::size_t kValue = 64U << 10U;

class ColdRemoteTest : public testing::Test {
 protected:
  // Each has a medium of its own, and says that it is the same.
  std::unique_ptr<nvmf::Target> start_target(std::shared_ptr<block::BlockDevice> medium) {
    nvmf::TargetOptions options;
    options.listen.port = port_;
    nvmf::NamespaceOptions space;
    space.device = std::move(medium);
    space.identity = "the same";
    auto target = nvmf::Target::create(options, {space});
    EXPECT_TRUE(target) << target.error().to_string();
    port_ = (*target)->address().port;
    return std::move(*target);
  }
  static std::shared_ptr<block::BlockDevice> blank() {
    return block::MemoryDevice::create({.bytes = 64 * kMiB}).value();
  }
  Result<std::shared_ptr<ColdDevice>> open(const nvmf::Target& target, const std::string& owner,
                                           ColdOptions options = {}) {
    const std::string url = target.url() + "?host_nqn=nqn.2014-08.org.nvmexpress:larder-test";
    return ColdDevice::open(parse_disk(url).value(), options, owner, 1);
  }
  // A value on the disk alone, and the target gone.
  std::shared_ptr<ColdDevice> put_and_lose(ColdBed& bed) {
    target_ = start_target(medium_);
    auto disk = open(*target_, "test:1").value();
    EXPECT_TRUE(bed.cold->add(disk));
    bed.cold->finish_recovery();
    bed.put_cold("a", make_value(1, kValue));
    target_.reset();
    return disk;
  }
  // What a read says after `after` has taken the place of the target, and the disk then.
  void expect_failed(const std::function<std::shared_ptr<block::BlockDevice>()>& after,
                     const std::string& part) {
    ColdBed bed(directory_.path());
    const auto disk = put_and_lose(bed);
    const auto next = after();
    target_ = start_target(next);
    EXPECT_FALSE(bed.restore("a"));
    bed.tick();
    EXPECT_EQ(disk->state(), DeviceState::kFailed);
    EXPECT_NE(disk->last_error().find(part), std::string::npos) << disk->last_error();
  }

  env::TempDirectory directory_ = env::TempDirectory::create("remote").value();
  const std::shared_ptr<block::BlockDevice> medium_ = blank();
  std::uint16_t port_ = 0;
  std::unique_ptr<nvmf::Target> target_;
};

TEST_F(ColdRemoteTest, TheSameStoreGoesOn) {
  ColdBed bed(directory_.path());
  const auto disk = put_and_lose(bed);
  target_ = start_target(medium_);
  EXPECT_TRUE(bed.read("a") == make_value(1, kValue));
  bed.tick();
  EXPECT_EQ(disk->state(), DeviceState::kHealthy);
}

TEST_F(ColdRemoteTest, ABlankMediumIsNotReadFromOrWrittenTo) {
  expect_failed([] { return blank(); }, "holds no record store");
}

TEST_F(ColdRemoteTest, NorIsAnotherStore) {
  expect_failed(
      [this] {
        auto other = blank();
        target_ = start_target(other);
        EXPECT_TRUE(open(*target_, "another:1"));
        target_.reset();
        return other;
      },
      "holds the record store ");
}

// Another node took it over: whoever was given up must not write on.
TEST_F(ColdRemoteTest, NorOneThatAnotherHasOpenedMeanwhile) {
  expect_failed(
      [this] {
        target_ = start_target(medium_);
        ColdOptions options;
        options.take_over = true;
        EXPECT_TRUE(open(*target_, "another:1", options));
        target_.reset();
        return medium_;
      },
      "was opened by 'another:1' meanwhile");
}

}  // namespace
}  // namespace larder::tier
