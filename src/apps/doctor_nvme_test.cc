// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor_nvme.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/doctor_testing.h"
#include "env/socket.h"
#include "env/temp_directory.h"

namespace larder::apps {
namespace {

using env::kMicro;
using nlohmann::json;

constexpr std::uint64_t kGiB = 1ULL << 30;

NvmeReport good_namespace() {
  NvmeReport report;
  report.url = "nvme-tcp://10.0.0.9:4420/nqn.2026-01.org.example:store#1";
  report.attached = report.tried = true;
  report.host_nqn = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";
  report.subsystem = "nqn.2026-01.org.example:store";
  report.model = "Larder target";
  report.serial = "0123456789";
  report.firmware = "1";
  report.io_queues = 64;
  report.queue_entries = 128;
  report.transfer_max = 1U << 20U;
  report.in_capsule_max = 16384;
  report.nsid = 1;
  report.id = "uuid:11111111-2222-4333-8444-555555555555";
  report.bytes = 100 * kGiB;
  report.block_bytes = 4096;
  report.volatile_cache = true;
  report.read_p50 = 60 * kMicro;
  report.read_p99 = 200 * kMicro;
  report.read_bytes_per_s = 2e9;
  report.flush = 300 * kMicro;
  return report;
}

TEST(DoctorNvme, AGoodNamespaceIsFine) {
  expect_all_fine(judge_nvme(good_namespace()), 10);
}

class DoctorNvmeLack : public testing::TestWithParam<Lack<NvmeReport>> {};

TEST_P(DoctorNvmeLack, IsMarkedAndSaysWhatToDo) {
  NvmeReport report = good_namespace();
  GetParam().take(report);
  expect_only(judge_nvme(report), GetParam().id, GetParam().mark);
}

constexpr Lack<NvmeReport> kLacks[] = {
    {"nvme_connect", Mark::kFail,
     [](NvmeReport& r) {
       r.attached = false;
       r.code = Code::kUnavailable;
       r.error = "unavailable: 10.0.0.9:4420: Connection refused";
     }},
    {"nvme_connect", Mark::kFail,
     [](NvmeReport& r) {
       r.attached = false;
       r.code = Code::kPermissionDenied;
       r.error = "the host may not connect";
     }},
    {"nvme_space", Mark::kFail,
     [](NvmeReport& r) {
       r.bytes = 0;
       r.code = Code::kNotFound;
       r.error = "it has no namespace";
     }},
    {"nvme_space", Mark::kFail, [](NvmeReport& r) { r.write_protected = true; }},
    {"nvme_space", Mark::kWarn, [](NvmeReport& r) { r.bytes = kGiB / 2; }},
    {"nvme_limits", Mark::kWarn, [](NvmeReport& r) { r.transfer_max = 16384; }},
    {"nvme_limits", Mark::kWarn, [](NvmeReport& r) { r.io_queues = 1; }},
    {"nvme_trial", Mark::kFail,
     [](NvmeReport& r) {
       r.tried = false;
       r.error = "a read failed";
     }},
    {"nvme_store", Mark::kFail,
     [](NvmeReport& r) { r.store = {.there = true, .error = "somebody else's data"}; }},
    {"nvme_latency", Mark::kWarn, [](NvmeReport& r) { r.read_p50 = 5 * env::kMilli; }},
    {"nvme_rate", Mark::kWarn, [](NvmeReport& r) { r.read_bytes_per_s = 5e6; }},
};
INSTANTIATE_TEST_SUITE_P(All, DoctorNvmeLack, testing::ValuesIn(kLacks));

TEST(DoctorNvme, WhoMayNotComeInIsToldItsName) {
  NvmeReport report = good_namespace();
  report.attached = false;
  report.code = Code::kPermissionDenied;
  report.error = "refused";
  EXPECT_NE(judge_nvme(report).front().mend.find(report.host_nqn), std::string::npos);
}

TEST(DoctorNvme, JsonSaysTheSame) {
  NvmeReport report = good_namespace();
  const json good = json::parse(render_nvme_json(report, judge_nvme(report)));
  EXPECT_EQ(good["version"], 1);
  EXPECT_EQ(good["verdict"], "ok");
  EXPECT_EQ(good["nvme"]["bytes"], report.bytes);
  EXPECT_EQ(good["nvme"]["read_4k_p50_ns"], report.read_p50);
  EXPECT_TRUE(good["nvme"]["store"].is_null());
  report.attached = report.tried = false;
  report.error = "\xff not text";
  const json bad = json::parse(render_nvme_json(report, judge_nvme(report)));
  EXPECT_EQ(bad["verdict"], "fail");
  EXPECT_TRUE(bad["nvme"]["bytes"].is_null());
  EXPECT_TRUE(bad["nvme"]["flush_ns"].is_null());
}

TEST(DoctorNvme, NobodyThereIsSaidSo) {
  const env::TempDirectory state = env::TempDirectory::create("larder-doctor").value();
  const auto any = env::SocketAddress::parse("127.0.0.1:0").value();
  std::uint16_t port = 0;
  {
    const env::Fd listener = env::listen_on(any, 1).value();
    port = env::local_port(listener.get()).value();
  }
  const auto url = nvmf::parse_nvme_url("nvme-tcp://127.0.0.1:" + std::to_string(port) +
                                        "/nqn.2026-01.org.example:store");
  ASSERT_TRUE(url);
  NvmeProbeOptions options;
  options.host_state = state.path();
  const NvmeReport report = probe_nvme(*url, options);
  EXPECT_FALSE(report.attached);
  EXPECT_NE(report.error.find(std::to_string(port)), std::string::npos) << report.error;
  EXPECT_EQ(worst(judge_nvme(report)), Mark::kFail);
}

TEST(DoctorNvme, AUrlWithoutASubsystemIsRefused) {
  EXPECT_EQ(run_nvme_doctor("nvme-tcp://127.0.0.1", false), 2);
  EXPECT_EQ(run_nvme_doctor("nvme-tcp://", false), 2);
}

}  // namespace
}  // namespace larder::apps
