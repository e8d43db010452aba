// SPDX-License-Identifier: Apache-2.0
// The program's commands against a real node, as a script would use them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"

namespace larder::integration {
namespace {

using nlohmann::json;

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("LARDER_SOCKET");
    ASSERT_TRUE(node_.start()) << node_.log();
    socket_ = node_.options(Path::kUnixSocket).address.substr(5);
  }
  Outcome larder(const std::string& words, const std::string& input = "/dev/null") const {
    return run_program(words, dir_, input);
  }
  // The same, told which node.
  Outcome at_node(const std::string& words, const std::string& input = "/dev/null") const {
    return larder(words + " --socket '" + socket_ + "'", input);
  }
  static std::string text_of(const Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  NodeProcess node_;
  Directory dir_;
  std::string socket_;
};

TEST_F(CliTest, ValuesGoInAndOutByFileAndPipe) {
  for (const std::size_t size : {1UL, 70'000UL, 3UL << 20}) {
    const std::string value = text_of(make_value(size, size));
    const std::string file = dir_.write("value", value);
    for (const std::string path : {"shm", "unix"}) {
      const std::string flags = " --path " + path;
      EXPECT_EQ(at_node("put by-file '" + file + "'" + flags).exit, 0);
      const Outcome piped = at_node("get by-file" + flags);
      EXPECT_EQ(piped.exit, 0) << piped.err;
      EXPECT_EQ(piped.out, value);
      EXPECT_EQ(at_node("put by-pipe" + flags, file).exit, 0);
      const Outcome filed = at_node("get by-pipe -o '" + dir_.file("back") + "'" + flags);
      EXPECT_EQ(filed.exit, 0) << filed.err;
      EXPECT_EQ(dir_.read("back"), value);
    }
  }
  const std::string tcp = node_.options(Path::kTcp).address;
  const Outcome got = larder("get by-pipe --path tcp --address " + tcp);
  EXPECT_EQ(got.exit, 0) << got.err;
  EXPECT_EQ(got.out.size(), 3U << 20);
}

TEST_F(CliTest, JsonIsJson) {
  const std::string file = dir_.write("value", "some bytes");
  Outcome done = at_node("put a '" + file + "' --json");
  EXPECT_EQ(done.exit, 0) << done.err;
  EXPECT_EQ(json::parse(done.out)["bytes"], 10);
  EXPECT_EQ(json::parse(done.out)["already_stored"], false);
  done = at_node("put a '" + file + "' --json");
  EXPECT_EQ(json::parse(done.out)["already_stored"], true);
  done = at_node("exists a b --json");
  EXPECT_EQ(done.exit, 1);
  EXPECT_EQ(json::parse(done.out)["present"], 1);
  EXPECT_EQ(json::parse(done.out)["keys"][1]["present"], false);
  done = at_node("stat a b --json");
  EXPECT_EQ(done.exit, 1);
  EXPECT_EQ(json::parse(done.out)["keys"][0]["bytes"], 10);
  EXPECT_EQ(json::parse(done.out)["keys"][0]["tier"], "hot");
  EXPECT_EQ(json::parse(done.out)["keys"][1]["code"], "not_found");
  done = at_node("stat --json");
  EXPECT_EQ(done.exit, 0);
  EXPECT_EQ(json::parse(done.out)["objects"], 1);
  EXPECT_EQ(json::parse(done.out)["capacity_bytes"], 8 << 20);
  done = at_node("ls --json");
  EXPECT_EQ(done.exit, 0);
  EXPECT_EQ(json::parse(done.out)["key"], "a");
  done = at_node("get a -o '" + dir_.file("back") + "' --json");
  EXPECT_EQ(json::parse(done.out)["bytes"], 10);
  done = at_node("rm a b --json");
  EXPECT_EQ(done.exit, 1);
  EXPECT_EQ(json::parse(done.out)["keys"][0]["code"], "ok");
  EXPECT_EQ(at_node("ls").out, "");
}

TEST_F(CliTest, ExitCodesAreAsDocumented) {
  const std::string file = dir_.write("value", "v");
  EXPECT_EQ(at_node("put a '" + file + "'").exit, 0);
  EXPECT_EQ(at_node("exists a").exit, 0);
  EXPECT_EQ(at_node("get b").exit, 1);
  EXPECT_EQ(at_node("rm b").exit, 1);
  EXPECT_EQ(at_node("get").exit, 2);
  EXPECT_EQ(at_node("put '' '" + file + "'").exit, 2);
  EXPECT_EQ(at_node("put " + std::string(1025, 'k') + " '" + file + "'").exit, 2);
  EXPECT_EQ(at_node("put c '" + dir_.write("empty", "") + "'").exit, 2);
  EXPECT_EQ(at_node("get a -o /no/such/folder/file").exit == 0, false);
  const Outcome other = at_node("put a '" + dir_.write("other", "w") + "' --if-absent");
  EXPECT_EQ(other.exit, 5);
  EXPECT_NE(other.err.find("another value"), std::string::npos) << other.err;
  EXPECT_EQ(larder("get a --socket '" + dir_.file("nobody.sock") + "'").exit, 3);
  const std::string huge = dir_.file("huge");
  std::filesystem::copy_file(file, huge);
  std::filesystem::resize_file(huge, 9 << 20);
  const Outcome large = at_node("put huge '" + huge + "'");
  EXPECT_EQ(large.exit, 5);
  EXPECT_NE(large.err.find(std::to_string(8 << 20)), std::string::npos) << large.err;
}

TEST_F(CliTest, AFrozenNodeIsExitThreeInTime) {
  node_.freeze();
  const env::Nanos before = env::monotonic_now();
  const Outcome frozen = at_node("get a --timeout 300ms");
  node_.thaw();
  EXPECT_EQ(frozen.exit, 3) << frozen.err;
  EXPECT_LT(env::monotonic_now() - before, 4 * env::kSecond);  // connecting has its own patience
}

TEST_F(CliTest, ConfigurationMistakesAreNamedByLine) {
  struct Case {
    const char* yaml;
    const char* place;
    const char* words;
  };
  const std::vector<Case> cases = {
      {"hot.capacity: 8MiB\nnode.spinn: 1us\n", ":2", "node.spinn"},
      {"hot:\n  capacity: plenty\n", ":2", "hot.capacity"},
      {"node:\n  reactors: 1\n  reactors: 2\n", ":3", "reactors"},
      {"node.listen: [\n", ":", "bad.yaml"},
      {"hot.low_watermark: 0.95\nhot.high_watermark: 0.9\n", "", "hot.low_watermark"},
      {"node.listen: [\"0.0.0.0:1\"]\n", "", "node.token_file"}};
  for (const Case& mistake : cases) {
    const std::string file = dir_.write("bad.yaml", mistake.yaml);
    const Outcome refused = larder("node --config '" + file + "'");
    EXPECT_EQ(refused.exit, 2) << mistake.yaml << refused.err;
    const std::string place = *mistake.place != '\0' ? file + mistake.place : "";
    EXPECT_NE(refused.err.find(place), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find(mistake.words), std::string::npos) << refused.err;
  }
  const Outcome shown = larder("node --config '" + dir_.write("good.yaml", "hot.capacity: 9MiB") +
                               "' --node.spin 1ms --print-config");
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_NE(shown.out.find("9MiB"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("good.yaml:1"), std::string::npos) << shown.out;
}

TEST_F(CliTest, ASecondNodeOnTheSocketIsRefused) {
  const Outcome second = larder(
      "node --node.listen 127.0.0.1:0 --node.http '' --hot.capacity 1MiB "
      "--node.socket '" +
      socket_ + "'");
  EXPECT_NE(second.exit, 0);
  EXPECT_NE(second.err.find(socket_), std::string::npos) << second.err;
  EXPECT_EQ(at_node("stat").exit, 0);
}

// Requests of which each repeats a part of an earlier one.
std::string small_trace() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    std::string ids;
    for (int k = 0; k < 8; ++k) {
      ids += (k == 0 ? "" : ", ") + std::to_string(k < 5 ? (i % 6) * 100 + k : 10'000 + i * 10 + k);
    }
    text += "{\"timestamp\": " + std::to_string(i * 10) +
            ", \"input_length\": 4096, \"output_length\": 10, \"hash_ids\": [" + ids + "]}\n";
  }
  return text;
}

TEST_F(CliTest, ReplayFindsNoWrongByte) {
  const std::string trace = dir_.write("trace.jsonl", small_trace());
  const std::string report = dir_.file("report.json");
  const std::vector<std::string> ways = {
      "--socket '" + socket_ + "'",
      "--address " + node_.options(Path::kTcp).address + " --path tcp --workers 3",
      "--hot-blocks 200 --speed 100"};
  for (const std::string& way : ways) {
    const Outcome done =
        larder("replay --trace '" + trace + "' --block-bytes 16KiB --json '" + report + "' " + way);
    EXPECT_EQ(done.exit, 0) << way << ": " << done.err;
    const json figures = json::parse(dir_.read("report.json"));
    EXPECT_EQ(figures["requests"], 60);
    EXPECT_EQ(figures["blocks"], 480);
    EXPECT_EQ(figures["wrong_bytes"], 0);
    EXPECT_GT(figures["hit_rate"].get<double>(), 0.3);
    EXPECT_LE(figures["hit_rate"].get<double>(), figures["ideal_hit_rate"].get<double>() + 0.1);
    EXPECT_GT(figures["bytes_per_s"].get<double>(), 0);
    EXPECT_TRUE(figures["latency"].contains("get")) << figures.dump();
    EXPECT_NE(done.out.find("hit rate"), std::string::npos);
  }
}

// Of a node without disks a kill leaves nothing: all is lost, said to be, and none of it wrong.
TEST_F(CliTest, ReplayKillsAndRestartsItsNode) {
  const std::string trace = dir_.write("trace.jsonl", small_trace());
  const Outcome done = larder("replay --trace '" + trace +
                              "' --block-bytes 16KiB --hot-blocks 200 --workers 1 "
                              "--kill-and-restart --json -");
  ASSERT_EQ(done.exit, 0) << done.err;
  const json figures = json::parse(done.out);
  EXPECT_EQ(figures["first_half"]["requests"], 30);
  EXPECT_EQ(figures["second_half"]["requests"], 30);
  EXPECT_EQ(figures["wrong_bytes"], 0);
  EXPECT_EQ(figures["kept_blocks"], 0);
  EXPECT_GT(figures["lost_blocks"].get<int>(), 0);
  EXPECT_EQ(figures["first_half"]["hits"], figures["second_half"]["hits"]) << figures.dump(2);
  EXPECT_DOUBLE_EQ(figures["hit_rate"].get<double>(), figures["ideal_hit_rate"].get<double>());
  const Outcome two = larder("replay --trace '" + trace +
                             "' --kill-and-restart --hot-blocks 100 "
                             "--requests 1");
  EXPECT_EQ(two.exit, 2) << two.err;
}

// With a disk, what was on it by then is there after the kill.
TEST_F(CliTest, ReplayFindsItsBlocksOnDiskAfterAKill) {
  const std::string trace = dir_.write("trace.jsonl", small_trace());
  const Outcome done = larder("replay --trace '" + trace +
                              "' --block-bytes 64KiB --hot-blocks 50 --workers 1 --disk '" +
                              dir_.file("disk") + ":256MiB' --kill-and-restart --json -");
  ASSERT_EQ(done.exit, 0) << done.err;
  const json figures = json::parse(done.out);
  EXPECT_EQ(figures["wrong_bytes"], 0);
  EXPECT_GT(figures["kept_blocks"].get<int>(), 10);
  EXPECT_NEAR(figures["hit_rate"].get<double>(), figures["ideal_hit_rate"].get<double>(), 0.005);
}

TEST_F(CliTest, ANodeWithoutDisksSaysSo) {
  const Outcome listed = at_node("device ls");
  EXPECT_EQ(listed.exit, 5) << listed.err;
  EXPECT_NE(listed.err.find("start it with --disk"), std::string::npos) << listed.err;
}

TEST_F(CliTest, ABrokenTraceIsNamedByLine) {
  const std::string trace = dir_.write("broken.jsonl", small_trace() + "{\"timestamp\": oops}\n");
  const Outcome refused = at_node("replay --trace '" + trace + "' --block-bytes 4KiB");
  EXPECT_EQ(refused.exit, 2) << refused.err;
  EXPECT_NE(refused.err.find(trace + ":61"), std::string::npos) << refused.err;
  const Outcome skipped =
      at_node("replay --skip-broken --json - --trace '" + trace + "' --block-bytes 4KiB");
  EXPECT_EQ(skipped.exit, 0) << skipped.err;
  EXPECT_EQ(json::parse(skipped.out)["broken_lines"], 1);
}

TEST_F(CliTest, DoctorSpeaksJson) {
  const Outcome doctor = larder("doctor --json");
  EXPECT_TRUE(doctor.exit == 0 || doctor.exit == 1) << doctor.err;
  const json report = json::parse(doctor.out);
  EXPECT_TRUE(report.is_object());
  EXPECT_FALSE(report.empty());
}

TEST_F(CliTest, TheSocketComesFromTheEnvironmentToo) {
  const std::string file = dir_.write("value", "v");
  ASSERT_EQ(at_node("put a '" + file + "'").exit, 0);
  ::setenv("LARDER_SOCKET", socket_.c_str(), 1);
  EXPECT_EQ(larder("get a").out, "v");
  ::unsetenv("LARDER_SOCKET");
}

}  // namespace
}  // namespace larder::integration
