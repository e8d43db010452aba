// SPDX-License-Identifier: Apache-2.0
// One queue of a small NVMe/TCP host for tests of the target: blocking, and willing to send
// anything.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "env/socket.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/pdu/log_page.h"
#include "nvmf/pdu/pdu.h"
#include "nvmf/pdu/properties.h"
#include "nvmf/target/target.h"
#include "nvmf/target/target_testing_types.h"

namespace larder::nvmf {

// One connection.
class TestQueue {
 public:
  explicit TestQueue(const env::SocketAddress& address)
      : fd_(value_of(env::connect_to(address, soon()))) {}
  explicit TestQueue(env::Fd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  bool send(std::span<const std::byte> bytes) {
    return env::send_all(fd_.get(), bytes, soon()).has_value();
  }

  // Sends ICReq and takes ICResp.
  IcResp negotiate(const QueueOptions& options) {
    IcReq request;
    request.dgst = options.digests;
    request.hpda = options.hpda;
    std::array<std::byte, kHeadBytesMax> head{};
    const std::size_t size = encode_head(request, 0, 0, {}, head);
    EXPECT_TRUE(send(std::span(head).first(size)));
    const Received got = receive();
    EXPECT_EQ(got.header.type, PduType::kIcResp);
    const auto response = got.as<IcResp>();
    out_.header_digest = in_.header_digest = (response.dgst & kDigestHeader) != 0;
    out_.data_digest = in_.data_digest = (response.dgst & kDigestData) != 0;
    out_.data_alignment = alignment_of(response.cpda);
    in_.data_alignment = alignment_of(options.hpda);
    return response;
  }

  // A command capsule, with data in it.
  Bytes capsule(const Command& command, std::span<const std::byte> data = {}) {
    CapsuleCmd pdu;
    pdu.command = command;
    return encode(pdu, 0, data);
  }
  Bytes h2c_data(std::uint16_t cid, std::uint16_t ttag, std::uint32_t offset,
                 std::span<const std::byte> data, bool last) {
    H2cData pdu;
    pdu.cccid = cid;
    pdu.ttag = ttag;
    pdu.datao = offset;
    pdu.datal = static_cast<std::uint32_t>(data.size());
    return encode(pdu, last ? kFlagLast : 0, data);
  }

  // The next PDU, its digests verified.
  Received receive() {
    Received out;
    out.head.resize(sizeof(PduHeader));
    if (!env::receive_all(fd_.get(), out.head, soon())) {
      out.closed = true;
      return out;
    }
    out.header = load_le<PduHeader>(out.head.data());
    const auto layout = layout_of(out.header, Direction::kToHost, in_, UINT32_MAX);
    if (!layout) {
      ADD_FAILURE() << to_error(layout.error()).message();
      out.closed = true;
      return out;
    }
    out.head.resize(layout->head_bytes);
    out.data.resize(layout->data_bytes);
    Bytes digest(layout->data_digest_bytes);
    out.closed =
        !env::receive_all(fd_.get(), std::span(out.head).subspan(sizeof(PduHeader)), soon()) ||
        !env::receive_all(fd_.get(), out.data, soon()) ||
        !env::receive_all(fd_.get(), digest, soon());
    if (out.closed) return out;
    EXPECT_TRUE(check_header_digest(out.head, *layout));
    if (digest.empty()) return out;
    EXPECT_EQ(load_le<std::uint32_t>(digest.data()), crc32c(out.data));
    return out;
  }
  bool ends() {  // nothing but the end of the connection follows
    while (true) {
      const Received got = receive();
      if (got.closed) return true;
      if (got.header.type != PduType::kC2hTermReq) return false;
    }
  }
  // The reason of a C2HTermReq, which is what comes next.
  std::optional<FatalStatus> term() {
    const Received got = receive();
    if (got.closed || got.header.type != PduType::kC2hTermReq) return std::nullopt;
    return static_cast<FatalStatus>(got.as<TermReq>().fes);
  }

  // Sends a command and sees it through; `write`: data for R2Ts.
  Answer run(Command command, std::span<const std::byte> in_capsule = {},
             std::span<const std::byte> write = {}) {
    command.cid = next_cid_++;
    EXPECT_TRUE(send(capsule(command, in_capsule)));
    return finish(command.cid, write);
  }
  Answer finish(std::uint16_t cid, std::span<const std::byte> write = {}) {
    Answer out;
    while (true) {
      const Received got = receive();
      if (got.closed) {
        ADD_FAILURE() << "the connection ended instead of a response";
        out.status = failed(Sc::kHostPath);
        return out;
      }
      if (got.header.type == PduType::kR2t) {
        const auto r2t = got.as<R2t>();
        EXPECT_TRUE(check(r2t));
        EXPECT_LE(std::uint64_t{r2t.r2to} + r2t.r2tl, write.size());
        send_for(r2t, write);
        continue;
      }
      if (got.header.type == PduType::kC2hData) {
        const auto pdu = got.as<C2hData>();
        EXPECT_EQ(pdu.cccid, cid);
        EXPECT_EQ(pdu.datao, out.data.size());
        out.data.insert(out.data.end(), got.data.begin(), got.data.end());
        if ((got.header.flags & kFlagSuccess) == 0) continue;
        out.success_flag = true;
        return out;
      }
      EXPECT_EQ(got.header.type, PduType::kCapsuleResp);
      const auto completion = got.as<CapsuleResp>().completion;
      EXPECT_EQ(completion.cid, cid);
      out.status = completion.result();
      out.value = completion.value();
      return out;
    }
  }
  void send_for(const R2t& r2t, std::span<const std::byte> write) {
    std::uint32_t sent = 0;
    while (sent < r2t.r2tl) {
      const std::uint32_t part = std::min(r2t.r2tl - sent, h2c_part_);
      EXPECT_TRUE(send(h2c_data(r2t.cccid, r2t.ttag, r2t.r2to + sent,
                                write.subspan(r2t.r2to + sent, part), sent + part == r2t.r2tl)));
      sent += part;
    }
  }
  void set_h2c_part(std::uint32_t bytes) { h2c_part_ = bytes; }

  Answer connect(const QueueOptions& options, std::uint16_t qid, std::uint16_t cntlid,
                 const std::string& subsystem) {
    ConnectData data;
    data.host_id = options.host_id;
    data.cntlid = cntlid;
    encode_nqn(options.subsystem.empty() ? subsystem : options.subsystem, data.subnqn);
    encode_nqn(options.host, data.hostnqn);
    ConnectCommand command;
    command.sgl = Sgl::in_capsule(sizeof(data));
    command.qid = qid;
    command.sqsize = static_cast<std::uint16_t>(options.entries - 1);
    command.cattr = options.sq_flow ? 0 : kNoSqFlow;
    command.kato_ms = options.kato_ms;
    return run(__builtin_bit_cast(Command, command), std::as_bytes(std::span(&data, 1)));
  }

  Answer get_property(PropertyOffset offset) {
    PropertyCommand command;
    command.fctype = static_cast<std::uint8_t>(FabricsType::kPropertyGet);
    command.offset = static_cast<std::uint32_t>(offset);
    command.attrib = property_bytes(command.offset) == 8 ? 1 : 0;
    return run(__builtin_bit_cast(Command, command));
  }
  Answer set_configuration(Cc cc) {
    PropertyCommand command;
    command.fctype = static_cast<std::uint8_t>(FabricsType::kPropertySet);
    command.offset = static_cast<std::uint32_t>(PropertyOffset::kCc);
    command.value = cc.bits;
    return run(__builtin_bit_cast(Command, command));
  }

  static Command admin(AdminOpcode opcode, std::uint32_t bytes = 0) {
    Command command;
    command.opcode = static_cast<std::uint8_t>(opcode);
    command.sgl = Sgl::transport(bytes);
    return command;
  }
  Answer identify(IdentifyCns cns, std::uint32_t nsid = 0) {
    Command command = admin(AdminOpcode::kIdentify, kIdentifyBytes);
    command.cdw10 = static_cast<std::uint32_t>(cns);
    command.nsid = nsid;
    return run(command);
  }
  Answer log_page(LogPage page, std::uint32_t bytes, std::uint64_t offset = 0) {
    Command command = admin(AdminOpcode::kGetLogPage, bytes);
    LogRequest{static_cast<std::uint8_t>(page), false, bytes, offset}.put_into(command);
    return run(command);
  }

  static Command io(IoOpcode opcode, std::uint64_t lba, std::uint32_t blocks,
                    std::uint32_t block_bytes, std::uint32_t nsid = 1) {
    Command command;
    command.opcode = static_cast<std::uint8_t>(opcode);
    command.nsid = nsid;
    command.set_range(lba, blocks);
    command.sgl = Sgl::transport(blocks * block_bytes);
    return command;
  }
  Answer read(std::uint64_t lba, std::uint32_t blocks, std::uint32_t block_bytes = 4096,
              std::uint32_t nsid = 1) {
    return run(io(IoOpcode::kRead, lba, blocks, block_bytes, nsid));
  }
  // By R2T, or in the capsule.
  Answer write(std::uint64_t lba, std::span<const std::byte> data, bool in_capsule = false,
               std::uint32_t block_bytes = 4096, std::uint32_t nsid = 1) {
    Command command = io(IoOpcode::kWrite, lba,
                         static_cast<std::uint32_t>(data.size()) / block_bytes, block_bytes, nsid);
    if (!in_capsule) return run(command, {}, data);
    command.sgl = Sgl::in_capsule(static_cast<std::uint32_t>(data.size()));
    return run(command, data);
  }
  Answer flush(std::uint32_t nsid = 1) {
    Command command = io(IoOpcode::kFlush, 0, 1, 0, nsid);
    return run(command);
  }

  const Framing& out() const { return out_; }

 private:
  template <class T>
  Bytes encode(const T& pdu, std::uint8_t flags, std::span<const std::byte> data) {
    std::array<std::byte, kHeadBytesMax> head{};
    const std::size_t before =
        encode_head(pdu, flags, static_cast<std::uint32_t>(data.size()), out_, head);
    Bytes all(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(before));
    all.insert(all.end(), data.begin(), data.end());
    if (out_.data_digest && !data.empty()) {
      const std::uint32_t digest = crc32c(data);
      const auto bytes = std::as_bytes(std::span(&digest, 1));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  env::Fd fd_;
  Framing in_;
  Framing out_;
  std::uint16_t next_cid_ = 1;
  std::uint32_t h2c_part_ = 1U << 20U;
};

}  // namespace larder::nvmf
