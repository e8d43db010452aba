// SPDX-License-Identifier: Apache-2.0
#include "nvmf/target/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "env/socket.h"
#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr int kRoundsMax = 16;  // reads of one connection before others have their turn
constexpr env::Nanos kLinger = env::kSecond;  // for a host to read why it was given up
constexpr env::Nanos kLogEvery = 10 * env::kSecond;

obs::LogEvery protocol_errors{static_cast<std::uint64_t>(kLogEvery)};

}  // namespace

Connection::Connection(env::Fd socket, ReactorShared& shared)
    : shared_(shared),
      socket_(std::move(socket)),
      buffer_(new std::byte[kBufferBytes]),
      opened_(shared.now),
      progress_(shared.now) {
  for (std::size_t i = 0; i < kFirstSlots; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.connection = this;
    slot.index = static_cast<std::uint16_t>(i);
    free_.push_back(&slot);
  }
}

Connection::~Connection() {
  close();
}

void Connection::on_ready(bool& worked) {
  const std::uint64_t before = received_ + sender_.sent();
  for (int round = 0; round < kRoundsMax && !closing_; ++round) {
    bool drained = false;
    if (!read_once(drained)) {
      close();
      return;
    }
    // After the bytes were read: a command that was sent after a change must see it.
    shared_.refresh();
    parse();
    if (drained || stuffed_) break;
  }
  flush();
  worked = received_ + sender_.sent() != before;
}

void Connection::flush() {
  if (closing_) return;
  if (!sender_.empty() && !sender_.flush(socket_.get(), *this)) {
    close();
    return;
  }
  if (!sender_.empty()) return;
  if (leaving_) close();
  if (ending_ && !closing_) ::shutdown(socket_.get(), SHUT_WR);
}

// False: the connection is at its end.
bool Connection::read_once(bool& drained) {
  if (ending_) begin_ = end_ = 0;
  const bool into_slot = incoming_ != nullptr && begin_ == end_;
  return into_slot ? read_into_slot(drained) : read_into_buffer(drained);
}

// What may be read beyond what is wanted. While more data are to come, little: what lands in the
// buffer must be copied once more.
std::size_t Connection::read_ahead() const noexcept {
  constexpr std::size_t kHeads = 1024;
  return asking_ > (incoming_ != nullptr ? 1U : 0U) ? kHeads : kBufferBytes;
}

bool Connection::read_into_buffer(bool& drained) {
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t room = kBufferBytes - end_;
  if (room == 0) {  // stuffed
    drained = true;
    return true;
  }
  // What is begun must fit, whatever else is to come.
  const std::size_t wanted = end_ > 0 ? room : std::min(room, read_ahead());
  const env::IoResult got = env::receive(socket_.get(), buffer_.get() + end_, wanted);
  if (got.status == env::IoStatus::kWouldBlock) {
    drained = true;
    return true;
  }
  if (got.status != env::IoStatus::kOk) return false;
  end_ += got.bytes;
  received_ += got.bytes;
  drained = got.bytes < wanted;
  return true;
}

void Connection::parse() {
  while (!closing_ && !ending_ && parse_one()) {
  }
}

// False: more bytes are needed, or room.
bool Connection::parse_one() {
  stuffed_ = false;
  if (incoming_ != nullptr) {
    take_buffered_data();
    if (incoming_ != nullptr) return false;
  }
  const auto bytes = unread();
  if (bytes.size() < sizeof(PduHeader)) return false;
  const auto header = load_le<PduHeader>(bytes.data());
  if (!may_come_now(header.type)) {
    give_up({FatalStatus::kSequence, 0, header.type, "it may not come now"}, bytes);
    return false;
  }
  const auto layout = layout_of(header, Direction::kToController, in_, data_max(header.type));
  if (!layout) {
    give_up(layout.error(), bytes);
    return false;
  }
  const bool streams = header.type == PduType::kH2cData;
  const std::size_t needed = streams ? layout->head_bytes : layout->total();
  if (bytes.size() < needed) return false;
  const auto pdu = bytes.first(needed);
  if (const auto digest = check_header_digest(pdu, *layout); !digest) {
    give_up(digest.error(), pdu);
    return false;
  }
  if (!on_pdu(*layout, pdu)) return false;
  begin_ += needed;
  return true;
}

std::uint32_t Connection::data_max(PduType type) const noexcept {
  if (type == PduType::kH2cData) return shared_.subsystem.options().h2c_data_max;
  const bool admin = controller_ == nullptr || qid_ == 0;
  return admin ? kAdminCapsuleBytes : shared_.subsystem.options().in_capsule_bytes;
}

bool Connection::may_come_now(PduType type) const noexcept {
  if (type == PduType::kH2cTermReq) return true;
  if (type == PduType::kIcReq) return !negotiated_;
  return negotiated_;
}

// False: it was not taken.
bool Connection::on_pdu(const PduLayout& layout, std::span<const std::byte> bytes) {
  switch (layout.type) {
    case PduType::kIcReq:
      on_ic_req(load_pdu<IcReq>(bytes));
      return true;
    case PduType::kCapsuleCmd:
      return on_capsule(layout, bytes);
    case PduType::kH2cData:
      return begin_data(layout, load_pdu<H2cData>(bytes), bytes);
    default:  // H2CTermReq; the others have another direction
      obs::log_every(protocol_errors, static_cast<std::uint64_t>(shared_.now), obs::Level::kWarn,
                     "nvmf_host_gave_up", {{"reason", describe_term(bytes)}});
      bump(shared_.counters.protocol_errors);
      close();
      return true;
  }
}

void Connection::on_ic_req(const IcReq& request) {
  if (const auto checked = check(request); !checked) {
    give_up(checked.error(), std::as_bytes(std::span(&request, 1)));
    return;
  }
  const TargetOptions& options = shared_.subsystem.options();
  IcResp response;
  response.cpda = options.cpda;
  response.dgst = request.dgst & (kDigestHeader | kDigestData);
  response.maxh2cdata = options.h2c_data_max;
  send_notice(encode_head(response, 0, 0, {}, std::span(notice_.head).first<kHeadBytesMax>()));
  in_.header_digest = out_.header_digest = (response.dgst & kDigestHeader) != 0;
  in_.data_digest = out_.data_digest = (response.dgst & kDigestData) != 0;
  in_.data_alignment = alignment_of(options.cpda);
  out_.data_alignment = alignment_of(request.hpda);
  negotiated_ = true;
}

bool Connection::on_capsule(const PduLayout& layout, std::span<const std::byte> bytes) {
  const auto pdu = load_pdu<CapsuleCmd>(bytes);
  if (must_wait(pdu.command, layout.data_bytes)) {
    stuffed_ = true;
    return false;
  }
  const auto data = bytes.subspan(layout.head_bytes, layout.data_bytes);
  bool digest_ok = true;
  if (layout.data_digest_bytes > 0) {
    digest_ok = load_le<std::uint32_t>(data.data() + data.size()) == crc32c(data);
  }
  on_command(pdu.command, data, digest_ok);
  return true;
}

// Says why, and closes when that is sent.
void Connection::give_up(const PduFault& fault, std::span<const std::byte> offending) {
  bump(shared_.counters.protocol_errors);
  const Error error = to_error(fault);
  obs::log_every(protocol_errors, static_cast<std::uint64_t>(shared_.now), obs::Level::kWarn,
                 "nvmf_protocol_error",
                 {{"host", controller_ ? controller_->host_nqn() : "not connected yet"},
                  {"error", error.message()}});
  ending_ = true;
  ending_since_ = shared_.now;
  incoming_ = nullptr;
  // A host that did not wait for its ICResp can do without the reason.
  if (notice_used_) return;
  const auto header =
      offending.first(std::min<std::size_t>(offending.size(), sizeof(CapsuleCmd) + kDigestBytes));
  send_notice(encode_term(Direction::kToHost, fault, header, notice_.head));
}

void Connection::send_notice(std::size_t bytes) {
  notice_.head_bytes = static_cast<std::uint32_t>(bytes);
  notice_used_ = true;
  sender_.add(notice_);
}

void Connection::on_sweep() {
  if (closing_ || controller_ == nullptr) return;
  const bool reset = qid_ != 0 && controller_->incarnation() != incarnation_;
  if (controller_->ended() || reset) {
    close();
    return;
  }
  if (qid_ == 0) {
    send_events();
    flush();
  }
}

void Connection::on_tick(bool paused) {
  if (closing_) return;
  const env::Nanos now = shared_.now;
  const TargetOptions& options = shared_.subsystem.options();
  if (ending_ && now - ending_since_ > kLinger) {
    close();
    return;
  }
  const bool moved = sender_.sent() != sent_before_ || received_ != received_before_;
  const bool owes = !sender_.empty() || asking_ > 0;
  if (paused || moved || !owes) progress_ = now;
  sent_before_ = sender_.sent();
  received_before_ = received_;
  if (now - progress_ > options.stall_timeout) {
    bump(shared_.counters.stalled);
    obs::log(obs::Level::kWarn, "nvmf_host_stalled",
             {{"host", controller_ ? controller_->host_nqn() : "not connected yet"}});
    close();
    return;
  }
  if (controller_ == nullptr) {
    if (paused) opened_ = now;
    if (now - opened_ > options.handshake_timeout) close();
    return;
  }
  if (qid_ != 0) return;
  if (paused) controller_->touch(now);
  if (controller_->expired(now)) {
    bump(shared_.counters.keep_alive_expired);
    obs::log(obs::Level::kWarn, "nvmf_keep_alive_expired",
             {{"host", controller_->host_nqn()}, {"cntlid", controller_->cntlid()}});
    close();
  }
}

// What the discovery log says of where we are.
env::SocketAddress Connection::local_address() const {
  const TargetOptions& options = shared_.subsystem.options();
  env::SocketAddress address = env::local_address(socket_.get()).value_or(options.listen);
  if (options.advertise.empty()) return address;
  if (auto given = env::SocketAddress::parse(options.advertise); given) return *given;
  address.host = options.advertise;
  return address;
}

void Connection::close() noexcept {
  if (closing_) return;
  closing_ = true;
  socket_.reset();
  stuffed_ = false;
  incoming_ = nullptr;
  shared_.waiting -= waiting_.size();
  waiting_.clear();
  held_.clear();
  for (Slot& slot : slots_) {
    if (slot.state != Slot::State::kOnDevice) give_chunks(slot);
  }
  if (controller_ == nullptr) return;
  if (qid_ == 0) {
    shared_.subsystem.end(*controller_);
  } else {
    controller_->release_queue(qid_, incarnation_);
  }
}

}  // namespace larder::nvmf
