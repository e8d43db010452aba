// SPDX-License-Identifier: Apache-2.0
// Every decoder of nvmf/pdu on arbitrary bytes: what is accepted holds together, and what is
// written from it is the same.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/pdu/log_page.h"
#include "nvmf/pdu/pdu.h"
#include "tests/fuzz/fuzz_input.h"

using larder::fuzz::bytes_of;
using larder::fuzz::FuzzInput;
using larder::fuzz::require;
using namespace larder::nvmf;

namespace {

template <class T>
T take(FuzzInput& input) {
  T out{};
  const std::string_view bytes = input.take(sizeof(T));
  if (!bytes.empty()) std::memcpy(static_cast<void*>(&out), bytes.data(), bytes.size());
  return out;
}

Framing framing_of(FuzzInput& input) {
  const std::uint8_t shape = input.byte();
  return {(shape & 1) != 0, (shape & 2) != 0, alignment_of(static_cast<std::uint8_t>(shape >> 3U))};
}

void layout(FuzzInput& input) {
  const Framing framing = framing_of(input);
  const Direction direction =
      (input.byte() & 1) != 0 ? Direction::kToHost : Direction::kToController;
  const auto header = take<PduHeader>(input);
  constexpr std::uint32_t kDataMax = 1U << 20U;
  const auto got = layout_of(header, direction, framing, kDataMax);
  if (!got) {
    require(!larder::nvmf::to_error(got.error()).message().empty(), "an error says what it is");
    return;
  }
  require(got->total() == header.plen, "the parts of a PDU are all of it");
  require(got->head_bytes <= kHeadBytesMax, "what lies before the data is bounded");
  require(got->data_bytes <= kDataMax, "and so are the data");
  std::array<std::byte, kHeadBytesMax> head{};
  std::memcpy(head.data(), &header, sizeof(header));
  static_cast<void>(check_header_digest(std::span(head).first(got->head_bytes), *got).has_value());
  H2cData data = take<H2cData>(input);
  if (check(data, *got)) require(data.datal == got->data_bytes, "DATAL is what there is");
}

void fields(FuzzInput& input) {
  static_cast<void>(check(take<R2t>(input)).has_value());
  static_cast<void>(check(take<IcReq>(input)).has_value());
  const auto response = take<IcResp>(input);
  if (check(response)) require(response.maxh2cdata >= kMaxH2cDataLeast, "data have room");
  const auto command = take<Command>(input);
  const LogRequest request = LogRequest::from(command);
  Command again = command;
  request.put_into(again);
  require(LogRequest::from(again).bytes == request.bytes, "a log request is written as it was");
  require(!describe_term(bytes_of(input.rest())).empty(), "a complaint has words");
}

void round_trip(FuzzInput& input) {
  const Framing framing = framing_of(input);
  const auto bytes = static_cast<std::uint32_t>(input.below_or(1U << 16U)) & ~3U;
  std::array<std::byte, kHeadBytesMax> head{};
  const std::size_t before = encode_head(take<CapsuleCmd>(input), 0, bytes, framing, head);
  const auto got = layout_of(larder::load_le<PduHeader>(head.data()), Direction::kToController,
                             framing, UINT32_MAX);
  require(got.has_value() && got->head_bytes == before && got->data_bytes == bytes,
          "what is encoded is found");
  require(check_header_digest(std::span(head).first(before), *got).has_value(),
          "and its digest is right");
}

void identify(FuzzInput& input) {
  const auto controller = take<IdentifyController>(input);
  const auto limits = limits_of(controller, 12 + controller.reserved1024[0] % 16U);
  if (limits) require(limits->transfer_max == 0 || limits->transfer_max >= 4096, "MDTS");
  const auto space = take<IdentifyNamespace>(input);
  const auto shape = shape_of(space);
  if (!shape) return;
  require(shape->block_bytes >= 512 && shape->block_bytes <= 65536, "blocks");
  require(shape->blocks <= UINT64_MAX / shape->block_bytes, "bytes");
}

void lists(FuzzInput& input) {
  std::array<std::byte, kIdentifyBytes> page{};
  const std::string_view bytes = input.take(page.size());
  if (!bytes.empty()) std::memcpy(page.data(), bytes.data(), bytes.size());
  if (const auto ids = decode_ids(page)) {
    std::array<std::byte, kIdentifyBytes> again{};
    encode_ids(*ids, again);
    require(*decode_ids(again) == *ids, "ids are written as they were");
  }
  if (const auto active = decode_active(page, 0)) {
    require(active->size() <= kIdentifyBytes / 4, "the list is bounded");
  }
}

void names(FuzzInput& input) {
  const auto data = take<ConnectData>(input);
  if (const auto nqn = decode_nqn(data.subnqn)) {
    require(check_nqn(*nqn).has_value(), "a decoded NQN is one");
  }
  if (const auto entry = decode_entry(take<DiscoveryEntry>(input))) {
    require(check_nqn(entry->nqn).has_value(), "so is that of an entry");
  }
  const std::string text(input.rest());
  if (const auto id = parse_uuid(text)) require(*parse_uuid(uuid_text(*id)) == *id, "UUIDs");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  switch (input.byte() % 6) {
    case 0:
      layout(input);
      break;
    case 1:
      fields(input);
      break;
    case 2:
      round_trip(input);
      break;
    case 3:
      identify(input);
      break;
    case 4:
      lists(input);
      break;
    default:
      names(input);
      break;
  }
  return 0;
}
