// SPDX-License-Identifier: Apache-2.0
// The power of a target goes: what it had flushed is there afterwards, what it had not may not be,
// and our initiator never says otherwise.
//
// A failure names its seed. To run that one alone:
//   LARDER_SEED=SEED nvmf_power_test
#include <gtest/gtest.h>

#include "block/block_testing.h"
#include "block/fault_device.h"
#include "env/test_seeds.h"
#include "extent/power_cut_testing.h"
#include "nvmf/host/device.h"
#include "nvmf/target/target.h"

namespace larder::integration {
namespace {

using block::AlignedBuffer;
using block::BlockQueue;
using block::HealthState;
using nvmf::NvmeDevice;
using nvmf::Target;

constexpr std::size_t kBlock = 4096;
constexpr std::uint64_t kBlocks = 64;

nvmf::NvmeDeviceOptions options_for(const std::string& url) {
  nvmf::NvmeDeviceOptions how;
  how.url = nvmf::parse_nvme_url(url).value();
  how.host.nqn = "nqn.2026-11.io.larder:test-host";
  return how;
}

// A target over a disk with a volatile cache, in this process.
class Remote {
 public:
  // `lying_flush`: how often a flush ends well and carries nothing down.
  explicit Remote(std::uint64_t seed, double lying_flush) : seed_(seed), lying_(lying_flush) {
    memory_ = block::take_value(block::MemoryDevice::create({.bytes = kBlocks * kBlock}));
    start();
  }
  void start() {
    block::FaultOptions faults;
    faults.seed = ++seed_;
    faults.lying_flush = lying_;
    disk_ = block::take_value(block::FaultDevice::create(memory_, faults));
    nvmf::TargetOptions options;
    options.listen = address_;
    nvmf::NamespaceOptions space;
    space.device = disk_;
    space.identity = "the same disk after every start";
    target_ = block::take_value(Target::create(options, {space}));
    address_ = target_->address();
  }
  void cut_power() {
    EXPECT_TRUE(disk_->cut_power());
    target_.reset();
    disk_.reset();
  }
  nvmf::NvmeDeviceOptions options() const { return options_for(target_->url()); }

 private:
  std::uint64_t seed_;
  const double lying_;
  std::shared_ptr<block::MemoryDevice> memory_;
  std::shared_ptr<block::FaultDevice> disk_;
  std::unique_ptr<Target> target_;
  env::SocketAddress address_{env::SocketAddress::Kind::kTcp, "127.0.0.1", 0, ""};
};

// Block `number` as write number `version` leaves it; 0: as it was in the beginning.
void stamp(std::span<std::byte> block, std::uint64_t number, std::uint64_t version) {
  for (std::size_t i = 0; i < block.size() / 8; ++i) {
    const std::uint64_t word = version == 0 ? 0 : version << 32U | number << 16U | i;
    std::memcpy(block.data() + i * 8, &word, 8);
  }
}

class Load {
 public:
  explicit Load(std::uint64_t seed, double lying_flush = 0)
      : random_(seed), remote_(seed * 1000, lying_flush) {}

  // How many sectors hold something older than what was flushed.
  std::uint64_t run() {
    auto device = block::take_value(NvmeDevice::open(remote_.options()));
    auto queue = block::queue_of(*device);
    const std::uint64_t steps = 1 + random_() % 40;
    for (std::uint64_t i = 0; i < steps; ++i) step(*queue);
    const bool unflushed = dirty_;
    remote_.cut_power();
    remote_.start();
    // The old device: either all that it knows is durable and it goes on, or it says so.
    if (unflushed) {
      EXPECT_FALSE(block::flush(*queue)) << "what may be gone was called durable";
      EXPECT_EQ(device->health().state, HealthState::kFailed);
    } else {
      look(*queue);
      EXPECT_TRUE(block::flush(*queue));
    }
    queue.reset();
    device = block::take_value(NvmeDevice::open(remote_.options()));
    queue = block::queue_of(*device);
    look(*queue);
    return lost_;
  }

 private:
  void step(BlockQueue& queue) {
    if (random_() % 5 == 0) {
      ASSERT_TRUE(block::flush(queue));
      for (auto& [durable, newest] : books_) durable = newest;
      dirty_ = false;
      return;
    }
    const std::uint64_t number = random_() % kBlocks;
    AlignedBuffer out = block::buffer_of(kBlock);
    stamp(out.span(), number, ++versions_);
    ASSERT_TRUE(block::write_all(queue, number * kBlock, out.span()));
    books_[number].newest = versions_;
    dirty_ = true;
  }
  // Every block holds something that was written to it, and nothing older than what was flushed.
  void look(BlockQueue& queue) {
    AlignedBuffer in = block::buffer_of(kBlock);
    for (std::uint64_t number = 0; number < kBlocks; ++number) {
      const auto read = block::read_all(queue, number * kBlock, in.span());
      ASSERT_TRUE(read) << read.error().to_string();
      for (std::size_t sector = 0; sector < kBlock; sector += 512) {
        std::uint64_t first = 0;
        std::memcpy(&first, in.data() + sector, 8);
        const std::uint64_t version = first >> 32U;
        AlignedBuffer expected = block::buffer_of(kBlock);
        stamp(expected.span(), number, version);
        EXPECT_EQ(std::memcmp(expected.data() + sector, in.data() + sector, 512), 0)
            << "block " << number;
        if (version < books_[number].durable) ++lost_;
        EXPECT_LE(version, books_[number].newest) << "block " << number;
      }
    }
  }

  struct Book {
    std::uint64_t durable = 0;
    std::uint64_t newest = 0;
  };
  std::mt19937_64 random_;
  Remote remote_;
  std::array<Book, kBlocks> books_{};
  std::uint64_t versions_ = 0;
  bool dirty_ = false;
  std::uint64_t lost_ = 0;
};

TEST(NvmfPower, FlushedIsThereAndUnflushedIsNeverCalledDurable) {
  const env::TestSeeds seeds = env::test_seeds(16);
  for (std::uint64_t seed = seeds.first; seed < seeds.end() && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "nvmf_power_test", "'NvmfPower.Flushed*'"));
    EXPECT_EQ(Load(seed).run(), 0U) << "sectors that were flushed are not there";
  }
}

// That a target which breaks its word is caught, or the test above means nothing.
TEST(NvmfPower, FindsOutALiar) {
  std::uint64_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) lost += Load(seed, 1.0).run();
  EXPECT_GT(lost, 0U);
}

// A record store over the network, whose disk loses its power at one change after the other.
TEST(NvmfPower, RecordsSurviveAsOnADiskOfThisHost) {
  std::unique_ptr<Target> target;
  const auto reach = [&target](std::shared_ptr<block::FaultDevice> disk) {
    target.reset();
    nvmf::TargetOptions options;
    options.listen = {env::SocketAddress::Kind::kTcp, "127.0.0.1", 0, ""};
    nvmf::NamespaceOptions space;
    space.device = std::move(disk);
    target = block::take_value(Target::create(options, {space}));
    return block::take_value(NvmeDevice::open(options_for(target->url())));
  };
  const env::TestSeeds seeds = env::test_seeds(2);
  std::size_t records = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(env::seed_trace(seed, "nvmf_power_test", "'NvmfPower.Records*'"));
    const std::uint64_t changes = extent::PowerCutWorld(seed, reach).live(seed, 0);
    ASSERT_GT(changes, 10U);
    for (std::uint64_t at = 1 + seed % 3; at <= changes; at += 3) {
      SCOPED_TRACE("cut at change " + std::to_string(at));
      extent::PowerCutWorld world(seed, reach);
      world.live(seed * 1000 + at, at);
      target.reset();
      world.check();
      records += world.last_seen;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(records, 0U);
}

}  // namespace
}  // namespace larder::integration
