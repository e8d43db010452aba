// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/queue_pair.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "nvmf/pdu/connect.h"

namespace larder::nvmf {
namespace {

constexpr std::size_t kPlacesMax = 64;
// Bytes of one pump(): what has ended is to be replaced by new commands while the rest comes.
constexpr std::size_t kReceiveBudget = 512U << 10U;
constexpr std::uint64_t kOwn = ~std::uint64_t{0};  // owner of what execute() waits for

std::size_t bytes_of(std::span<const iovec> places) noexcept {
  std::size_t sum = 0;
  for (const iovec& place : places) sum += place.iov_len;
  return sum;
}

// What a Connect that was refused means for people (Fabrics 1.1 section 3.3, figure 20).
Error refusal(const PairOptions& options, const Completion& completion) {
  const Status status = completion.result();
  const std::string text = "Connect was refused: " + to_string(status);
  switch (status.code) {
    case Sc::kConnectInvalidHost:
      return {Code::kPermissionDenied, text + "; the target does not let the host " +
                                           options.host.nqn + " in: allow it there"};
    case Sc::kControllerBusy:
      return {Code::kExhausted, text + "; the target has no controller left for this host"};
    case Sc::kConnectInvalidParameters: {
      const ConnectRefusal where = ConnectRefusal::from(completion.dw0);
      if (where.in_data && where.offset == offsetof(ConnectData, subnqn)) {
        return {Code::kNotFound, text + "; there is no subsystem " + options.subnqn +
                                     " for this host: see larder nvme discover"};
      }
      if (where.in_data && where.offset == offsetof(ConnectData, hostnqn)) {
        return {Code::kPermissionDenied,
                text + "; the target does not take the host NQN " + options.host.nqn};
      }
      return {Code::kUnavailable, text + " (offset " + std::to_string(where.offset) +
                                      (where.in_data ? " of its data)" : " of the command)")};
    }
    case Sc::kAuthenticationRequired:
      return {Code::kUnsupported, text + "; authentication is not spoken here"};
    default:
      return {code_of(status), text};
  }
}

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::connect(const PairOptions& options,
                                                      env::Nanos deadline) {
  LARDER_ASSIGN(env::Fd fd, env::connect_to(options.address, deadline));
  env::set_keep_alive(fd.get());
  std::unique_ptr<QueuePair> pair(new QueuePair(options, std::move(fd)));
  if (const auto shaken = pair->shake(deadline); !shaken) {
    return fail(pair->explain(shaken.error()));
  }
  LARDER_TRY(pair->join(deadline));
  return pair;
}

Error QueuePair::explain(const Error& error) const {
  return {error.code(), options_.address.to_string() + ", queue " + std::to_string(options_.qid) +
                            ": " + error.message()};
}

// ---- handshake

Result<void> QueuePair::shake(env::Nanos deadline) {
  IcReq request;
  request.maxr2t = kMaxR2t;
  request.dgst = static_cast<std::uint8_t>((options_.header_digest ? kDigestHeader : 0) |
                                           (options_.data_digest ? kDigestData : 0));
  std::array<std::byte, kHeadBytesMax> head;
  const std::size_t bytes = encode_head(request, 0, 0, Framing(), head);
  // Who closes at once may have said why: what is there to read counts, not whether this was sent.
  static_cast<void>(env::send_all(fd_.get(), std::span(head).first(bytes), deadline));
  LARDER_ASSIGN(const IcResp answer, receive_answer(deadline));
  if (const auto right = check(answer); !right) return fail(to_error(right.error()));
  if ((answer.dgst & ~request.dgst) != 0) {
    return fail(Code::kCorrupt, "the target turns on a digest that was not asked for");
  }
  if (answer.dgst != request.dgst) {
    return fail(Code::kUnsupported,
                "the target does not do the digests that were asked for; leave hdgst and ddgst "
                "out of the URL, or allow them there");
  }
  SessionLimits limits;
  limits.commands = static_cast<std::uint16_t>(std::clamp(options_.entries - 1, 1, 4096));
  limits.in_capsule_max = options_.in_capsule_max;
  limits.h2c_data_max = answer.maxh2cdata;
  limits.in = {options_.header_digest, options_.data_digest, 4};
  limits.out = {options_.header_digest, options_.data_digest, alignment_of(answer.cpda)};
  session_ = std::make_unique<Session>(limits);
  return {};
}

Result<IcResp> QueuePair::receive_answer(env::Nanos deadline) {
  std::array<std::byte, sizeof(IcResp)> bytes;
  const auto all = std::span<std::byte>(bytes);
  const auto begun = env::receive_all(fd_.get(), all.first(sizeof(PduHeader)), deadline);
  if (!begun) {
    return fail(begun.error().code(),
                begun.error().message() + " in the handshake; is this an NVMe/TCP target?");
  }
  const auto header = load_pdu<PduHeader>(all);
  const auto layout = layout_of(header, Direction::kToHost, Framing(), kTermDataMax);
  if (!layout) {
    return fail(Code::kCorrupt,
                "this is no NVMe/TCP target: " + to_error(layout.error()).message());
  }
  const bool complains = layout->type == PduType::kC2hTermReq;
  if (!complains && layout->type != PduType::kIcResp) {
    return fail(Code::kCorrupt,
                "the target answers the handshake with a " + std::string(pdu_name(layout->type)));
  }
  std::array<std::byte, kTermBytesMax> rest;
  const std::size_t more = layout->total() - sizeof(PduHeader);
  LARDER_TRY(
      env::receive_all(fd_.get(), std::span(rest).first(std::min(more, rest.size())), deadline));
  if (complains) {
    std::array<std::byte, kTermBytesMax> whole{};
    std::copy_n(bytes.begin(), sizeof(PduHeader), whole.begin());
    std::copy_n(rest.begin(), std::min(more, whole.size() - sizeof(PduHeader)),
                whole.begin() + sizeof(PduHeader));
    return fail(Code::kUnavailable, "the target refuses the handshake: " +
                                        describe_term(std::span(whole).first(layout->total())));
  }
  std::copy_n(rest.begin(), more, bytes.begin() + sizeof(PduHeader));
  return load_pdu<IcResp>(bytes);
}

Result<void> QueuePair::join(env::Nanos deadline) {
  ConnectCommand connect;
  connect.qid = options_.qid;
  connect.sqsize = static_cast<std::uint16_t>(options_.entries - 1);
  connect.cattr = kNoSqFlow;
  connect.kato_ms = options_.keep_alive_ms;
  ConnectData data;
  data.host_id = options_.host.id;
  data.cntlid = options_.cntlid;
  encode_nqn(options_.subnqn, data.subnqn);
  encode_nqn(options_.host.nqn, data.hostnqn);
  const OneBlock block(&data, sizeof(data));
  Request request;
  request.command = std::bit_cast<Command>(connect);
  request.flow = DataFlow::kToController;
  request.data = block.window();
  LARDER_ASSIGN(const Completion completion, execute(request, deadline));
  if (!completion.result().ok()) return fail(explain(refusal(options_, completion)));
  cntlid_ = static_cast<std::uint16_t>(completion.dw0);
  if (options_.qid != 0 && cntlid_ != options_.cntlid) {
    return fail(explain({Code::kCorrupt, "the target puts the queue on controller " +
                                             std::to_string(cntlid_) + ", not " +
                                             std::to_string(options_.cntlid)}));
  }
  // A target that insists on SQ flow control says where its head is (Fabrics 1.1 section 3.3).
  if (completion.sqhd == 0xFFFF) session_->allow_success();
  return {};
}

// ---- moving bytes

Result<bool> QueuePair::flush() {
  bool some = false;
  blocked_ = false;
  std::array<iovec, kPlacesMax> places;
  for (;;) {
    const std::size_t count = session_->outgoing(places);
    if (count == 0) return some;
    const std::span<const iovec> now = std::span(places).first(count);
    const env::IoResult sent = env::send(fd_.get(), now);
    if (sent.status == env::IoStatus::kOk) {
      some = true;
      session_->sent(sent.bytes);
      if (sent.bytes == bytes_of(now)) continue;
    } else if (sent.status != env::IoStatus::kWouldBlock) {
      // What the target said before it closed is still there to read.
      return some;
    }
    blocked_ = true;
    return some;
  }
}

Result<bool> QueuePair::receive() {
  bool some = false;
  std::array<iovec, kPlacesMax> places;
  for (std::size_t taken = 0; taken < kReceiveBudget;) {
    const std::size_t count = session_->places(places);
    const std::span<iovec> now = std::span(places).first(count);
    const env::IoResult got = env::receive(fd_.get(), now);
    if (got.status == env::IoStatus::kWouldBlock) break;
    if (got.status != env::IoStatus::kOk) {
      close();
      const std::string why = got.error != 0 ? ": " + env::errno_text(got.error) : "";
      return fail(explain({Code::kUnavailable, "the target closed the connection" + why}));
    }
    some = true;
    taken += got.bytes;
    if (const auto right = session_->received(got.bytes); !right) {
      return fail(give_up(right.error()));
    }
    if (got.bytes < bytes_of(now)) break;  // there was no more
  }
  return some;
}

Result<bool> QueuePair::pump() {
  if (!fd_.valid()) return fail(explain({Code::kUnavailable, "the connection is closed"}));
  LARDER_ASSIGN(const bool sent, flush());
  LARDER_ASSIGN(const bool received, receive());
  if (received && !blocked_ && session_->has_outgoing()) LARDER_TRY(flush());
  return sent || received;
}

// Tells the controller why, as far as that goes without waiting, and closes.
Error QueuePair::give_up(const PduFault& fault) {
  const bool theirs = fault.type == PduType::kC2hTermReq;
  if (!theirs) {
    std::array<std::byte, kTermBytesMax> term;
    const std::size_t bytes =
        encode_term(Direction::kToController, fault, session_->offending(), term);
    const iovec place{term.data(), bytes};
    // In the middle of another PDU it would be taken for data of that.
    if (!session_->mid_pdu()) static_cast<void>(env::send(fd_.get(), std::span(&place, 1)));
  }
  close();
  if (theirs && !session_->complaint().empty()) {
    return explain(
        {Code::kUnavailable, "the target ended the connection: " + session_->complaint()});
  }
  return explain({Code::kCorrupt, "the target broke the protocol: " + to_error(fault).message()});
}

Result<Completion> QueuePair::execute(Request request, env::Nanos deadline, const Others& others) {
  request.owner = kOwn;
  if (session_->room() == 0) {
    return fail(explain({Code::kInternal, "no room for a command that is waited for"}));
  }
  session_->submit(request, env::monotonic_now());
  for (;;) {
    LARDER_TRY(pump());
    std::array<Ended, 8> ended;
    std::size_t count = 0;
    std::optional<Ended> own;
    while ((count = session_->take_ended(ended)) > 0) {
      for (const Ended& one : std::span(ended).first(count)) {
        if (one.request.owner == kOwn) own = one;
        if (one.request.owner != kOwn && others) others(one);
      }
    }
    if (own) {
      if (!own->digest_wrong) return own->completion;
      close();
      return fail(explain({Code::kCorrupt, "data came with a digest that is not theirs"}));
    }
    const short events = static_cast<short>(env::kReadable | (blocked_ ? env::kWritable : 0));
    if (env::wait_ready(fd_.get(), events, deadline) == 0) {
      close();
      return fail(explain({Code::kDeadlineExceeded, "the target does not answer"}));
    }
  }
}

}  // namespace larder::nvmf
