// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "base/units.h"
#include "env/socket.h"

namespace larder::env {
namespace {

constexpr std::size_t kUnixPathMax = 107;
constexpr std::size_t kHostMax = 255;

Result<std::uint16_t> parse_port(std::string_view text, std::string_view whole) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port > 65535 || text.empty()) {
    return fail(Code::kInvalidArgument,
                "address " + base::quoted(whole) + ": the port must be a number from 0 to 65535");
  }
  return static_cast<std::uint16_t>(port);
}

// Letters, digits and what names and numbers need; a colon only between brackets, or the port could
// not be told from the address.
Result<void> check_host(std::string_view host, bool bracketed, std::string_view whole) {
  const std::string_view more = bracketed ? ".-_%:" : ".-_";
  const bool good = host.size() <= kHostMax && std::all_of(host.begin(), host.end(), [&](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || more.find(c) != std::string_view::npos;
                    });
  // Brackets are for what needs them, so that each address has one form.
  if (good && bracketed == (host.find(':') != std::string_view::npos)) return {};
  return fail(Code::kInvalidArgument,
              "address " + base::quoted(whole) +
                  ": the host must be a name, a number, or an IPv6 address in brackets");
}

Result<SocketAddress> parse_unix(std::string_view path) {
  if (path.empty() || path.size() > kUnixPathMax) {
    return fail(Code::kInvalidArgument, "Unix socket path " + base::quoted(path) + " has " +
                                            std::to_string(path.size()) +
                                            " bytes; the system allows 1 to 107");
  }
  if (path.find('\0') != std::string_view::npos) {
    return fail(Code::kInvalidArgument,
                "Unix socket path " + base::quoted(path) + " holds a zero byte");
  }
  SocketAddress address;
  address.kind = SocketAddress::Kind::kUnix;
  address.path = std::string(path);
  return address;
}

}  // namespace

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  if (text.starts_with("unix:")) return parse_unix(text.substr(5));
  if (text.starts_with("/")) return parse_unix(text);
  std::string_view rest = text.starts_with("tcp:") ? text.substr(4) : text;
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return fail(Code::kInvalidArgument,
                "address " + base::quoted(text) + ": expected unix:PATH or tcp:HOST:PORT");
  }
  std::string_view host = rest.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  LARDER_TRY(check_host(host, bracketed, text));
  SocketAddress address;
  LARDER_ASSIGN(address.port, parse_port(rest.substr(colon + 1), text));
  address.host = std::string(host);
  return address;
}

std::string SocketAddress::to_string() const {
  if (kind == Kind::kUnix) return "unix:" + path;
  const bool v6 = host.find(':') != std::string::npos;
  return "tcp:" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool SocketAddress::is_loopback() const {
  // A name may begin with "127." too: only numbers count.
  in_addr number{};
  return kind == Kind::kUnix || host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && ::inet_pton(AF_INET, host.c_str(), &number) == 1);
}

}  // namespace larder::env
