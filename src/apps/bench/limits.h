// SPDX-License-Identifier: Apache-2.0
// What this machine can do, each limit as a probe that can run beside the store's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/bench/disk_file.h"
#include "apps/bench/probe.h"
#include "apps/bench/raw_peer.h"

namespace larder::apps {

enum class CopyKind : std::uint8_t {
  kOut,         // shared -> private: what a local get must do
  kIn,          // private -> shared
  kInChecksum,  // private -> shared and XXH3-64 in one pass: what a local put must do
  kAlike,       // both ends are memory of one kind: what a transfer must do
};

// Copies of `bytes` from a range to another, both walked; with T threads each has its own share.
// A range smaller than a core's caches gives the hot figure.
Result<ProbePtr> make_copy_limit(CopyKind kind, std::size_t bytes, std::size_t threads,
                                 std::span<std::byte> from, std::span<std::byte> to);

// Which ways of waiting count as the limit of a case that is judged by `measure`, when we wait as
// `ours` says.
std::vector<Wait> waits_for(Measure measure, Wait ours);

// One exchange at a time on `connections` connections, each with its own thread and with its share
// of `memory` to receive into and send from: a request of 64 bytes and `up_bytes` more there,
// `down_bytes` back.
struct ExchangeShape {
  BenchPath path = BenchPath::kTcp;
  Wait wait = Wait::kSpin;
  std::uint64_t up_bytes = 0;
  std::uint64_t down_bytes = kRawHeaderBytes;
  std::size_t connections = 1;
  std::uint64_t items = 1;        // what one exchange counts for
  std::uint64_t value_bytes = 0;  // the bytes one exchange counts for
};
Result<ProbePtr> make_exchange_limit(const RawPeer& peer, const ExchangeShape& shape,
                                     std::span<std::byte> memory);

// Exchanges of `shape` on one connection with `depth` of them in flight: a new request for every
// answer, sent `burst` at a time.
Result<ProbePtr> make_pipeline_limit(const RawPeer& peer, const ExchangeShape& shape,
                                     std::size_t depth, std::size_t burst,
                                     std::span<std::byte> memory);

enum class Direction : std::uint8_t { kDown, kUp };
// One-way bytes in 1 MiB writes. One step moves many of them, so its latency means nothing.
// Counted as items of `value_bytes`.
Result<ProbePtr> make_stream_limit(const RawPeer& peer, BenchPath path, Wait wait,
                                   Direction direction, std::size_t connections,
                                   std::uint64_t value_bytes, std::span<std::byte> memory);

// Reads or writes of whole blocks past the page cache, `depth` of them in flight by each thread, at
// walked places of the thread's share of the file, from and to its share of `memory`. io_uring
// straight from the library; where it is forbidden, as many threads (64 at most in all) that pread
// and pwrite.
struct DiskShape {
  bool write = false;
  std::uint64_t block_bytes = 0;
  std::size_t depth = 1;
  std::size_t threads = 1;
  bool refill = false;  // a new one as soon as one has ended; else `depth` at once, when all have
};
std::string disk_limit_name(const DiskShape& shape, const DiskFile* file);
// The file and the memory outlive the probe.
Result<ProbePtr> make_disk_limit(const DiskFile& file, const DiskShape& shape,
                                 std::span<std::byte> memory);

// Copies of `bytes` out of or into a simulated device by its copy engine, from and to host memory;
// each thread has a device of its own.
Result<ProbePtr> make_copier_limit(bool out, std::uint64_t bytes, std::size_t threads,
                                   std::span<std::byte> host);

// A plain open-addressing table: a power of two of slots at most half full, linear probing, XXH3-64
// of the key, the key's bytes compared. No locks. Immutable once built; any thread.
class BareTable {
 public:
  // The keys must stay where they are.
  explicit BareTable(std::span<const std::string_view> keys);
  // The index of the key in the list it was built from, or -1.
  std::int64_t find(std::string_view key) const noexcept;

 private:
  struct Slot {
    std::uint64_t hash = 0;
    const char* key = nullptr;
    std::uint32_t length = 0;
    std::uint32_t index = 0;
  };
  std::vector<Slot> slots_;
  std::uint64_t mask_;
};

// `per_call` look-ups in a call: keys that follow each other, from walked places.
Result<ProbePtr> make_lookup_limit(std::span<const std::string_view> keys, std::size_t per_call,
                                   std::size_t threads);
// Finds a key, then copies its `bytes` from `shared` (slot = the key's index) to the walked `to`.
Result<ProbePtr> make_lookup_copy_limit(std::span<const std::string_view> keys, std::size_t bytes,
                                        std::size_t threads, std::span<std::byte> shared,
                                        std::span<std::byte> to);
// The exchange of `shape`, then `per_call` look-ups.
Result<ProbePtr> make_round_trip_lookup_limit(const RawPeer& peer, const ExchangeShape& shape,
                                              std::span<std::byte> memory,
                                              std::span<const std::string_view> keys,
                                              std::size_t per_call);

}  // namespace larder::apps
