// SPDX-License-Identifier: Apache-2.0
// What a controller may send to a host with commands in flight: arbitrary bytes in arbitrary cuts,
// and PDUs that are nearly right. Nothing but the memory of reads in flight is written to, a read
// that ends well has all of its data, and every command ends at most once.
#include <array>
#include <cstring>
#include <vector>

#include "nvmf/host/session.h"
#include "tests/fuzz/fuzz_input.h"

using larder::fuzz::FuzzInput;
using larder::fuzz::require;

namespace {

using namespace larder::nvmf;

constexpr std::size_t kCommands = 4;
constexpr std::size_t kGuard = 64;
constexpr std::size_t kBytesEach = 16384;
constexpr std::byte kUntouched{0xE7};
constexpr std::byte kSent{0x3C};

// A session with two reads and two writes, and memory around them that nobody may touch.
class Bed {
 public:
  explicit Bed(std::uint8_t mode)
      : session_(limits_of(mode)), memory_(kCommands * kStride, kUntouched) {
    for (std::size_t i = 0; i < kCommands; ++i) {
      pieces_[i] = {memory_.data() + i * kStride + kGuard, kBytesEach >> (mode >> 6U)};
      Request request;
      request.command.opcode =
          static_cast<std::uint8_t>(i % 2 == 0 ? IoOpcode::kRead : IoOpcode::kWrite);
      request.flow = i % 2 == 0 ? DataFlow::kToHost : DataFlow::kToController;
      request.data = PieceWindow({&pieces_[i], 1}, 0, static_cast<std::uint32_t>(pieces_[i].bytes));
      request.owner = i;
      session_.submit(request, 0);
    }
    send();
  }

  bool feed(std::string_view bytes, std::size_t step) {
    while (!bytes.empty()) {
      std::array<iovec, 8> places;
      const std::size_t count = session_.places(places);
      require(count > 0, "there is always a place for the next byte");
      std::size_t taken = 0;
      for (std::size_t i = 0; i < count && !bytes.empty() && taken < step; ++i) {
        require(places[i].iov_len > 0, "no place is empty");
        const std::size_t part = std::min({places[i].iov_len, bytes.size(), step - taken});
        std::memcpy(places[i].iov_base, bytes.data(), part);
        bytes.remove_prefix(part);
        taken += part;
        if (part < places[i].iov_len) break;
      }
      if (!session_.received(taken)) return false;
      send();
      take();
    }
    return true;
  }

  void check_memory() const {
    for (std::size_t i = 0; i < kCommands; ++i) {
      const std::byte* const begin = memory_.data() + i * kStride;
      for (std::size_t at = 0; at < kStride; ++at) {
        const bool own = i % 2 == 0 && at >= kGuard && at < kGuard + pieces_[i].bytes;
        require(own || begin[at] == kUntouched, "only memory of reads is written to");
      }
    }
  }

  // The id of a command, right or nearly so.
  std::uint16_t cid(std::size_t i) const {
    return static_cast<std::uint16_t>(kCommands + i % kCommands);
  }

 private:
  static constexpr std::size_t kStride = kBytesEach + 2 * kGuard;

  static SessionLimits limits_of(std::uint8_t mode) {
    SessionLimits limits;
    limits.commands = kCommands;
    limits.h2c_data_max = 4096;
    limits.success_allowed = (mode & 1U) != 0;
    limits.in = {(mode & 2U) != 0, (mode & 4U) != 0, 4};
    limits.out = {(mode & 2U) != 0, (mode & 4U) != 0, (mode & 8U) != 0 ? 128U : 4U};
    return limits;
  }
  void send() {
    std::array<iovec, 64> places;
    for (std::size_t count = session_.outgoing(places); count > 0;
         count = session_.outgoing(places)) {
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < count; ++i) bytes += places[i].iov_len;
      session_.sent(bytes);
    }
  }
  void take() {
    Ended ended;
    while (session_.take_ended({&ended, 1}) > 0) {
      require(!ended_[ended.request.owner], "a command ends once");
      ended_[ended.request.owner] = true;
    }
  }

  Session session_;
  std::vector<std::byte> memory_;
  std::array<larder::block::Piece, kCommands> pieces_;
  std::array<bool, kCommands> ended_{};
};

template <class T>
void append(std::string& stream, const T& pdu, std::uint8_t flags, std::size_t bytes,
            const Framing& framing) {
  std::array<std::byte, kHeadBytesMax> head;
  const std::size_t size =
      encode_head(pdu, flags, static_cast<std::uint32_t>(bytes), framing, head);
  stream.append(reinterpret_cast<const char*>(head.data()), size);
  stream.append(bytes, static_cast<char>(kSent));
  if (framing.data_digest && bytes > 0) stream.append(4, 'd');
}

// PDUs of commands in flight with fields of the fuzzer's choice.
std::string build(FuzzInput& input, const Bed& bed, const Framing& framing) {
  std::string stream;
  while (!input.empty() && stream.size() < (1U << 17U)) {
    const std::uint8_t shape = input.byte();
    const auto offset = static_cast<std::uint32_t>(input.below_or(64)) * 512;
    const auto bytes = static_cast<std::uint32_t>(input.below_or(64)) * 512;
    const std::uint16_t cid = bed.cid(shape >> 4U);
    if (shape % 4 == 0) {
      C2hData pdu;
      pdu.cccid = cid;
      pdu.datao = offset;
      pdu.datal = bytes;
      append(stream, pdu, static_cast<std::uint8_t>(shape & (kFlagLast | kFlagSuccess)), bytes,
             framing);
    } else if (shape % 4 == 1) {
      R2t pdu;
      pdu.cccid = cid;
      pdu.r2to = offset;
      pdu.r2tl = bytes;
      append(stream, pdu, 0, 0, framing);
    } else if (shape % 4 == 2) {
      CapsuleResp pdu;
      pdu.completion.cid = cid;
      pdu.completion.status = static_cast<std::uint16_t>(offset);
      append(stream, pdu, 0, 0, framing);
    } else {
      stream += input.take(bytes / 64);
    }
  }
  return stream;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::uint8_t mode = input.byte();
  const std::size_t step = 1 + input.below_or(20'000);
  Bed bed(mode);
  const Framing framing{(mode & 2U) != 0, (mode & 4U) != 0, 4};
  const std::string stream =
      (mode & 16U) != 0 ? build(input, bed, framing) : std::string(input.rest());
  static_cast<void>(bed.feed(stream, step));
  bed.check_memory();
  return 0;
}
