// SPDX-License-Identifier: Apache-2.0
// Reads payloads of records and verifies them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "env/clock.h"
#include "extent/record_store.h"
#include "qos/managed.h"

namespace larder::extent {

struct ReaderOptions {
  std::size_t depth = 32;                 // reads in flight, at most; 1 to 512
  std::size_t piece_bytes = 256U << 10U;  // of one read; from the block to 16 MiB
  std::size_t records_max = 1024;         // under way; 1 to 65536
};

struct ReadDone {
  std::uint64_t tag = 0;
  Result<void> result;
  std::uint64_t bytes = 0;  // of the payload; of a failed read 0
};

// One thread but for wake(). Destroyed while something is under way, it waits for the device to let
// go of the memory.
class RecordReader {
 public:
  // kInvalidArgument: options. Else as open_queue().
  static Result<std::unique_ptr<RecordReader>> create(RecordStore& store,
                                                      const ReaderOptions& options);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // The whole payload into the front of `into`, which has room for it. Where the memory is aligned
  // and its room reaches the end of the payload's last block, nothing is copied (and what follows
  // the payload in that block is overwritten with anything); where only the room is short, the last
  // block is copied; where it is not aligned, all is. The pin is kept, and the memory in use, until
  // it is done. Errors here: nothing was taken, the pin is as it was.
  //   kBackpressure     enough is under way
  //   kInvalidArgument  no pin, or of another store; too little room
  // In ReadDone: kCorrupt: the bytes do not have this XXH3-64; else as of the device. What is in
  // the memory then is undefined.
  Result<void> read(Pin&& pin, std::span<std::byte> into, std::uint64_t checksum, std::uint64_t tag,
                    qos::Purpose purpose);

  // Move things on and fill `into`, each exactly once. poll() never blocks; wait() sleeps until
  // there is one, wake(), or `deadline` (monotonic), also when nothing is under way.
  std::size_t poll(std::span<ReadDone> into);
  std::size_t wait(std::span<ReadDone> into, env::Nanos deadline);
  void wake() noexcept;  // any thread

  std::size_t under_way() const noexcept;  // not reported yet

 private:
  class Impl;
  explicit RecordReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace larder::extent
