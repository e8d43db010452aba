// SPDX-License-Identifier: Apache-2.0
// Keys that come as payload, in arbitrary cuts: what is accepted is written back to the same bytes.
#include <cstring>
#include <string>
#include <vector>

#include "larder/client.h"
#include "tests/fuzz/fuzz_input.h"
#include "wire/key_stream.h"

using larder::fuzz::FuzzInput;
using larder::fuzz::require;
namespace wire = larder::wire;

namespace {

void write_back(const std::vector<std::string>& keys, std::string_view stream) {
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  require(wire::key_stream_bytes(views) == stream.size(), "the size is known beforehand");
  std::vector<std::byte> room(stream.size());
  wire::KeyWriter writer(views);
  require(writer.fill(room) == room.size(), "all keys fit");
  require(std::memcmp(room.data(), stream.data(), stream.size()) == 0, "to the same bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const auto count = static_cast<std::uint32_t>(input.byte());
  const std::size_t step = 1 + input.byte() * std::size_t{16};
  const std::size_t zeros = input.byte() == 0 ? input.below_or(200'000) : 0;
  std::string stream(input.rest());
  stream.resize(stream.size() + zeros);
  auto reader = wire::KeyReader::create(count, stream.size());
  if (!reader) return 0;
  std::vector<std::string> keys;
  for (std::string_view rest = stream; !rest.empty();) {
    const std::span<std::byte> room = reader->room();
    require(!room.empty(), "there is room while bytes are missing");
    const std::size_t n = std::min({room.size(), rest.size(), step});
    std::memcpy(room.data(), rest.data(), n);
    rest.remove_prefix(n);
    reader->advance(n);
    std::string_view key;
    while (reader->next(key)) keys.emplace_back(key);
  }
  require(keys.size() <= count, "no more keys than announced");
  for (const std::string& key : keys) {
    require(key.size() <= larder::kKeyBytesMax + 1, "no key is longer than a packed one");
  }
  if (!reader->end()) return 0;
  require(keys.size() == count, "all keys came");
  write_back(keys, stream);
  return 0;
}
