// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transfer_peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "apps/bench/page_pattern.h"
#include "apps/child_process.h"
#include "apps/console.h"
#include "base/units.h"
#include "env/clock.h"
#include "env/socket.h"
#include "larder/transfer.h"

namespace larder::apps {
namespace {

constexpr std::size_t kLineBytesMax = 64 << 10;
constexpr env::Nanos kOfferPatience = 60 * env::kSecond;  // it fills its memory first
constexpr env::Nanos kEndPatience = 5 * env::kSecond;

// Both ends close on exec; what the child keeps is copied to its stdin and stdout.
struct Pipe {
  env::Fd read;
  env::Fd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Code::kExhausted, "cannot make a pipe: " + env::errno_text(errno));
  }
  return Pipe{env::Fd(ends[0]), env::Fd(ends[1])};
}

Result<std::string> read_line(int fd) {
  const env::Nanos deadline = env::monotonic_now() + kOfferPatience;
  std::string line;
  while (line.find('\n') == std::string::npos && line.size() < kLineBytesMax) {
    if (env::wait_ready(fd, env::kReadable, deadline) == 0) {
      return fail(Code::kDeadlineExceeded, "the benchmark's peer did not start in time");
    }
    std::array<char, 4096> part{};
    const ssize_t n = ::read(fd, part.data(), part.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) break;
    line.append(part.data(), static_cast<std::size_t>(n));
  }
  return line;
}

void wait_for_end_of_stdin() {
  std::array<char, 256> ignored{};
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, ignored.data(), ignored.size());
    if (n == 0 || (n < 0 && errno != EINTR)) return;
  }
}

Result<PeerOffer> make_offer(TransferEngine& engine, const PeerOptions& options) {
  const auto addresses = engine.addresses();
  if (addresses.empty()) {
    return fail(Code::kUnsupported, "this engine does not listen on " + options.listen);
  }
  LARDER_ASSIGN(void* const memory, engine.allocate_memory(options.bytes));
  fill_pages({static_cast<std::byte*>(memory), options.bytes}, options.seed, 0);
  return PeerOffer{addresses.front(), reinterpret_cast<std::uintptr_t>(memory), options.bytes};
}

Result<void> serve(const PeerOptions& options) {
  TransferConfig config;
  config.listen = {options.listen};
  config.transports = {options.listen.starts_with("unix:") ? "shm" : "tcp"};
  LARDER_ASSIGN(const auto engine, TransferEngine::create(config));
  LARDER_ASSIGN(const PeerOffer offer, make_offer(*engine, options));
  LARDER_TRY(print(offer_to_json(offer)));
  wait_for_end_of_stdin();
  return {};
}

}  // namespace

std::string offer_to_json(const PeerOffer& offer) {
  nlohmann::ordered_json json;
  json["address"] = offer.address;
  json["memory"] = offer.memory;
  json["bytes"] = offer.bytes;
  return json.dump() + "\n";
}

std::string failure_to_json(const Error& error) {
  nlohmann::ordered_json json;
  json["code"] = static_cast<std::uint16_t>(error.code());
  json["error"] = error.message();
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<PeerOffer> parse_offer(std::string_view line) {
  const auto broken = [&] {
    return fail(Code::kInternal,
                "the benchmark's peer did not say where it is, but " + base::quoted(line, 200));
  };
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return broken();
  const auto text = [&](const char* key) {
    const auto at = json.find(key);
    return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    const auto at = json.find(key);
    return at != json.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
  };
  if (json.contains("error")) {
    const std::uint64_t code = number("code");
    const bool known = code > 0 && code <= static_cast<std::uint64_t>(Code::kInternal);
    return fail(known ? static_cast<Code>(code) : Code::kInternal, text("error"));
  }
  PeerOffer offer{text("address"), number("memory"), number("bytes")};
  if (offer.address.empty() || offer.memory == 0 || offer.bytes == 0) return broken();
  return offer;
}

Result<void> serve_transfers(const PeerOptions& options) {
  auto served = serve(options);
  if (!served) LARDER_TRY(print(failure_to_json(served.error())));
  return served;
}

Result<void> TransferPeer::spawn(const PeerOptions& options, int input, int output) {
  LARDER_ASSIGN(std::string program, own_program());
  std::vector<std::string> arguments = {program,       "bench",
                                        "transfer",    "--serve",
                                        "--listen",    options.listen,
                                        "--set-bytes", std::to_string(options.bytes),
                                        "--seed",      std::to_string(options.seed)};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  // Its own group: a Ctrl-C at our terminal reaches us alone, and it ends with us.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error =
      ::posix_spawn(&pid_, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return {};
  pid_ = -1;
  return fail(Code::kExhausted, "cannot start the benchmark's peer: " + env::errno_text(error));
}

Result<std::unique_ptr<TransferPeer>> TransferPeer::start(const PeerOptions& options) {
  std::unique_ptr<TransferPeer> peer(new TransferPeer());
  LARDER_ASSIGN(Pipe input, make_pipe());
  LARDER_ASSIGN(Pipe output, make_pipe());
  LARDER_TRY(peer->spawn(options, input.read.get(), output.write.get()));
  peer->stdin_ = std::move(input.write);
  output.write.reset();  // ours; so a peer that dies ends the line
  LARDER_ASSIGN(const std::string line, read_line(output.read.get()));
  LARDER_ASSIGN(peer->offer_, parse_offer(line));
  return peer;
}

TransferPeer::~TransferPeer() {
  stdin_.reset();
  if (pid_ < 0) return;
  const env::Nanos deadline = env::monotonic_now() + kEndPatience;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (env::monotonic_now() > deadline) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      return;
    }
    env::system_clock().sleep(5 * env::kMilli);
  }
}

}  // namespace larder::apps
