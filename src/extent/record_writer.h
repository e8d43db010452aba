// SPDX-License-Identifier: Apache-2.0
// Puts records on the device and takes them off it.
//
// A put: payload written, flushed, header written, flushed, done. Flushes are of groups: one covers
// all that had ended when it was submitted, payloads of later records with headers of earlier ones.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "env/clock.h"
#include "extent/manifest.h"
#include "extent/record_store.h"
#include "qos/managed.h"

namespace larder::extent {

struct WriterOptions {
  std::size_t depth = 32;                 // payload pieces in flight, at most; 1 to 512
  std::size_t piece_bytes = 1U << 20U;    // of one write; from the block to 16 MiB
  std::size_t records_max = 256;          // puts under way; 1 to 65536
  std::uint64_t bytes_max = 512U << 20U;  // of payload under way; one is taken whatever its size
  // While there is more to write, a flush waits for this much.
  std::size_t group_records = 32;
  std::uint64_t group_bytes = 64U << 20U;
};

struct WriteDone {
  std::uint64_t tag = 0;
  bool is_release = false;
  RecordId id;          // of a put that failed: none
  Result<void> result;  // kOk: durable
};

// One thread but for wake(). Destroyed while something is under way, it waits for the device to let
// go of the memory; puts that were not done by then may be there after the next recovery or not.
class RecordWriter {
 public:
  // kConflict: the store has a writer. kPermissionDenied: it is read only. kInvalidArgument:
  // options. Else as open_queue().
  static Result<std::unique_ptr<RecordWriter>> create(RecordStore& store,
                                                      const WriterOptions& options);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // `payload` is as long as was reserved; its memory stays as it is until the record is done. Where
  // it is aligned (Geometry::memory_alignment) nothing but a last part of a block is copied, else
  // all. The header has `manifest.checksum` when `manifest.length` is that of the payload, else its
  // own. The manifest's device is filled in. On an error here the reservation is untouched, and
  // nothing will be reported:
  //   kBackpressure     enough is under way: poll() or wait()
  //   kInvalidArgument  manifest, lengths, a reservation of another store
  // In WriteDone: kUnavailable and others as of the device; kExhausted: header cells ran out;
  // kCorrupt: the header table could not be read.
  Result<void> put(Reservation&& reservation, std::span<const std::byte> payload,
                   const Manifest& manifest, std::uint64_t tag, qos::Purpose purpose);

  // As RecordStore::release(), and tells when it is durable (once the last pin is gone). Releases
  // by the store are carried out, too, and not reported. kNotFound: not there (any more).
  Result<void> release(RecordId id, std::uint64_t tag);

  // Moves things on and fills `into`, each exactly once. poll() never blocks. wait() sleeps until
  // there is one, wake(), or `deadline` (monotonic; may be block::kNoDeadline), and carries out
  // meanwhile what the store releases. Of an idle writer it sleeps, too; when a writer becomes idle
  // in it, it returns.
  std::size_t poll(std::span<WriteDone> into);
  std::size_t wait(std::span<WriteDone> into, env::Nanos deadline);
  void wake() noexcept;  // any thread

  // Payload pieces in flight from now on, 1 to the depth: less while readers want the disk.
  void set_window(std::size_t pieces) noexcept;
  // Nothing is under way and nothing waits to be released or reported. (Of what is released and
  // still pinned it does not know.)
  bool idle() const;
  std::size_t under_way() const noexcept;  // puts that are not done
  std::uint64_t flushes() const noexcept;  // submitted so far

 private:
  class Impl;
  explicit RecordWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace larder::extent
