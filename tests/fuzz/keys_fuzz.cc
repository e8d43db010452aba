// SPDX-License-Identifier: Apache-2.0
// Key lists from a peer: what is accepted lies within the message, within bounds, and packs back.
#include "larder.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "wire/keys.h"
#include "wire/message.h"

using larder::fuzz::FuzzInput;
using larder::fuzz::require;
namespace wire = larder::wire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  larder::pb::Keys message;
  if (!wire::parse_body(FuzzInput(data, size).rest(), wire::Op::kLookup, message)) return 0;
  wire::KeyList list;
  if (!wire::unpack_keys(message, list)) return 0;
  require(!list.keys.empty() && list.keys.size() <= larder::kBatchItemsMax, "bounded count");
  std::size_t total = 0;
  bool cut = false;
  for (const std::string_view key : list.keys) {
    total += key.size();
    cut = cut || key.size() > larder::kKeyBytesMax;
  }
  require(total == message.data().size(), "the keys are all of the data");
  const larder::KeySpace space{std::string(list.tenant), std::string(list.domain),
                               std::string(list.object_set)};
  require(wire::validate_space(space).has_value(), "the space is valid");
  larder::pb::Keys again;
  wire::pack_keys(space, list.keys, again);
  wire::KeyList second;
  require(wire::unpack_keys(again, second).has_value(), "packed keys unpack");
  require(cut || second.keys == list.keys, "to the same keys");
  return 0;
}
