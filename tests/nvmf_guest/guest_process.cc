// SPDX-License-Identifier: Apache-2.0
#include "guest_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <fstream>
#include <sstream>

#include "env/socket.h"

namespace larder::nvmf_guest {
namespace {

constexpr env::Nanos kPatienceToMake = 240 * env::kSecond;  // with the download of its kernel
constexpr env::Nanos kPatienceToBoot = 120 * env::kSecond;  // takes 4 to 12 s; emulated
constexpr char kEndOfOutput = '\036';

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Asks now and again; a process or a file has no other way to tell.
template <class Holds>
bool within(env::Nanos deadline, Holds holds) {
  while (!holds()) {
    if (env::monotonic_now() > deadline) return false;
    env::system_clock().sleep(5 * env::kMilli);
  }
  return true;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Result<void> make_guest(const env::TempDirectory& dir) {
  apps::ChildOptions script;
  script.program = LARDER_GUEST_SCRIPT;
  script.arguments = {LARDER_GUEST_DIR};
  script.output_file = dir.file("make.log");
  LARDER_ASSIGN(auto child, apps::ChildProcess::start(script));
  const bool ended = within(env::monotonic_now() + kPatienceToMake,
                            [&child] { return child.ended().has_value(); });
  if (ended && child.code() == 0) return {};
  const std::string why = last_line(contents_of(script.output_file));
  if (!ended || child.code() == 77) return fail(Code::kUnsupported, ended ? why : "not in time");
  return fail(Code::kUnavailable, "making the guest failed: " + why);
}

std::vector<std::uint16_t> free_ports(std::size_t count) {
  std::vector<env::Fd> held;  // all at once, or one might come twice
  std::vector<std::uint16_t> ports;
  const auto address = env::SocketAddress::parse("127.0.0.1:0").value();
  while (ports.size() < count) {
    held.push_back(env::listen_on(address, 1).value());
    ports.push_back(env::local_port(held.back().get()).value());
  }
  return ports;
}

}  // namespace

Result<std::unique_ptr<GuestProcess>> GuestProcess::boot() {
  LARDER_ASSIGN(auto dir, env::TempDirectory::create("larder-guest"));
  LARDER_TRY(make_guest(dir));
  std::unique_ptr<GuestProcess> guest(new GuestProcess(std::move(dir)));
  const env::Nanos deadline = env::monotonic_now() + kPatienceToBoot;
  LARDER_TRY(guest->start());
  auto up = guest->connect(deadline);
  if (!up) {
    // Somebody else may have taken a port between our look and QEMU's.
    guest->kill();
    LARDER_TRY(guest->start());
    LARDER_TRY(guest->connect(deadline));
  }
  const auto ready = guest->read_until('\n', deadline);
  if (ready && ready->ends_with("READY")) return guest;
  return fail(Code::kUnavailable, "the guest did not come up: " + guest->console());
}

GuestProcess::~GuestProcess() {
  if (child_) kill();  // there is nothing in it to save, and it may stand still
}

Result<void> GuestProcess::start() {
  const std::string files = LARDER_GUEST_DIR;
  ports_ = free_ports(kPorts);
  std::string network = "user,id=n0";
  for (std::size_t i = 0; i < kPorts; ++i) {
    network += fmt::format(",hostfwd=tcp:127.0.0.1:{}-:{}", ports_[i], kFirstPort + i);
  }
  apps::ChildOptions qemu;
  qemu.program = files + "/qemu";
  qemu.output_file = dir_.file("qemu.log");
  // clang-format off
  qemu.arguments = {
      "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "384", "-smp", "2",
      "-no-reboot", "-nodefaults", "-no-user-config", "-display", "none",
      "-kernel", files + "/kernel", "-initrd", files + "/initrd",
      "-append", "console=ttyS0 quiet panic=-1 mitigations=off",
      "-serial", "file:" + dir_.file("console"),
      "-serial", "unix:" + dir_.file("line") + ",server=on,wait=off",
      "-device", "virtio-net-pci,netdev=n0,romfile=", "-netdev", network};
  // clang-format on
  LARDER_ASSIGN(auto child, apps::ChildProcess::start(qemu));
  child_.emplace(std::move(child));
  return {};
}

Result<void> GuestProcess::connect(env::Nanos deadline) {
  const auto address = env::SocketAddress::parse("unix:" + dir_.file("line")).value();
  const bool connected = within(deadline, [&] {
    if (child_->ended()) return true;
    auto fd = env::connect_to(address, deadline);
    if (fd) line_ = std::move(*fd);
    return line_.valid();
  });
  if (connected && line_.valid()) return {};
  return fail(Code::kUnavailable, "QEMU: " + contents_of(dir_.file("qemu.log")));
}

std::optional<std::string> GuestProcess::read_until(char end, env::Nanos deadline) {
  std::size_t looked = 0;
  while (true) {
    const std::size_t at = unread_.find(end, looked);
    if (at != std::string::npos) {
      std::string text = unread_.substr(0, at);
      unread_.erase(0, at + 1);
      return text;
    }
    looked = unread_.size();
    std::array<char, 4096> part{};
    if (env::wait_ready(line_.get(), env::kReadable, deadline) == 0) return std::nullopt;
    const env::IoResult got = env::receive(line_.get(), part.data(), part.size());
    if (got.status == env::IoStatus::kWouldBlock) continue;
    if (got.status != env::IoStatus::kOk || got.bytes == 0) return std::nullopt;
    unread_.append(part.data(), got.bytes);
  }
}

Said GuestProcess::run(std::string_view command, env::Nanos patience) {
  if (broken_) return {-1, "the guest takes no commands any more"};
  const env::Nanos deadline = env::monotonic_now() + patience;
  const std::string line = std::string(command) + "\n";
  std::optional<std::string> text;
  std::optional<std::string> status;
  if (env::send_all(line_.get(), std::as_bytes(std::span(line)), deadline)) {
    text = read_until(kEndOfOutput, deadline);
    if (text) status = read_until('\n', deadline);
  }
  broken_ = !status;
  if (!broken_) return {std::stoi(*status), std::move(*text)};
  return {-1, "the guest did not answer; it had said: " + unread_};
}

std::string GuestProcess::must(std::string_view command) {
  Said said = run(command);
  EXPECT_EQ(said.status, 0) << command << "\n" << said.text << "\n" << last_line(console());
  return std::move(said.text);
}

void GuestProcess::freeze() const {
  ::kill(child_->pid(), SIGSTOP);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child_->pid()), &info, WSTOPPED);
}

void GuestProcess::thaw() const {
  ::kill(child_->pid(), SIGCONT);
}

void GuestProcess::kill() {
  ::kill(child_->pid(), SIGKILL);
  child_.reset();
  broken_ = true;
}

std::string GuestProcess::console() const {
  return contents_of(dir_.file("console"));
}

}  // namespace larder::nvmf_guest
