// SPDX-License-Identifier: Apache-2.0
// larder device against a node whose devices are the test's.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cli.h"
#include "apps/exit_codes.h"
#include "node/device_testing.h"

namespace larder::apps {
namespace {

using nlohmann::json;
using node::FakeDevices;

struct Outcome {
  int exit = -1;
  std::string out;
  std::string err;
};

class CliDeviceTest : public testing::Test {
 protected:
  Outcome device(std::vector<std::string> words, bool to_node = true) const {
    words.insert(words.begin(), "device");
    if (to_node) words.insert(words.end(), {"--socket", node_.socket()});
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.exit = run_larder(words);
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err = testing::internal::GetCapturedStderr();
    return outcome;
  }

  FakeDevices devices_;
  node::DeviceNode node_{&devices_};
};

TEST_F(CliDeviceTest, FromAddToRm) {
  EXPECT_NE(device({"ls"}).err.find("larder device add PATH"), std::string::npos);
  const Outcome added = device({"add", "/mnt/a", "--size", "2MiB"});
  EXPECT_EQ(added.exit, kExitOk) << added.err;
  EXPECT_NE(added.out.find(FakeDevices::id(0)), std::string::npos) << added.out;
  EXPECT_EQ(device({"add", "/mnt/b"}).exit, kExitOk);
  devices_.set(1, [](node::DeviceStatus& status) {
    status.used = 3 << 20;
    status.records = 12345;
    status.errors = 2;
    status.last_error = "write at 4096: EIO";
  });
  const Outcome drained = device({"drain", FakeDevices::id(1)});
  EXPECT_EQ(drained.exit, kExitOk) << drained.err;
  const Outcome listed = device({"ls"});
  EXPECT_EQ(listed.exit, kExitOk);
  EXPECT_EQ(
      listed.out,
      "id                                       state  capacity      used  records  errors    "
      "path          last error\n" +
          FakeDevices::id(0) +
          "   healthy  2.00 MiB       0 B        0       0  /mnt/a                   -\n" +
          FakeDevices::id(1) +
          "  draining  1.00 GiB  3.00 MiB   12,345       2  /mnt/b  write at 4096: EIO\n");
  const Outcome as_json = device({"ls", "--json"});
  EXPECT_EQ(as_json.exit, kExitOk);
  const json all = json::parse(as_json.out)["devices"];
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["capacity_bytes"], 2 << 20);
  EXPECT_EQ(all[1]["id"], FakeDevices::id(1));
  EXPECT_EQ(all[1]["path"], "/mnt/b");
  EXPECT_EQ(all[1]["state"], "draining");
  EXPECT_EQ(all[1]["used_bytes"], 3 << 20);
  EXPECT_EQ(all[1]["records"], 12345);
  EXPECT_EQ(all[1]["errors"], 2);
  EXPECT_EQ(all[1]["last_error"], "write at 4096: EIO");
  EXPECT_EQ(json::parse(device({"enable", FakeDevices::id(1), "--json"}).out)["state"], "healthy");
  EXPECT_EQ(json::parse(device({"disable", FakeDevices::id(1), "--json"}).out)["state"],
            "disabled_by_admin");
  EXPECT_EQ(device({"rm", FakeDevices::id(1)}).out, "removed " + FakeDevices::id(1) + "\n");
  EXPECT_EQ(json::parse(device({"rm", FakeDevices::id(0), "--json"}).out)["removed"],
            FakeDevices::id(0));
}

TEST_F(CliDeviceTest, IdsMayBeCutShortWhileTheyAreTheOnlyOne) {
  EXPECT_EQ(device({"add", "/mnt/a"}).exit, kExitOk);
  EXPECT_EQ(device({"add", "/mnt/b"}).exit, kExitOk);
  const Outcome drained = device({"drain", "00000001"});
  EXPECT_EQ(drained.exit, kExitOk) << drained.err;
  EXPECT_NE(drained.out.find("/mnt/b"), std::string::npos);
  const Outcome both = device({"rm", "0000000"});
  EXPECT_EQ(both.exit, kExitUsage);
  EXPECT_NE(both.err.find(FakeDevices::id(0)), std::string::npos) << both.err;
  EXPECT_NE(both.err.find(FakeDevices::id(1)), std::string::npos) << both.err;
  EXPECT_EQ(device({"rm", ""}).exit, kExitUsage);
  const Outcome none = device({"rm", "f"});
  EXPECT_EQ(none.exit, kExitMissing);
  EXPECT_NE(none.err.find("larder device ls"), std::string::npos) << none.err;
  EXPECT_EQ(json::parse(device({"ls", "--json"}).out)["devices"].size(), 2U);
}

TEST_F(CliDeviceTest, PathsAreMadeAbsolute) {
  EXPECT_EQ(device({"add", "x/../here"}).exit, kExitOk);
  EXPECT_EQ(devices_.asked().front(),
            "add " + (std::filesystem::current_path() / "here").string() + " 0");
}

TEST_F(CliDeviceTest, WrongWordsExitTwo) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"fly"},
                                                       {"add"},
                                                       {"rm"},
                                                       {"drain", "a", "b"},
                                                       {"add", "/a", "--size", "much"},
                                                       {"add", "/a", "--size", "0"},
                                                       {"ls", "--nonsense"}};
  for (const auto& words : wrong) {
    const Outcome outcome = device(words);
    EXPECT_EQ(outcome.exit, kExitUsage) << outcome.err;
    EXPECT_EQ(outcome.err.find("larder: error: "), 0U) << outcome.err;
  }
  EXPECT_TRUE(devices_.asked().empty());
}

TEST_F(CliDeviceTest, RefusalsSayWhy) {
  const Outcome refused = device({"add", "/other"});
  EXPECT_EQ(refused.exit, kExitError);
  EXPECT_NE(refused.err.find("owned by node n2:7"), std::string::npos) << refused.err;
  const node::DeviceNode without(nullptr);
  const Outcome none = device({"ls", "--socket", without.socket()}, false);
  EXPECT_EQ(none.exit, kExitError);
  EXPECT_NE(none.err.find("start it with --disk"), std::string::npos) << none.err;
  EXPECT_EQ(device({"ls", "--socket", "/no/such.sock"}, false).exit, kExitUnreachable);
}

// What a node says of its devices cannot write to the terminal.
TEST_F(CliDeviceTest, HostileTextsAreShownNotObeyed) {
  EXPECT_EQ(device({"add", "/mnt/a"}).exit, kExitOk);
  devices_.set(0, [](node::DeviceStatus& status) { status.path = "/mnt/\x1b[2J\n"; });
  const Outcome listed = device({"ls"});
  EXPECT_NE(listed.out.find("/mnt/\\x1b[2J\\x0a"), std::string::npos) << listed.out;
  EXPECT_TRUE(json::accept(device({"ls", "--json"}).out));
}

TEST_F(CliDeviceTest, HelpHasExamples) {
  const Outcome help = device({"--help"}, false);
  EXPECT_EQ(help.exit, kExitOk);
  EXPECT_NE(help.out.find("larder device add /mnt/nvme0/larder --size 500GiB"), std::string::npos);
  for (const char* action : {"ls", "add", "drain", "disable", "enable", "rm"}) {
    EXPECT_NE(help.out.find(action), std::string::npos);
    EXPECT_EQ(device({action, "--help"}, false).exit, kExitOk) << action;
  }
}

}  // namespace
}  // namespace larder::apps
