// SPDX-License-Identifier: Apache-2.0
// Names of remote NVMe namespaces:
//
//   nvme-tcp://HOST[:PORT]/NQN[?OPTION=VALUE&...][#NSID]
//   nvme-tcp://HOST[:PORT]           the discovery service there
//
// HOST is a name, an IPv4 address, or an IPv6 address in brackets; the port is 4420 if it is left
// out. Of the NQN, '%', '?' and '#' are written as %25, %3F and %23. Options:
//
//   hdgst=1 ddgst=1     checksums over headers and over data
//   queues=N            I/O queues to ask for
//   io_timeout=30s      how long one command may take
//   keep_alive=15s      how long the target waits for a sign of life; 0: for ever
//   host_nqn=NQN        who we say we are
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "env/clock.h"
#include "env/socket.h"
#include "larder/status.h"

namespace larder::nvmf {

inline constexpr std::uint16_t kPortDefault = 4420;
inline constexpr std::size_t kUrlBytesMax = 2048;

struct NvmeUrl {
  std::string host;
  std::uint16_t port = kPortDefault;
  std::string nqn;  // empty: the discovery service
  std::optional<std::uint32_t> nsid;
  bool header_digest = false;
  bool data_digest = false;
  std::optional<std::uint16_t> queues;
  std::optional<env::Nanos> io_timeout;
  std::optional<env::Nanos> keep_alive;  // 0: none
  std::string host_nqn;                  // empty: host_identity() finds one

  env::SocketAddress address() const;
  // Parses back to the same.
  std::string to_string() const;
  bool operator==(const NvmeUrl&) const = default;
};

// Whether the text means to be one of these; parse_nvme_url() says whether it is.
bool is_nvme_url(std::string_view text) noexcept;
// kInvalidArgument: says which part is wrong, and shows one that is right.
Result<NvmeUrl> parse_nvme_url(std::string_view text);

}  // namespace larder::nvmf
