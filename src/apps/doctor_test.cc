// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>

namespace larder::apps {
namespace {

using nlohmann::json;

env::HostReport good_host() {
  env::HostReport host;
  host.kernel = "6.1.0-18-amd64";
  host.kernel_major = 6;
  host.kernel_minor = 1;
  host.cpu = {.usable = 16, .quota = {}, .numa_nodes = 1, .flags = "sse4_2 avx2 avx512f"};
  host.memory = {.total = 64ULL << 30,
                 .available = 32ULL << 30,
                 .cgroup_limit = {},
                 .shm_size = 32ULL << 30,
                 .shm_free = 32ULL << 30};
  host.huge = {.total = 512,
               .free = 512,
               .page_size = 2 << 20,
               .thp = "always",
               .shmem = "advise",
               .memfd_errno = 0};
  host.memfd.seal_held = true;
  host.directory = {.path = "/data",
                    .write_errno = 0,
                    .direct_errno = 0,
                    .in_memory = false,
                    .filesystem = "xfs",
                    .free = 1ULL << 40};
  host.limits = {.memlock_soft = {}, .memlock_hard = {}, .files_soft = 65536, .files_hard = 65536};
  host.network = {.tcp_rmem_max = 16 << 20,
                  .tcp_wmem_max = 16 << 20,
                  .socket_dir = "/run/larder",
                  .socket_errno = 0};
  return host;
}

Check check_of(const env::HostReport& host, std::string_view id) {
  for (Check& check : judge_host(host)) {
    if (check.id == id) return check;
  }
  ADD_FAILURE() << "no check named " << id;
  return {};
}

TEST(Doctor, AGoodHostIsFine) {
  const auto checks = judge_host(good_host());
  for (const Check& check : checks) {
    EXPECT_EQ(check.mark, Mark::kOk) << check.id << ": " << check.found;
    EXPECT_TRUE(check.cost.empty() && check.mend.empty()) << check.id;
    EXPECT_FALSE(check.found.empty()) << check.id;
  }
  EXPECT_EQ(worst(checks), Mark::kOk);
  EXPECT_EQ(worst({}), Mark::kOk);
}

// One thing is taken from the good host at a time.
struct Lack {
  const char* id;
  Mark mark;
  void (*take)(env::HostReport&);
};

class DoctorLack : public testing::TestWithParam<Lack> {};

TEST_P(DoctorLack, IsMarkedAndSaysWhatToDo) {
  env::HostReport host = good_host();
  GetParam().take(host);
  const Check check = check_of(host, GetParam().id);
  EXPECT_EQ(check.mark, GetParam().mark) << check.found;
  EXPECT_FALSE(check.found.empty());
  EXPECT_FALSE(check.cost.empty());
  EXPECT_FALSE(check.mend.empty());
  // Nothing else is marked, but for O_DIRECT, which needs a directory to be tried in.
  for (const Check& other : judge_host(host)) {
    const bool follows = check.id == "directory" && other.id == "o_direct";
    EXPECT_TRUE(other.mark == Mark::kOk || other.id == check.id || follows) << other.id;
  }
}

constexpr Mark kWarn = Mark::kWarn;
constexpr Mark kFail = Mark::kFail;
const Lack kLacks[] = {
    {"kernel", kWarn, [](auto& h) { h.kernel_major = 4; }},
    {"cores", kWarn, [](auto& h) { h.cpu.usable = 1; }},
    {"cores", kWarn, [](auto& h) { h.cpu.quota = 0.5; }},
    {"numa", kWarn, [](auto& h) { h.cpu.numa_nodes = 2; }},
    {"cpu_hashing", kWarn, [](auto& h) { h.cpu.flags = "sse2"; }},
    {"memory", kWarn, [](auto& h) { h.memory.available = 512 << 20; }},
    {"memory", kFail, [](auto& h) { h.memory.cgroup_limit = 1 << 20; }},
    {"memory", kWarn, [](auto& h) { h.memory.total = h.memory.available = 0; }},
    {"memfd", kFail, [](auto& h) { h.memfd.create_errno = EPERM; }},
    {"memfd_seal", kFail, [](auto& h) { h.memfd.seal_errno = EINVAL; }},
    {"memfd_seal", kFail, [](auto& h) { h.memfd.seal_held = false; }},
    {"huge_pages", kWarn, [](auto& h) { h.huge.memfd_errno = ENOMEM; }},
    {"memlock", kWarn, [](auto& h) { h.limits.memlock_soft = 65536; }},
    {"open_files", kWarn, [](auto& h) { h.limits.files_soft = 1024; }},
    {"open_files", kFail, [](auto& h) { h.limits.files_soft = 16; }},
    {"dev_shm", kWarn, [](auto& h) { h.memory.shm_size = 64 << 20; }},
    {"socket_folder", kFail, [](auto& h) { h.network.socket_errno = EACCES; }},
    {"tcp_buffers", kWarn, [](auto& h) { h.network.tcp_wmem_max = 65536; }},
    {"io_uring", kWarn, [](auto& h) { h.io_uring.setup_errno = ENOSYS; }},
    {"directory", kFail, [](auto& h) { h.directory.write_errno = ENOENT; }},
    {"directory", kWarn, [](auto& h) { h.directory.in_memory = true; }},
    {"o_direct", kWarn, [](auto& h) { h.directory.direct_errno = EINVAL; }},
};
INSTANTIATE_TEST_SUITE_P(EveryCheck, DoctorLack, testing::ValuesIn(kLacks));

TEST(Doctor, SharedThpMattersOnlyWithoutAHugePagePool) {
  env::HostReport host = good_host();
  host.huge.shmem = "never";
  EXPECT_EQ(check_of(host, "thp").mark, Mark::kOk);
  host.huge.memfd_errno = ENOMEM;
  EXPECT_EQ(check_of(host, "thp").mark, Mark::kWarn);
}

TEST(Doctor, TheSysctlThatForbidsIoUringIsNamed) {
  env::HostReport host = good_host();
  host.io_uring = {.setup_errno = EPERM, .disabled = 2};
  EXPECT_NE(check_of(host, "io_uring").mend.find("kernel.io_uring_disabled=0"), std::string::npos);
  host.io_uring.disabled = 0;
  EXPECT_NE(check_of(host, "io_uring").mend.find("seccomp"), std::string::npos);
}

TEST(Doctor, TableHasEveryCheckAndFits) {
  env::HostReport host = good_host();
  host.memfd.create_errno = EPERM;
  host.directory.path = std::string(150, 'p') + "\n\x1b[31m";
  const auto checks = judge_host(host);
  const std::string table = render_table(checks);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 126U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
  }
  for (const Check& check : checks) EXPECT_NE(table.find(check.id), std::string::npos);
  EXPECT_NE(table.find("fail  memfd"), std::string::npos);
  EXPECT_NE(table.find("what the lack costs"), std::string::npos);
  EXPECT_NE(table.find("1 must be mended: Larder cannot run here"), std::string::npos);
}

TEST(Doctor, JsonParsesAndAgreesWithTheChecks) {
  env::HostReport host = good_host();
  host.directory.path = "/bad\xff\xfe";
  host.cpu.usable = 1;
  const auto checks = judge_host(host);
  const json parsed = json::parse(render_json(host, checks));
  EXPECT_EQ(parsed["version"], 1);
  EXPECT_EQ(parsed["verdict"], "warn");
  ASSERT_EQ(parsed["checks"].size(), checks.size());
  for (std::size_t i = 0; i < checks.size(); ++i) {
    EXPECT_EQ(parsed["checks"][i]["id"], checks[i].id);
    EXPECT_EQ(parsed["checks"][i]["mark"], mark_name(checks[i].mark));
  }
  EXPECT_EQ(parsed["host"]["cores"], 1);
  EXPECT_EQ(parsed["host"]["memory_cgroup_bytes"], nullptr);
  EXPECT_EQ(parsed["host"]["o_direct"], true);
}

TEST(Doctor, RunsOnThisHost) {
  const std::string dir = testing::TempDir();
  testing::internal::CaptureStdout();
  const int missing =
      run_doctor({.json = true, .dir = dir + "/not-there", .socket = dir + "/node.sock"});
  const json parsed = json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(missing, 1);
  EXPECT_EQ(parsed["verdict"], "fail");
  EXPECT_EQ(parsed["host"]["directory_writable"], false);
  EXPECT_EQ(parsed["host"]["socket_folder_works"], true);

  testing::internal::CaptureStdout();
  run_doctor({.json = false, .dir = dir, .socket = dir + "/node.sock"});
  EXPECT_NE(testing::internal::GetCapturedStdout().find("directory"), std::string::npos);
}

}  // namespace
}  // namespace larder::apps
