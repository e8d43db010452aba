// SPDX-License-Identifier: Apache-2.0
// The controller's end of one connection, for tests: speaks PDUs, right ones and wrong ones.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "env/fd.h"
#include "env/socket.h"
#include "nvmf/pdu/command.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/pdu/pdu.h"

namespace larder::nvmf {

inline constexpr env::Nanos kFakePatience = 20 * env::kSecond;  // only a failure takes so long

struct FakePdu {
  PduLayout layout;
  std::vector<std::byte> head;
  std::vector<std::byte> data;

  Command command() const { return load_pdu<CapsuleCmd>(head).command; }
  H2cData h2c() const { return load_pdu<H2cData>(head); }
};

// One thread.
class FakeConnection {
 public:
  FakeConnection(env::Fd fd, int stop) : fd_(std::move(fd)), stop_(stop) {}

  // Nothing: the host closed, or the test ends.
  std::optional<FakePdu> receive() {
    FakePdu out;
    PduHeader header;
    if (!read(&header, sizeof(header))) return std::nullopt;
    auto layout = layout_of(header, Direction::kToController, framing, 64U << 20U);
    if (!layout) {
      ADD_FAILURE() << "the host broke a rule: " << to_error(layout.error()).to_string();
      return std::nullopt;
    }
    out.layout = *layout;
    out.head.resize(layout->head_bytes);
    std::memcpy(out.head.data(), &header, sizeof(header));
    if (!read(out.head.data() + sizeof(header), out.head.size() - sizeof(header))) return {};
    EXPECT_TRUE(check_header_digest(out.head, *layout));
    out.data.resize(layout->data_bytes);
    if (!read(out.data.data(), out.data.size())) return std::nullopt;
    std::uint32_t digest = 0;
    if (layout->data_digest_bytes > 0) {
      if (!read(&digest, sizeof(digest))) return std::nullopt;
      EXPECT_EQ(digest, crc32c(out.data));
    }
    return out;
  }

  bool send_raw(std::span<const std::byte> bytes) {
    return env::send_all(fd_.get(), bytes, env::monotonic_now() + kFakePatience).has_value();
  }
  void respond(std::uint16_t cid, Status status = {}, std::uint64_t value = 0) {
    CapsuleResp pdu;
    pdu.completion.cid = cid;
    pdu.completion.set_value(value);
    pdu.completion.set_result(status);
    pdu.completion.sqhd = no_sq_flow ? 0xFFFF : 0;
    send(pdu, 0, {});
  }
  void data(std::uint16_t cid, std::uint32_t offset, std::span<const std::byte> bytes,
            std::uint8_t flags, bool damage = false) {
    C2hData pdu;
    pdu.cccid = cid;
    pdu.datao = offset;
    pdu.datal = static_cast<std::uint32_t>(bytes.size());
    send(pdu, flags, bytes, damage);
  }
  void r2t(std::uint16_t cid, std::uint16_t ttag, std::uint32_t offset, std::uint32_t bytes) {
    R2t pdu;
    pdu.cccid = cid;
    pdu.ttag = ttag;
    pdu.r2to = offset;
    pdu.r2tl = bytes;
    send(pdu, 0, {});
  }
  template <class T>
  std::vector<std::byte> bytes_of(const T& pdu, std::uint8_t flags,
                                  std::span<const std::byte> bytes, bool damage = false) {
    std::array<std::byte, kHeadBytesMax> head;
    const std::size_t head_bytes =
        encode_head(pdu, flags, static_cast<std::uint32_t>(bytes.size()), framing, head);
    std::vector<std::byte> out(head.begin(), head.begin() + head_bytes);
    out.insert(out.end(), bytes.begin(), bytes.end());
    if (framing.data_digest && !bytes.empty()) {
      const std::uint32_t digest = crc32c(bytes) + (damage ? 1 : 0);
      const auto* raw = reinterpret_cast<const std::byte*>(&digest);
      out.insert(out.end(), raw, raw + sizeof(digest));
    }
    return out;
  }
  template <class T>
  void send(const T& pdu, std::uint8_t flags, std::span<const std::byte> bytes,
            bool damage = false) {
    send_raw(bytes_of(pdu, flags, bytes, damage));
  }
  // Nothing more is said; the end of the connection is waited for.
  void wait_for_end() {
    while (receive()) {
    }
  }
  void close() { fd_.reset(); }
  int descriptor() const { return fd_.get(); }

  Framing framing;
  bool no_sq_flow = false;
  std::uint16_t qid = 0;

 private:
  bool read(void* into, std::size_t bytes) {
    auto* at = static_cast<std::byte*>(into);
    while (bytes > 0) {
      const env::IoResult got = env::receive(fd_.get(), at, bytes);
      if (got.status == env::IoStatus::kOk) {
        at += got.bytes;
        bytes -= got.bytes;
      } else if (got.status != env::IoStatus::kWouldBlock || !wait()) {
        return false;
      }
    }
    return true;
  }
  // False: the test ends.
  bool wait() {
    pollfd entries[2] = {{fd_.get(), POLLIN, 0}, {stop_, POLLIN, 0}};
    const int ready = ::poll(entries, 2, static_cast<int>(kFakePatience / env::kMilli));
    return ready > 0 && entries[1].revents == 0;
  }

  env::Fd fd_;
  int stop_;  // readable once the test ends
};

}  // namespace larder::nvmf
