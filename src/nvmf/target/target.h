// SPDX-License-Identifier: Apache-2.0
// An NVMe/TCP target in an ordinary process: one subsystem, whose namespaces are memory or block
// devices, and a discovery service on the same port. No privileges, no kernel modules.
//
// One reactor thread (or several) has the sockets. Memory is read from and written to by the
// reactor itself; every block device has a thread of its own, so that no disk holds up a socket.
// With one reactor each block of memory is read and written as a whole, however operations meet;
// with several, operations of different connections that meet on a block may see parts of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "block/block_device.h"
#include "env/clock.h"
#include "env/socket.h"
#include "larder/status.h"

namespace larder::nvmf {

inline constexpr std::uint32_t kNamespaceIdMax = 1024;

// Either memory or a device.
struct NamespaceOptions {
  std::uint32_t nsid = 0;  // 0: the lowest free one
  std::uint64_t ram_bytes = 0;
  std::uint64_t ram_bytes_max = 0;  // resize_namespace() may grow it to that; 0: ram_bytes
  bool populate = true;             // touch the memory before it is served
  std::shared_ptr<block::BlockDevice> device;
  std::uint32_t block_bytes = 4096;  // of memory: 512 or 4096; a device has its own
  bool read_only = false;
  // NGUID and UUID follow from this. Empty: of a device its identity; of memory random, because
  // after a restart it is another medium.
  std::string identity;
};

struct TargetOptions {
  env::SocketAddress listen = {env::SocketAddress::Kind::kTcp, "127.0.0.1", 4420, ""};
  std::string nqn = "nqn.2024-01.local.larder:target";
  std::vector<std::string> allow_hosts;  // NQNs; empty: any host
  // HOST or HOST:PORT that the discovery log names; empty: the address that the host connected to.
  std::string advertise;
  unsigned threads = 1;
  std::uint32_t queue_entries_max = 256;      // 2 to 1024
  std::uint32_t io_queues_max = 64;           // of one controller
  std::uint32_t in_capsule_bytes = 16 << 10;  // 0 to 16 KiB, a multiple of 16
  std::uint32_t transfer_max = 1 << 20;       // of one command: 8 KiB to 1 MiB, a power of two
  std::uint32_t h2c_data_max = 1 << 20;       // of one H2CData: 4 KiB or more, a multiple of 4
  std::uint32_t r2t_bytes_max = 0;            // asked for at a time; 0: all of a command at once
  std::uint8_t cpda = 0;                      // alignment of the host's data, as in ICResp
  // Memory for data on the way between sockets and devices, of all reactors together. What does not
  // fit waits.
  std::uint64_t bounce_bytes_max = 256ULL << 20U;
  std::uint32_t connections_max = 4096;
  std::uint32_t controllers_max = 1024;
  env::Nanos handshake_timeout = 10 * env::kSecond;  // until Connect has come
  // A host that neither reads what it asked for nor sends what it was asked for is dropped.
  env::Nanos stall_timeout = 60 * env::kSecond;
  env::Nanos spin = 50 * env::kMicro;  // how long a reactor polls after work before it sleeps
  env::Clock* clock = nullptr;         // null: the system's
};

// Counts since the start.
struct TargetStats {
  std::uint64_t connections = 0;  // open now
  std::uint64_t controllers = 0;  // now
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;           // beyond connections_max, or no descriptors
  std::uint64_t connects_refused = 0;  // Connect commands
  std::uint64_t protocol_errors = 0;   // connections ended for them
  std::uint64_t digest_errors = 0;     // of data
  std::uint64_t keep_alive_expired = 0;
  std::uint64_t stalled = 0;  // connections dropped for it
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t others = 0;      // further commands of I/O queues
  std::uint64_t admin = 0;       // commands of admin queues
  std::uint64_t errors = 0;      // commands that ended with an error
  std::uint64_t bytes_read = 0;  // by hosts
  std::uint64_t bytes_written = 0;
  std::uint64_t bounce_bytes = 0;  // memory taken for devices' data
};

class TargetCore;

// Any thread.
class Target {
 public:
  // Serves when it returns.
  //   kInvalidArgument  options; the message says which
  //   kUnavailable      the address is in use or not of this host
  //   kExhausted        no memory or descriptors
  static Result<std::unique_ptr<Target>> create(TargetOptions options,
                                                std::vector<NamespaceOptions> namespaces);
  // Closes all connections; commands in flight on devices end first.
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const env::SocketAddress& address() const noexcept;  // with the real port
  const std::string& nqn() const noexcept;
  // "nvme-tcp://127.0.0.1:4420/nqn.2024-01...", where it listens, for namespaces but the first with
  // "#NSID".
  std::string url(std::uint32_t nsid = 1) const;
  std::vector<std::uint32_t> namespaces() const;
  TargetStats stats() const;

  // Changes that hosts are told of (namespace attribute changed). Commands that have begun end on
  // what was there.
  Result<std::uint32_t> add_namespace(const NamespaceOptions& options);
  // kNotFound.
  Result<void> remove_namespace(std::uint32_t nsid);
  // Another medium under the same id. kNotFound, else as add_namespace().
  Result<void> replace_namespace(const NamespaceOptions& options);
  // Of memory; kTooLarge beyond ram_bytes_max, kUnsupported for devices, kNotFound.
  Result<void> resize_namespace(std::uint32_t nsid, std::uint64_t bytes);

 private:
  explicit Target(std::unique_ptr<TargetCore> core);
  std::unique_ptr<TargetCore> core_;
};

}  // namespace larder::nvmf
