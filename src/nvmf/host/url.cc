// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/url.h"

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "nvmf/pdu/connect.h"

namespace larder::nvmf {
namespace {

constexpr std::string_view kScheme = "nvme-tcp://";
constexpr std::uint32_t kNsidMax = 0xFFFF'FFFE;
constexpr std::uint16_t kQueuesUrlMax = 1024;
constexpr env::Nanos kTimeMax = 24 * 3600 * env::kSecond;

tl::unexpected<Error> refuse(std::string_view url, const std::string& why) {
  return fail(Code::kInvalidArgument,
              "the NVMe URL " + base::quoted(url, 256) + ": " + why +
                  "; write for example nvme-tcp://10.0.0.7:4420/nqn.2024-01.org.example:disk#1");
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? digit_of(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return fail(Code::kInvalidArgument, "'%' is followed by two hexadecimal digits");
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string escape(std::string_view text, std::string_view special) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (special.find(c) == std::string_view::npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

Result<env::Nanos> time_of(std::string_view text) {
  LARDER_ASSIGN(const auto time, base::parse_duration(text));
  if (time.count() > kTimeMax) return fail(Code::kInvalidArgument, "more than a day");
  return time.count();
}

Result<std::string> nqn_of(std::string_view text) {
  LARDER_ASSIGN(std::string nqn, unescape(text));
  LARDER_TRY(check_nqn(nqn));
  return nqn;
}

Result<void> set_option(NvmeUrl& url, std::string_view name, std::string_view value) {
  if (name == "hdgst" || name == "ddgst") {
    LARDER_ASSIGN(const bool on, base::parse_bool(value));
    (name == "hdgst" ? url.header_digest : url.data_digest) = on;
    return {};
  }
  if (name == "queues") {
    LARDER_ASSIGN(const std::uint64_t count, base::parse_u64(value));
    if (count == 0 || count > kQueuesUrlMax) {
      return fail(Code::kInvalidArgument, "it is 1 to " + std::to_string(kQueuesUrlMax));
    }
    url.queues = static_cast<std::uint16_t>(count);
    return {};
  }
  if (name == "io_timeout") {
    LARDER_ASSIGN(const env::Nanos time, time_of(value));
    if (time == 0) return fail(Code::kInvalidArgument, "a command needs some time");
    url.io_timeout = time;
    return {};
  }
  if (name == "keep_alive") {
    LARDER_ASSIGN(url.keep_alive, time_of(value));
    return {};
  }
  if (name == "host_nqn") {
    LARDER_ASSIGN(url.host_nqn, nqn_of(value));
    return {};
  }
  return fail(Code::kInvalidArgument,
              "there is no such option; there are hdgst, ddgst, queues, io_timeout, keep_alive and "
              "host_nqn");
}

Result<void> set_options(NvmeUrl& url, std::string_view text, std::string_view whole) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view option = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos) {
      return refuse(whole, "option " + base::quoted(option) + " is not NAME=VALUE");
    }
    const std::string_view name = option.substr(0, equals);
    const auto set = set_option(url, name, option.substr(equals + 1));
    if (!set) return refuse(whole, "option " + base::quoted(name) + ": " + set.error().message());
  }
  return {};
}

Result<void> set_address(NvmeUrl& url, std::string_view text, std::string_view whole) {
  if (text.empty()) return refuse(whole, "no host");
  const bool bracket = text.front() == '[';
  const std::size_t colon = text.rfind(':');
  const std::size_t closing = text.rfind(']');
  const bool has_port =
      colon != std::string_view::npos && (!bracket || (closing != text.npos && colon > closing));
  if (!bracket && text.find(':') != colon) {
    return refuse(whole, "an IPv6 address is written in brackets");
  }
  std::string spelled(text);
  if (!has_port) spelled += ":" + std::to_string(kPortDefault);
  const auto address = env::SocketAddress::parse("tcp:" + spelled);
  if (!address) return refuse(whole, address.error().message());
  if (address->port == 0) return refuse(whole, "port 0 is none");
  url.host = address->host;
  url.port = address->port;
  return {};
}

Result<void> set_nsid(NvmeUrl& url, std::string_view text, std::string_view whole) {
  const auto number = base::parse_u64(text);
  if (!number) return refuse(whole, "the namespace: " + number.error().message());
  if (*number == 0 || *number > kNsidMax) {
    return refuse(whole, "a namespace's number is 1 to " + std::to_string(kNsidMax));
  }
  url.nsid = static_cast<std::uint32_t>(*number);
  return {};
}

}  // namespace

env::SocketAddress NvmeUrl::address() const {
  return {env::SocketAddress::Kind::kTcp, host, port, {}};
}

std::string NvmeUrl::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  std::string out(kScheme);
  out += v6 ? "[" + host + "]" : host;
  out += ":" + std::to_string(port);
  if (!nqn.empty()) out += "/" + escape(nqn, "%?#");
  char next = '?';
  const auto option = [&](const std::string& name, const std::string& value) {
    out += next + name + "=" + value;
    next = '&';
  };
  const auto time = [](env::Nanos value) {
    return base::format_duration(std::chrono::nanoseconds(value));
  };
  if (header_digest) option("hdgst", "1");
  if (data_digest) option("ddgst", "1");
  if (queues) option("queues", std::to_string(*queues));
  if (io_timeout) option("io_timeout", time(*io_timeout));
  if (keep_alive) option("keep_alive", time(*keep_alive));
  if (!host_nqn.empty()) option("host_nqn", escape(host_nqn, "%?#&"));
  if (nsid) out += "#" + std::to_string(*nsid);
  return out;
}

bool is_nvme_url(std::string_view text) noexcept {
  return text.starts_with("nvme-");
}

Result<NvmeUrl> parse_nvme_url(std::string_view text) {
  if (text.size() > kUrlBytesMax) {
    return refuse(text, "it is longer than " + std::to_string(kUrlBytesMax) + " bytes");
  }
  if (!text.starts_with(kScheme)) return refuse(text, "only nvme-tcp:// is spoken here");
  NvmeUrl url;
  std::string_view rest = text.substr(kScheme.size());
  if (const std::size_t hash = rest.find('#'); hash != std::string_view::npos) {
    LARDER_TRY(set_nsid(url, rest.substr(hash + 1), text));
    rest = rest.substr(0, hash);
  }
  if (const std::size_t mark = rest.find('?'); mark != std::string_view::npos) {
    LARDER_TRY(set_options(url, rest.substr(mark + 1), text));
    rest = rest.substr(0, mark);
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  LARDER_TRY(set_address(url, rest.substr(0, slash), text));
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  if (rest.empty()) {
    if (url.nsid) return refuse(text, "a namespace needs the NQN of its subsystem before it");
    return url;
  }
  auto nqn = nqn_of(rest);
  if (!nqn) return refuse(text, "the NQN: " + nqn.error().message());
  url.nqn = std::move(*nqn);
  return url;
}

}  // namespace larder::nvmf
