// SPDX-License-Identifier: Apache-2.0
// What goes to disks and comes from them is in the books as what it is, of local and of remote
// disks; and what it takes from NIC and drive has the same intents.
#include <gtest/gtest.h>

#include <string>

#include "nvmf/target/target.h"
#include "tier/cold/cold_testing.h"

namespace larder::tier {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kBlock = 4096;
constexpr std::size_t kValue = (64U << 10U) + 1;  // the last block is not full
constexpr qos::Purpose kFetch{Intent::kForegroundPrefixFetch, TrafficClass::kHigh};

class ColdBooksTest : public testing::Test {
 protected:
  ColdBooksTest() {
    nvmf::TargetOptions target;
    target.listen.port = 0;
    nvmf::NamespaceOptions space;
    space.ram_bytes = 64 * kMiB;
    target_ = nvmf::Target::create(target, {space}).value();
    ColdBedOptions options;
    options.cold.metrics = &wire_;
    options.cold.promotion = Promotion::kNever;
    cold_ = options.cold;
    bed_ = std::make_unique<ColdBed>(directory_.path(), 1, options);
  }
  std::shared_ptr<ColdDevice> add_remote() {
    const std::string url = target_->url() + "?host_nqn=nqn.2014-08.org.nvmexpress:larder-test";
    auto device = ColdDevice::open(parse_disk(url).value(), cold_, "test:1", 1);
    EXPECT_TRUE(device) << device.error().to_string();
    EXPECT_TRUE(bed_->cold->add(*device));
    bed_->cold->finish_recovery();
    return *device;
  }
  static std::uint64_t value_of(const obs::Registry& registry, const std::string& series) {
    const std::string text = registry.text();
    const auto at = text.find("\n" + series + " ");
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + series.size() + 2));
  }
  std::uint64_t booked(const std::string& transport, const std::string& direction,
                       const std::string& intent, const std::string& traffic_class) {
    return value_of(bed_->transfers->registry(), "larder_transfer_bytes_total{class=\"" +
                                                     traffic_class + "\",direction=\"" + direction +
                                                     "\",intent=\"" + intent + "\",transport=\"" +
                                                     transport + "\"}");
  }
  bool knows(const std::string& transport) {
    return bed_->transfers->registry().text().find("\"" + transport + "\"") != std::string::npos;
  }
  std::uint64_t charged(const std::string& traffic_class, const std::string& intent,
                        const std::string& resource) {
    return value_of(wire_, "larder_nvmf_charged_bytes_total{class=\"" + traffic_class +
                               "\",intent=\"" + intent + "\",resource=\"" + resource +
                               "\",subsystem=\"" + target_->nqn() + "\"}");
  }
  void fetch(std::string_view name) {
    std::promise<bool> promise;
    bed_->cold->restorer().restore(
        bed_->find(name), kFetch, false,
        [&](const Result<RestoredRef>& value) { promise.set_value(value.has_value()); });
    EXPECT_TRUE(promise.get_future().get());
  }
  void drain(const std::shared_ptr<ColdDevice>& disk) {
    bed_->cold->set_state(*disk, DeviceState::kDraining);
    while (disk->index().records() > 0) {
      bed_->tick();
      ASSERT_TRUE(bed_->settle());
    }
  }

  env::TempDirectory directory_ = env::TempDirectory::create("books").value();
  obs::Registry wire_;
  std::unique_ptr<nvmf::Target> target_;
  ColdOptions cold_;
  std::unique_ptr<ColdBed> bed_;  // before its target goes
};

TEST_F(ColdBooksTest, ALocalDisksBytesAreOfIoUring) {
  bed_->add_disk("a", 64 * kMiB);
  bed_->put_cold("a", make_value(1, kValue));
  fetch("a");
  EXPECT_EQ(booked("io_uring", "write", "local_store_write", "low"), kValue);
  EXPECT_EQ(booked("io_uring", "read", "foreground_prefix_fetch", "high"), kValue);
  EXPECT_FALSE(knows("nvme_tcp"));
  EXPECT_FALSE(knows("remote_store_write"));
}

TEST_F(ColdBooksTest, ARemoteDisksBytesAreOfNvmeTcp) {
  add_remote();
  bed_->put_cold("a", make_value(1, kValue));
  fetch("a");
  EXPECT_EQ(booked("nvme_tcp", "write", "remote_store_write", "low"), kValue);
  EXPECT_EQ(booked("nvme_tcp", "read", "foreground_prefix_fetch", "high"), kValue);
  EXPECT_FALSE(knows("io_uring"));
  EXPECT_FALSE(knows("local_store_write"));
}

TEST_F(ColdBooksTest, ChargesAreTheWholeBlocksOfValuesAndTheirHeaders) {
  add_remote();
  const std::string write = "remote_store_write";
  const std::uint64_t blocks = (kValue + kBlock - 1) / kBlock * kBlock;
  const std::uint64_t before = charged("low", write, "nvme_write");
  EXPECT_GT(before, 0U) << "the store was made, and opened";
  bed_->put_cold("a", make_value(1, kValue));
  fetch("a");
  // One block of the table.
  EXPECT_EQ(charged("low", write, "nvme_write") - before, blocks + kBlock);
  EXPECT_EQ(charged("low", write, "nic_tx"), charged("low", write, "nvme_write"));
  EXPECT_EQ(charged("low", write, "host_memory_bw"),
            charged("low", write, "nic_tx") + charged("low", write, "nic_rx"));
  for (const std::string resource : {"nvme_read", "nic_rx", "host_memory_bw"}) {
    EXPECT_EQ(charged("high", "foreground_prefix_fetch", resource), blocks) << resource;
  }
  // A tombstone is a write like others; nothing is written without saying why.
  ASSERT_TRUE(bed_->remove("a"));
  EXPECT_EQ(charged("low", write, "nvme_write") - before, blocks + 2 * kBlock);
  EXPECT_EQ(charged("low", "unknown", "nvme_write"), 0U);
  EXPECT_GT(charged("low", "unknown", "nvme_read"), 0U) << "superblocks and the scan";
  EXPECT_EQ(charged("high", "unknown", "nvme_read"), 0U);
}

TEST_F(ColdBooksTest, ADrainsReadsAreOfTheDiskThatIsDrained) {
  const auto remote = add_remote();
  bed_->put_cold("a", make_value(1, kValue));
  bed_->add_disk("b", 64 * kMiB);
  drain(remote);
  EXPECT_EQ(booked("nvme_tcp", "read", "remote_store_write", "low"), kValue);
  EXPECT_EQ(booked("io_uring", "write", "local_store_write", "low"), kValue);
  EXPECT_EQ(booked("nvme_tcp", "write", "remote_store_write", "low"), kValue);
}

}  // namespace
}  // namespace larder::tier
