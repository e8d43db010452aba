// SPDX-License-Identifier: Apache-2.0
// What is measured of each store. Times in seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "larder/status.h"

namespace larder::vs_rocksdb {

struct Plan {
  std::string directory;  // of this store alone
  std::uint64_t values = 2048;
  std::uint64_t value_bytes = 1U << 20U;
  std::uint64_t depth = 32;  // values that become durable together, and that are read at a time
};

// One process, one thread. Errors are those of the store, or kCorrupt: a value was not as written.
class Peer {
 public:
  virtual ~Peer() = default;
  // A new store with all values, until the last is durable. The making of the store is not counted.
  virtual Result<double> write() = 0;
  // Opens what is there, until every key can be read; one is.
  virtual Result<double> open() = 0;
  // Brings values to their last place on disk, so that read() finds none in a log or in memory.
  virtual Result<void> settle() = 0;
  // Every value once, in random order.
  virtual Result<double> read() = 0;
  virtual Result<void> close() = 0;
};

// Values are durable when the log is, 32 at a time; then they are written again, to blob files.
std::unique_ptr<Peer> rocksdb_with_log(const Plan& plan);
// Without a log: each batch is flushed to a blob file before it counts as durable.
std::unique_ptr<Peer> rocksdb_without_log(const Plan& plan);
std::unique_ptr<Peer> larder_store(const Plan& plan);

}  // namespace larder::vs_rocksdb
