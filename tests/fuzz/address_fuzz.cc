// SPDX-License-Identifier: Apache-2.0
// Addresses: what is accepted prints as what parses to the same, and cannot hide anything from the
// C interfaces that it is handed to.
#include <string>

#include "env/socket.h"
#include "tests/fuzz/fuzz_input.h"

using larder::env::SocketAddress;
using larder::fuzz::FuzzInput;
using larder::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto address = SocketAddress::parse(FuzzInput(data, size).rest());
  if (!address) {
    const std::string& text = address.error().message();
    require(address.error().code() == larder::Code::kInvalidArgument, "the text is wrong");
    require(text.size() < 512, "messages stay short");
    for (const char c : text) {
      require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "messages stay printable");
    }
    return 0;
  }
  const bool is_unix = address->kind == SocketAddress::Kind::kUnix;
  const std::string& name = is_unix ? address->path : address->host;
  require(!name.empty() && name.size() <= 255 && (!is_unix || name.size() <= 107), "bounded");
  require(name.find('\0') == std::string::npos, "no zero byte");
  const auto again = SocketAddress::parse(address->to_string());
  require(again.has_value(), "what is printed parses");
  require(again->kind == address->kind && again->host == address->host &&
              again->port == address->port && again->path == address->path,
          "to the same address");
  require(again->is_loopback() == address->is_loopback(), "loopback is a property of the address");
  return 0;
}
