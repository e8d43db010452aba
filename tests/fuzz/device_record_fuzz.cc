// SPDX-License-Identifier: Apache-2.0
// Device records out of the metadata service: what is accepted is valid, and is stored again as
// what it was.
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "tier/cold/device_record.h"

using larder::fuzz::require;
namespace tier = larder::tier;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto record = tier::decode_device(text);
  if (!record) {
    require(record.error().message().starts_with("device record: "), "the message says of what");
    require(record.error().message().size() < 1024, "messages stay short");
    return 0;
  }
  require(tier::validate_device(*record).has_value(), "what is accepted is valid");
  const auto again = tier::encode_device(*record);
  require(again.has_value(), "and can be stored");
  require(tier::decode_device(*again) == *record, "as what it was");
  return 0;
}
