// SPDX-License-Identifier: Apache-2.0
// A host that sends anything, to the target's state machine over a socket pair: as an admin or an
// I/O queue, raw or as PDUs that are well-formed but for what the input changes. Whatever comes,
// what the target answers is well-formed, and it neither hangs nor keeps anything.
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/checksum.h"
#include "nvmf/target/connection.h"
#include "tests/fuzz/fuzz_input.h"

using larder::fuzz::bytes_of;
using larder::fuzz::FuzzInput;
using larder::fuzz::require;
using namespace larder::nvmf;
namespace env = larder::env;

namespace {

constexpr std::uint64_t kRamBytes = 64U << 10U;

TargetOptions options_of() {
  TargetOptions options;
  options.queue_entries_max = 16;
  options.bounce_bytes_max = 4U << 20U;
  options.h2c_data_max = 8192;
  options.r2t_bytes_max = 16384;
  return options;
}

// One connection, and the host's end of it.
class Pipe {
 public:
  explicit Pipe(ReactorShared& shared) {
    int ends[2] = {-1, -1};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a socket pair");
    host_.reset(ends[0]);
    connection_ = std::make_unique<Connection>(env::Fd(ends[1]), shared);
  }
  void set_framing(const Framing& framing) { framing_ = framing; }
  bool open() const { return !connection_->closing(); }
  Connection& connection() { return *connection_; }

  void send(std::span<const std::byte> bytes) {
    while (!bytes.empty() && open()) {
      const auto part = bytes.first(std::min<std::size_t>(bytes.size(), 16384));
      if (::send(host_.get(), part.data(), part.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(part.size())) {
        break;
      }
      bytes = bytes.subspan(part.size());
      pump();
    }
  }
  // Until nothing moves any more.
  void pump() {
    for (int round = 0; open(); ++round) {
      require(round < 10'000, "the target comes to rest");
      bool worked = false;
      connection_->on_ready(worked);
      worked |= drain();
      if (!worked) break;
    }
    drain();
    parse();
  }
  std::uint16_t last_ttag = 0;
  std::uint64_t answers = 0;

 private:
  bool drain() {
    std::array<char, 65536> some;
    bool any = false;
    while (true) {
      const ssize_t n = ::recv(host_.get(), some.data(), some.size(), 0);
      if (n <= 0) return any;
      received_.append(some.data(), static_cast<std::size_t>(n));
      any = true;
    }
  }
  void parse() {
    std::size_t at = 0;
    while (received_.size() - at >= sizeof(PduHeader)) {
      const auto header = larder::load_le<PduHeader>(received_.data() + at);
      const auto layout = layout_of(header, Direction::kToHost, framing_, 1U << 20U);
      require(layout.has_value(), "what the target sends is well-formed");
      if (received_.size() - at < layout->total()) break;
      const auto pdu = bytes_of(received_).subspan(at, layout->total());
      require(check_header_digest(pdu, *layout).has_value(), "with the right digest");
      if (header.type == PduType::kR2t) last_ttag = load_pdu<R2t>(pdu).ttag;
      if (header.type == PduType::kCapsuleResp) ++answers;
      if (header.type == PduType::kIcResp) agree(load_pdu<IcResp>(pdu));
      at += layout->total();
    }
    received_.erase(0, at);
  }

  // What raw bytes have asked for.
  void agree(const IcResp& response) {
    framing_.header_digest = (response.dgst & kDigestHeader) != 0;
    framing_.data_digest = (response.dgst & kDigestData) != 0;
  }

  env::Fd host_;
  std::unique_ptr<Connection> connection_;
  Framing framing_;
  std::string received_;
};

template <class T>
std::string encode(T pdu, std::uint8_t flags, std::string_view data, const Framing& framing) {
  std::array<std::byte, kHeadBytesMax> head{};
  const std::size_t before =
      encode_head(pdu, flags, static_cast<std::uint32_t>(data.size()), framing, head);
  std::string out(reinterpret_cast<const char*>(head.data()), before);
  out += data;
  if (framing.data_digest && !data.empty()) {
    const std::uint32_t crc = larder::crc32c(bytes_of(data));
    out.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  }
  return out;
}

void open_queue(Pipe& pipe, const Framing& framing, std::uint16_t qid, bool sq_flow,
                const TargetOptions& options) {
  IcReq request;
  request.dgst = (framing.header_digest ? 1 : 0) | (framing.data_digest ? 2 : 0);
  request.hpda = static_cast<std::uint8_t>(framing.data_alignment / 4 - 1);
  pipe.send(bytes_of(encode(request, 0, {}, {})));
  pipe.set_framing(framing);
  ConnectData data;
  data.cntlid = qid == 0 ? kAnyController : 1;
  encode_nqn(options.nqn, data.subnqn);
  encode_nqn("nqn.2024-01.io.larder:fuzz", data.hostnqn);
  ConnectCommand command;
  command.sgl = Sgl::in_capsule(sizeof(data));
  command.qid = qid;
  command.sqsize = 7;
  command.cattr = sq_flow ? 0 : kNoSqFlow;
  CapsuleCmd pdu;
  pdu.command = __builtin_bit_cast(Command, command);
  Framing out = framing;
  out.data_alignment = 4;
  pipe.send(bytes_of(encode(pdu, 0, {reinterpret_cast<const char*>(&data), sizeof(data)}, out)));
}

void enable(Pipe& pipe, Framing framing) {
  framing.data_alignment = 4;
  PropertyCommand command;
  command.offset = static_cast<std::uint32_t>(PropertyOffset::kCc);
  command.value = Cc::enabled().bits;
  CapsuleCmd pdu;
  pdu.command = __builtin_bit_cast(Command, command);
  pipe.send(bytes_of(encode(pdu, 0, {}, framing)));
}

// PDUs that get past the framing.
void send_built(FuzzInput& input, Pipe& pipe, Framing framing) {
  framing.data_alignment = 4;
  while (!input.empty() && pipe.open()) {
    const std::uint8_t shape = input.byte();
    std::string bytes;
    if ((shape & 3) == 3) {
      H2cData pdu;
      pdu.cccid = input.byte();
      pdu.ttag = (shape & 4) != 0 ? pipe.last_ttag : input.byte();
      pdu.datao = input.byte() * 512U;
      pdu.datal = (input.byte() + 1U) * 64U;
      const std::string data(pdu.datal, static_cast<char>(shape));
      bytes = encode(pdu, (shape & 8) != 0 ? kFlagLast : 0, data, framing);
    } else {
      CapsuleCmd pdu;
      const std::string_view raw = input.take(sizeof(Command));
      std::memcpy(static_cast<void*>(&pdu.command), raw.data(), raw.size());
      if ((shape & 4) != 0) pdu.command.flags = kPsdtSgl;
      if ((shape & 8) != 0) pdu.command.nsid = 1;
      if ((shape & 16) != 0) pdu.command.cdw11 = 0;
      std::string data;
      if ((shape & 3) == 2) data.assign((input.byte() + 1U) * 64U, 'd');
      if ((shape & 32) != 0) {
        pdu.command.sgl = data.empty() ? Sgl::transport(pdu.command.blocks() * 512)
                                       : Sgl::in_capsule(static_cast<std::uint32_t>(data.size()));
      }
      bytes = encode(pdu, 0, data, framing);
    }
    if ((shape & 0xC0) == 0xC0 && !bytes.empty()) bytes[input.below_or(bytes.size() - 1)] ^= 1;
    pipe.send(bytes_of(bytes));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TargetOptions options = options_of();
  FuzzInput input(data, size);
  const std::uint8_t mode = input.byte();
  Subsystem subsystem(options, [] {});
  NamespaceOptions ram;
  ram.ram_bytes = kRamBytes;
  ram.block_bytes = 512;
  ram.populate = false;
  require(subsystem.add(ram).has_value(), "a namespace");
  ReactorCounters counters;
  auto inbox = Inbox::create();
  require(inbox.has_value(), "an inbox");
  ReactorShared shared{subsystem,
                       counters,
                       [] { return TargetStats{}; },
                       *inbox,
                       ChunkPool(options.bounce_bytes_max),
                       subsystem.table(),
                       0,
                       0,
                       false,
                       0};
  const Framing framing{(mode & 1) != 0, (mode & 2) != 0,
                        alignment_of(static_cast<std::uint8_t>(mode >> 6U))};
  {
    Pipe admin(shared);
    Pipe io(shared);
    Pipe& pipe = (mode & 8) != 0 ? io : admin;
    if ((mode & 16) != 0) {
      open_queue(admin, framing, 0, (mode & 4) != 0, options);
      enable(admin, framing);
      if ((mode & 8) != 0) open_queue(io, framing, 1, (mode & 4) != 0, options);
      require(pipe.answers >= 1 && pipe.open(), "a queue that is as it should be is opened");
    }
    if ((mode & 32) != 0) {
      send_built(input, pipe, framing);
    } else {
      pipe.send(bytes_of(input.rest()));
    }
    shared.now += 100 * env::kSecond;
    pipe.connection().on_tick(false);
    pipe.connection().on_room();
  }
  require(shared.pool.taken() == 0, "all memory is back");
  require(subsystem.controllers() == 0, "and all controllers are gone");
  return 0;
}
