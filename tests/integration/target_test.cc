// SPDX-License-Identifier: Apache-2.0
// `larder target` as a process: what it says, serves and keeps, and how it ends.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "apps/child_process.h"
#include "env/temp_directory.h"
#include "nvmf/target/target_testing_queue.h"

namespace larder::integration {
namespace {

using namespace larder::nvmf;

class TargetProcess {
 public:
  explicit TargetProcess(const env::TempDirectory& home) : log_(home.file("target.log")) {}

  bool start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"target", "--json"});
    auto started = apps::ChildProcess::start({LARDER_PROGRAM, std::move(arguments), log_});
    if (!started) return false;
    child_.emplace(std::move(*started));
    const env::Nanos deadline = soon();
    while (env::monotonic_now() < deadline && !child_->ended()) {
      const std::string text = log();
      const std::size_t begin = text.find('{');
      const std::size_t end = text.find('\n', begin == std::string::npos ? 0 : begin);
      if (begin != std::string::npos && end != std::string::npos) {
        line_ = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
        return line_.is_object();
      }
      env::system_clock().sleep(env::kMilli);
    }
    return false;
  }
  std::string log() const {
    std::ifstream in(log_, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  env::SocketAddress address() const {
    env::SocketAddress out;
    out.host = line_["address"].get<std::string>();
    out.port = line_["port"].get<std::uint16_t>();
    return out;
  }
  std::string nqn() const { return line_["nqn"].get<std::string>(); }
  std::vector<std::string> urls() const { return line_["urls"].get<std::vector<std::string>>(); }
  // The exit code after the signal.
  int end(int signal) {
    ::kill(child_->pid(), signal);
    return wait();
  }
  int wait() {
    const env::Nanos deadline = soon();
    while (!child_->ended() && env::monotonic_now() < deadline) {
      env::system_clock().sleep(env::kMilli);
    }
    return child_->ended() ? child_->code() : -1;
  }

 private:
  const std::string log_;
  std::optional<apps::ChildProcess> child_;
  nlohmann::json line_;
};

// An admin queue and an I/O queue, both open.
struct Host {
  explicit Host(const TargetProcess& target) : admin(target.address()), io(target.address()) {
    admin.negotiate({});
    const Answer answer = admin.connect({}, 0, kAnyController, target.nqn());
    EXPECT_TRUE(answer.status.ok());
    EXPECT_TRUE(admin.set_configuration(Cc::enabled()).status.ok());
    io.negotiate({});
    EXPECT_TRUE(
        io.connect({}, 1, static_cast<std::uint16_t>(answer.value), target.nqn()).status.ok());
  }
  TestQueue admin;
  TestQueue io;
};

class TargetCommand : public ::testing::Test {
 protected:
  const env::TempDirectory home_ = env::TempDirectory::create("larder-it").value();
  TargetProcess process_{home_};
};

TEST_F(TargetCommand, ServesMemoryAndStopsWhenTold) {
  ASSERT_TRUE(process_.start({"--ram", "16MiB", "--ram", "4MiB", "--listen", ":0"}))
      << process_.log();
  ASSERT_EQ(process_.urls().size(), 2U);
  EXPECT_EQ(process_.urls()[0], "nvme-tcp://127.0.0.1:" + std::to_string(process_.address().port) +
                                    "/" + process_.nqn());
  EXPECT_TRUE(process_.urls()[1].ends_with("#2"));
  Host host(process_);
  const Bytes data = pattern(kMiB, 1);
  EXPECT_TRUE(host.io.write(100, data).status.ok());
  EXPECT_TRUE(host.io.read(100, 256).data == data);
  EXPECT_EQ(process_.end(SIGTERM), 0) << process_.log();
  EXPECT_TRUE(host.io.ends());
}

TEST_F(TargetCommand, AFileSurvivesTheProcess) {
  const std::string file = home_.file("ns") + ":8MiB";
  const Bytes data = pattern(64 << 10, 2);
  ASSERT_TRUE(process_.start({"--file", file, "--listen", ":0"})) << process_.log();
  {
    Host host(process_);
    ASSERT_TRUE(host.io.write(7, data).status.ok());
    ASSERT_TRUE(host.io.flush().status.ok());
  }
  EXPECT_EQ(process_.end(SIGKILL), 128 + SIGKILL);
  ASSERT_TRUE(process_.start({"--file", home_.file("ns"), "--listen", ":0", "--read-only"}))
      << process_.log();
  Host host(process_);
  EXPECT_TRUE(host.io.read(7, 16).data == data);
  EXPECT_EQ(host.io.write(7, data).status, refused(Sc::kNamespaceWriteProtected));
  EXPECT_EQ(process_.end(SIGINT), 0);
}

TEST_F(TargetCommand, SaysWhatIsWrong) {
  const auto refused_with = [&](std::vector<std::string> arguments, int code, const char* word) {
    EXPECT_FALSE(process_.start(std::move(arguments)));
    EXPECT_EQ(process_.wait(), code) << process_.log();
    EXPECT_NE(process_.log().find(word), std::string::npos) << process_.log();
  };
  refused_with({}, 2, "nothing to export");
  refused_with({"--ram", "many"}, 2, "--ram");
  refused_with({"--ram", "1MiB", "--nqn", "larder"}, 2, "nqn.");
  refused_with({"--ram", "1MiB", "--block", "1000"}, 2, "--block");
  refused_with({"--file", home_.file("absent")}, 1, "give it a size");
  refused_with({"--device", home_.file("absent")}, 1, "--device");
  ASSERT_TRUE(process_.start({"--ram", "1MiB", "--listen", ":0"}));
  const std::string taken = process_.address().to_string();
  TargetProcess second(home_);
  EXPECT_FALSE(second.start({"--ram", "1MiB", "--listen", taken}));
  EXPECT_EQ(second.wait(), 3);
  EXPECT_NE(second.log().find("port 0"), std::string::npos) << second.log();
}

}  // namespace
}  // namespace larder::integration
