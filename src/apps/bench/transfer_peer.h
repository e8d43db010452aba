// SPDX-License-Identifier: Apache-2.0
// The other process of the shm and tcp cases: an engine of its own that lends its memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "env/fd.h"
#include "larder/status.h"

namespace larder::apps {

struct PeerOptions {
  std::string listen = "tcp:127.0.0.1:0";  // or "unix:PATH", for shm
  std::uint64_t bytes = 0;                 // of memory, filled by fill_pages(seed)
  std::uint64_t seed = 0;
};

// What the peer tells on its only line of output.
struct PeerOffer {
  std::string address;  // for open_segment()
  std::uint64_t memory = 0;
  std::uint64_t bytes = 0;
};
std::string offer_to_json(const PeerOffer& offer);
std::string failure_to_json(const Error& error);
// The error that the peer had, as it was; kInternal for a line that is neither.
Result<PeerOffer> parse_offer(std::string_view line);

// What the peer does: lends its memory until stdin ends.
Result<void> serve_transfers(const PeerOptions& options);

// Not thread safe.
class TransferPeer {
 public:
  // kUnsupported: this build's engine has no peers of that kind.
  static Result<std::unique_ptr<TransferPeer>> start(const PeerOptions& options);
  ~TransferPeer();  // ends and reaps it
  TransferPeer(const TransferPeer&) = delete;
  TransferPeer& operator=(const TransferPeer&) = delete;
  const PeerOffer& offer() const noexcept { return offer_; }

 private:
  TransferPeer() = default;
  Result<void> spawn(const PeerOptions& options, int input, int output);

  pid_t pid_ = -1;
  env::Fd stdin_;  // it ends when this closes, so also when we are killed
  PeerOffer offer_;
};

}  // namespace larder::apps
