// SPDX-License-Identifier: Apache-2.0
// larder nvme against targets of this process: our own, and one that says what the test wants.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "apps/cli.h"
#include "apps/exit_codes.h"
#include "nvmf/host/fake_target_testing.h"
#include "nvmf/target/target.h"

namespace larder::apps {
namespace {

using nlohmann::json;

constexpr const char* kNqn = "nqn.2024-01.org.example:shelf";
constexpr const char* kHost = "nqn.2024-01.org.example:host";

struct Outcome {
  int exit = -1;
  std::string out;
  std::string err;
};

Outcome nvme(std::vector<std::string> words) {
  words.insert(words.begin(), "nvme");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exit = run_larder(words);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

// As a host with a name, so that nothing is looked for or kept.
Outcome ask(const std::string& action, const std::string& url, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {action, url, "--host-nqn", kHost});
  return nvme(std::move(more));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_one_line(const Outcome& outcome, int exit, const std::string& part) {
  EXPECT_EQ(outcome.exit, exit) << outcome.err;
  EXPECT_EQ(outcome.err.find("larder: error: "), 0U) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_TRUE(has(outcome.err, part)) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

// Two namespaces of memory: 8 MiB in blocks of 4 KiB, 1 MiB in blocks of 512 bytes.
class CliNvmeTest : public testing::Test {
 protected:
  static std::unique_ptr<nvmf::Target> serve(std::vector<std::string> allowed = {}) {
    nvmf::TargetOptions options;
    options.listen.port = 0;
    options.nqn = kNqn;
    options.allow_hosts = std::move(allowed);
    nvmf::NamespaceOptions large;
    large.ram_bytes = 8 << 20;
    nvmf::NamespaceOptions small;
    small.ram_bytes = 1 << 20;
    small.block_bytes = 512;
    small.read_only = true;
    return nvmf::Target::create(std::move(options), {large, small}).value();
  }
  std::string port() const { return std::to_string(target_->address().port); }
  std::string at() const { return "nvme-tcp://127.0.0.1:" + port(); }

  std::unique_ptr<nvmf::Target> target_ = serve();
};

TEST_F(CliNvmeTest, DiscoverListsWhatIsThere) {
  const Outcome found = ask("discover", at());
  EXPECT_EQ(found.exit, kExitOk) << found.err;
  EXPECT_TRUE(has(found.out, "discovery")) << found.out;
  EXPECT_TRUE(has(found.out, kNqn)) << found.out;
  // The last line is what other commands take.
  EXPECT_TRUE(found.out.ends_with("\n" + target_->url() + "\n")) << found.out;
}

TEST_F(CliNvmeTest, DiscoverInJson) {
  const Outcome found = ask("discover", at(), {"--json"});
  EXPECT_EQ(found.exit, kExitOk) << found.err;
  json all = json::parse(found.out)["subsystems"];
  ASSERT_EQ(all.size(), 2U) << found.out;
  EXPECT_EQ(all[0]["type"], "discovery");
  EXPECT_EQ(all[0]["url"], "");
  EXPECT_EQ(all[1], (json{{"transport", "tcp"},
                          {"type", "nvm"},
                          {"address", "127.0.0.1"},
                          {"port", port()},
                          {"nqn", kNqn},
                          {"url", target_->url()}}));
}

TEST_F(CliNvmeTest, IdentifyShowsLimitsAndEveryNamespace) {
  const Outcome shown = ask("identify", target_->url());
  EXPECT_EQ(shown.exit, kExitOk) << shown.err;
  EXPECT_EQ(shown.out.find(kNqn), 0U) << shown.out;
  EXPECT_TRUE(has(shown.out, "commands up to 1.00 MiB")) << shown.out;
  EXPECT_TRUE(has(shown.out, "8.00 MiB")) << shown.out;
  EXPECT_TRUE(has(shown.out, "1.00 MiB    512")) << shown.out;
  const Outcome as_json = ask("identify", target_->url(), {"--json"});
  EXPECT_EQ(as_json.exit, kExitOk) << as_json.err;
  json all = json::parse(as_json.out);
  EXPECT_EQ(all["nqn"], kNqn);
  EXPECT_EQ(all["transfer_bytes_max"], 1 << 20);
  EXPECT_EQ(all["in_capsule_bytes"], 16 << 10);
  EXPECT_EQ(all["io_queues"], 64);
  EXPECT_EQ(all["unusable"], json::array());
  json spaces = all["namespaces"];
  ASSERT_EQ(spaces.size(), 2U) << as_json.out;
  EXPECT_EQ(spaces[0]["nsid"], 1);
  EXPECT_EQ(spaces[0]["bytes"], 8 << 20);
  EXPECT_EQ(spaces[0]["block_bytes"], 4096);
  EXPECT_EQ(spaces[0]["write_protected"], false);
  EXPECT_FALSE(spaces[0].contains("unusable")) << as_json.out;
  EXPECT_EQ(spaces[1]["nsid"], 2);
  EXPECT_EQ(spaces[1]["blocks"], 2048);
  EXPECT_EQ(spaces[1]["block_bytes"], 512);
  EXPECT_EQ(spaces[1]["write_protected"], true);
  EXPECT_NE(spaces[0]["id"], spaces[1]["id"]);
}

TEST_F(CliNvmeTest, IdentifyOfOneNamespace) {
  const Outcome shown = ask("identify", target_->url(2), {"--json"});
  EXPECT_EQ(shown.exit, kExitOk) << shown.err;
  json spaces = json::parse(shown.out)["namespaces"];
  ASSERT_EQ(spaces.size(), 1U) << shown.out;
  EXPECT_EQ(spaces[0]["nsid"], 2);
  const Outcome absent = ask("identify", target_->url(7));
  EXPECT_EQ(absent.exit, kExitMissing) << absent.err;
  EXPECT_TRUE(has(absent.err, "namespace 7")) << absent.err;
}

TEST_F(CliNvmeTest, AnotherSubsystemOrAHostThatMayNotIsSaidSo) {
  const std::string other = "nqn.2024-01.org.example:other";
  const Outcome wrong = ask("identify", at() + "/" + other);
  EXPECT_EQ(wrong.exit, kExitMissing) << wrong.err;
  EXPECT_TRUE(has(wrong.err, other)) << wrong.err;
  const auto closed = serve({"nqn.2024-01.org.example:friend"});
  const Outcome stranger = ask("identify", closed->url());
  EXPECT_EQ(stranger.exit, kExitError) << stranger.err;
  EXPECT_TRUE(has(stranger.err, kHost)) << stranger.err;
  // The name in the URL goes before the flag's.
  const Outcome known =
      ask("identify", closed->url() + "?host_nqn=nqn.2024-01.org.example:friend", {"--json"});
  EXPECT_EQ(known.exit, kExitOk) << known.err;
}

TEST_F(CliNvmeTest, NobodyThereExitsThreeAndNamesTheAddress) {
  const std::string where = "127.0.0.1:" + port();
  const std::string url = target_->url();
  target_.reset();
  for (const char* action : {"discover", "identify"}) {
    expect_one_line(ask(action, url, {"--timeout", "5s"}), kExitUnreachable, where);
  }
}

TEST_F(CliNvmeTest, WrongWordsExitTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"fly"},
      {"discover"},
      {"identify"},
      {"discover", at(), "more"},
      {"discover", at(), "--nonsense"},
      {"discover", "127.0.0.1"},
      {"discover", "nvme-tcp://"},
      {"discover", "nvme-rdma://127.0.0.1"},
      {"discover", at(), "--timeout", "soon"},
      {"discover", at(), "--host-nqn", "somebody"},
      {"identify", "nvme-tcp://127.0.0.1:99999/" + std::string(kNqn)},
      {"identify", at() + "/store"},
      {"identify", target_->url() + "#0"},
  };
  for (const auto& words : wrong) {
    const Outcome outcome = nvme(words);
    const std::string what = words.empty() ? "(none)" : words.back();
    EXPECT_EQ(outcome.exit, kExitUsage) << what << ": " << outcome.err;
    EXPECT_EQ(outcome.err.find("larder: error: "), 0U) << what << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << what;
  }
  EXPECT_EQ(target_->stats().accepted, 0U);  // all that was seen before anything was asked
  // Which subsystem, only the target can tell.
  expect_one_line(ask("identify", at()), kExitUsage, "larder nvme discover");
}

TEST_F(CliNvmeTest, HelpHasExamples) {
  const Outcome help = nvme({"--help"});
  EXPECT_EQ(help.exit, kExitOk);
  EXPECT_TRUE(has(help.out, "larder nvme discover nvme-tcp://")) << help.out;
  for (const char* action : {"discover", "identify"}) {
    EXPECT_TRUE(has(help.out, action));
    EXPECT_EQ(nvme({action, "--help"}).exit, kExitOk) << action;
  }
}

// ---- a target that is not ours ----

// Answers the discovery log page with these.
void offer(nvmf::FakeTarget& target, const std::vector<nvmf::DiscoveryEntry>& entries) {
  target.self.controller.cntrltype = 2;
  nvmf::DiscoveryHeader header;
  header.genctr = 1;
  header.numrec = entries.size();
  std::vector<std::byte> page(sizeof(header) + entries.size() * sizeof(nvmf::DiscoveryEntry));
  std::memcpy(page.data(), &header, sizeof(header));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::memcpy(page.data() + sizeof(header) + i * sizeof(entries[i]), &entries[i],
                sizeof(entries[i]));
  }
  target.on_admin([page](nvmf::FakeConnection& to, const nvmf::FakePdu& pdu) {
    const nvmf::Command command = pdu.command();
    if (command.opcode != static_cast<std::uint8_t>(nvmf::AdminOpcode::kGetLogPage)) return false;
    const std::size_t offset = command.cdw12;
    if (offset + command.sgl.length > page.size()) {
      to.respond(command.cid, nvmf::refused(nvmf::Sc::kInvalidField));
      return true;
    }
    to.data(command.cid, 0, std::span(page).subspan(offset, command.sgl.length), nvmf::kFlagLast);
    to.respond(command.cid);
    return true;
  });
}

nvmf::DiscoveryEntry subsystem(const std::string& name, const std::string& address = "10.0.0.7") {
  return nvmf::make_entry(nvmf::SubsystemType::kNvm, nvmf::AddressFamily::kIpv4, address, "4420",
                          "nqn.2024-01.org.example:" + name, 1);
}

TEST(CliNvmeForeign, DiscoverOfManySubsystems) {
  std::vector<nvmf::DiscoveryEntry> entries;
  for (int i = 0; i < 40; ++i) entries.push_back(subsystem("s" + std::to_string(i)));  // two reads
  entries.push_back(subsystem("rdma"));
  entries.back().trtype = static_cast<std::uint8_t>(nvmf::TransportType::kRdma);
  entries.push_back(subsystem("secret"));
  entries.back().tsas[0] = 1;
  entries.push_back(subsystem("elsewhere"));
  entries.back().subtype = static_cast<std::uint8_t>(nvmf::SubsystemType::kReferral);
  nvmf::FakeTarget target;
  offer(target, entries);
  const Outcome as_json = ask("discover", target.url().to_string(), {"--json"});
  ASSERT_EQ(as_json.exit, kExitOk) << as_json.err;
  json all = json::parse(as_json.out)["subsystems"];
  ASSERT_EQ(all.size(), entries.size());
  EXPECT_EQ(all[39]["url"], "nvme-tcp://10.0.0.7:4420/nqn.2024-01.org.example:s39");
  EXPECT_EQ(all[40]["transport"], "rdma");
  EXPECT_EQ(all[41]["transport"], "tcp+tls");
  EXPECT_EQ(all[42]["type"], "referral");
  for (const std::size_t i : {40U, 41U, 42U}) EXPECT_EQ(all[i]["url"], "") << i;
  const Outcome shown = ask("discover", target.url().to_string());
  EXPECT_EQ(shown.exit, kExitOk) << shown.err;
  // A head, a row for each, and a URL for those that can be used.
  EXPECT_EQ(std::ranges::count(shown.out, '\n'), 1 + 43 + 40) << shown.out;
}

TEST(CliNvmeForeign, NothingOfferedIsSaidSo) {
  nvmf::FakeTarget target;
  offer(target, {});
  const Outcome shown = ask("discover", target.url().to_string());
  EXPECT_EQ(shown.exit, kExitOk) << shown.err;
  EXPECT_EQ(shown.out, "");
  EXPECT_TRUE(has(shown.err, "no subsystem")) << shown.err;
  const Outcome as_json = ask("discover", target.url().to_string(), {"--json"});
  EXPECT_EQ(json::parse(as_json.out)["subsystems"], json::array());
}

// What a target says of itself cannot write to the terminal.
TEST(CliNvmeForeign, HostileTextsAreShownNotObeyed) {
  nvmf::FakeTarget target;
  const std::string_view model = "\x1b[2J\n";
  std::ranges::copy(model, target.self.controller.model.begin());
  offer(target, {subsystem("s", "\x1b[2J")});
  const Outcome found = ask("discover", target.url().to_string());
  EXPECT_EQ(found.exit, kExitOk) << found.err;
  EXPECT_FALSE(has(found.out, "\x1b")) << found.out;
  EXPECT_TRUE(json::accept(ask("discover", target.url().to_string(), {"--json"}).out));
  target.self.controller.cntrltype = 1;
  const Outcome shown = ask("identify", target.url().to_string());
  EXPECT_EQ(shown.exit, kExitOk) << shown.err;
  EXPECT_FALSE(has(shown.out, "\x1b")) << shown.out;
  EXPECT_TRUE(json::accept(ask("identify", target.url().to_string(), {"--json"}).out));
}

TEST(CliNvmeForeign, ANamespaceThatCannotBeUsedDoesNotHideTheOthers) {
  nvmf::FakeTarget target;
  target.self.active = {1, 2};
  target.on_admin([](nvmf::FakeConnection& to, const nvmf::FakePdu& pdu) {
    const nvmf::Command command = pdu.command();
    const bool second =
        command.nsid == 2 &&
        command.opcode == static_cast<std::uint8_t>(nvmf::AdminOpcode::kIdentify) &&
        (command.cdw10 & 0xFFU) == static_cast<std::uint32_t>(nvmf::IdentifyCns::kNamespace);
    if (second) to.respond(command.cid, nvmf::refused(nvmf::Sc::kInvalidNamespace));
    return second;
  });
  const Outcome as_json = ask("identify", target.url().to_string(), {"--json"});
  ASSERT_EQ(as_json.exit, kExitOk) << as_json.err;
  json all = json::parse(as_json.out);
  EXPECT_EQ(all["namespaces"].size(), 1U) << as_json.out;
  ASSERT_EQ(all["unusable"].size(), 1U) << as_json.out;
  EXPECT_TRUE(has(all["unusable"][0], "namespace 2")) << as_json.out;
  const Outcome shown = ask("identify", target.url().to_string());
  EXPECT_EQ(shown.exit, kExitOk);
  EXPECT_TRUE(has(shown.err, "namespace 2")) << shown.err;
}

TEST(CliNvmeForeign, WhatIsNoNvmeTargetIsSaidSo) {
  nvmf::FakeTarget target;
  target.on_handshake([](nvmf::FakeConnection& to, const nvmf::FakePdu&) {
    const std::string_view page = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    to.send_raw(std::as_bytes(std::span(page)));
    return true;  // and closes
  });
  for (const char* action : {"discover", "identify"}) {
    const Outcome outcome = ask(action, target.url().to_string(), {"--timeout", "5s"});
    EXPECT_NE(outcome.exit, kExitOk);
    EXPECT_NE(outcome.exit, kExitUsage) << outcome.err;
    EXPECT_TRUE(has(outcome.err, target.url().address().to_string())) << outcome.err;
    EXPECT_TRUE(has(outcome.err, "NVMe")) << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

// Somebody listens and never answers.
TEST(CliNvmeForeign, SilenceEndsWithTheTimeout) {
  const auto any = env::SocketAddress::parse("127.0.0.1:0").value();
  const env::Fd listener = env::listen_on(any, 4).value();
  const auto port = std::to_string(env::local_port(listener.get()).value());
  const env::Nanos before = env::monotonic_now();
  expect_one_line(ask("discover", "nvme-tcp://127.0.0.1:" + port, {"--timeout", "50ms"}),
                  kExitUnreachable, port);
  const env::Nanos took = env::monotonic_now() - before;
  EXPECT_GE(took, 50 * env::kMilli);
  EXPECT_LT(took, 8 * env::kSecond);  // what it takes without the flag is 10
}

}  // namespace
}  // namespace larder::apps
