// SPDX-License-Identifier: Apache-2.0
// Records on a block device (docs/formats/extent.md): a header in the table, a payload in the data
// region. What is in use is known from the headers alone; nothing else on the device says it.
//
// The store keeps the books in memory. It moves bytes only in format(), open(), recover() and
// close(); RecordWriter and RecordReader do it in between.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "block/block_device.h"
#include "extent/manifest.h"
#include "extent/record_id.h"
#include "extent/uuid.h"
#include "larder/status.h"

namespace larder::extent {

inline constexpr std::size_t kExtentsMax = 8;  // of one record

struct FormatOptions {
  // A header cell for this many bytes of the device: how small records can be, on average, before
  // cells run out before space does. From the block to 1 GiB.
  std::uint64_t record_bytes = 64U << 10U;
  bool force = false;        // erases whatever is there
  qos::Purpose writes = {};  // why the store writes
};

// Writes an empty record store. Nothing was written on these:
//   kAlreadyExists    there is a record store, also one of another version or size
//   kConflict         the device is not blank where the store would begin: somebody else's data
//   kInvalidArgument  the device is too small, or the options
//   kUnsupported      a sector of less than 512 bytes, a device of more than 64 TiB
// Else as of the device; then the device may hold part of a store, which open() refuses.
Result<void> format(block::BlockDevice& device, const FormatOptions& options);

struct OpenOptions {
  std::string owner = {};   // kept on the device, for people (node, process); 160 bytes, cut
  std::uint64_t epoch = 0;  // of the owner; the device keeps the highest
  Uuid expect = {};         // not nil: this device and no other
  // Not empty: a store that was not closed is opened only where its owner's name begins so, since
  // nothing else keeps two hosts from using it at the same time.
  std::string heir = {};
  bool read_only = false;  // nothing is written; no reserve(), no release()
  // Why the store writes what belongs to no put: superblocks, tombstones, flushes. What it reads
  // for itself (superblocks, recovery, scrubber) is of unknown intent, and LOW: it is all that is.
  qos::Purpose writes = {};
};

// Of one payload: bytes of the device.
struct Extent {
  std::uint64_t offset = 0;  // from the start of the device, a multiple of its block
  std::uint64_t bytes = 0;   // a multiple of the block
  bool operator==(const Extent&) const = default;
};

struct StoreStats {
  std::uint64_t capacity = 0;  // bytes for payloads; used + free == capacity, always
  std::uint64_t used = 0;      // whole blocks, with all of what follows
  std::uint64_t free = 0;
  std::uint64_t reserved = 0;       // of used: not committed yet
  std::uint64_t releasing = 0;      // of used: given up, and not durably so yet
  std::uint64_t stuck = 0;          // of used: could not be released (I/O errors); see recovery
  std::uint64_t payload_bytes = 0;  // of records; used / payload_bytes is the space amplification
  std::uint64_t records = 0;
  std::uint64_t pins = 0;
  std::uint64_t split_records = 0;  // of more than one extent
  std::uint64_t cells = 0;          // of the header table
  std::uint64_t cells_used = 0;
  std::uint64_t cells_end = 0;            // cells from here on were never written
  std::uint64_t damaged_headers = 0;      // found by recovery: torn or rotten
  std::uint64_t damaged_payloads = 0;     // found by readers and the scrubber
  std::uint64_t damaged_superblocks = 0;  // found by open(), and written anew
  std::uint64_t overlapping = 0;          // records dropped by recovery for another's space
  std::uint64_t bad_cells = 0;            // not used any more, for I/O errors
  std::uint64_t memory_bytes = 0;         // of the books
  bool recovered = false;
};

struct RecoverOptions {
  std::size_t queues = 4;  // threads, each with a queue of its own; 1 to 64
  std::size_t depth = 8;   // reads in flight of each; 1 to 64
  const std::atomic<bool>* stop = nullptr;
};

struct RecoveryReport {
  std::uint64_t records = 0;  // kept
  std::uint64_t dropped = 0;
  std::uint64_t damaged = 0;      // headers
  std::uint64_t unreadable = 0;   // cells behind I/O errors; not used any more
  std::uint64_t overlapping = 0;  // lost their space to a record with a higher sequence
  std::uint64_t payload_bytes = 0;
  std::uint64_t cells = 0;       // looked at
  std::uint64_t bytes_read = 0;  // from the device
  std::int64_t scan_nanos = 0;   // reading and visiting
  std::int64_t build_nanos = 0;  // of the books of space, after it
};

class RecordStore;
class RecordTable;
struct Layout;
struct Superblock;

// Space for one record, which nobody else gets. Move-only. Destroyed without having been put, it is
// given back at once. Any thread, one at a time; not after its store.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  explicit operator bool() const noexcept { return store_ != nullptr; }
  std::uint64_t payload_bytes() const noexcept { return payload_bytes_; }
  std::uint64_t stored_bytes() const noexcept;  // whole blocks

 private:
  friend class RecordStore;
  friend class RecordWriter;
  RecordStore* store_ = nullptr;
  std::uint32_t slot_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t stored_bytes_ = 0;
};

// While it is held the record's space is not given to others. Move-only. Any thread, one at a time;
// not after its store.
class Pin {
 public:
  Pin() = default;
  Pin(Pin&& other) noexcept;
  Pin& operator=(Pin&& other) noexcept;
  ~Pin();

  explicit operator bool() const noexcept { return store_ != nullptr; }
  RecordId id() const noexcept { return id_; }
  std::uint64_t payload_bytes() const noexcept { return payload_bytes_; }
  const RecordStore* store() const noexcept { return store_; }
  // The payload lies in these, in order.
  std::span<const Extent> extents() const noexcept { return {extents_.data(), extent_count_}; }

 private:
  friend class RecordStore;
  RecordStore* store_ = nullptr;
  RecordId id_;
  std::uint32_t slot_ = 0;
  std::uint32_t extent_count_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::array<Extent, kExtentsMax> extents_{};
};

// Any thread.
class RecordStore {
 public:
  struct Found {
    RecordId id;
    const Manifest& manifest;  // valid during the call
    std::uint64_t stored_bytes = 0;
  };
  enum class Verdict : std::uint8_t {
    kKeep = 0,
    kDrop = 1,  // an orphan: it is released
  };
  using Visit = std::function<Verdict(const Found&)>;

  // Marks the device as in use, durably. Nothing was written on these:
  //   kNotFound         no record store, and the device is blank: format() it
  //   kCorrupt          neither superblock can be believed, or what it says cannot be: the message
  //                     says what to do; or the device is shorter than the store on it
  //   kVersionMismatch  of a newer program
  //   kConflict         another device than expected; superblocks of two different stores; in use,
  //                     perhaps (OpenOptions::heir): `held_by` is set to its owner then
  //   kUnsupported      the device's blocks or sectors differ from those the store was made for
  // Else as of the device.
  static Result<std::unique_ptr<RecordStore>> open(std::shared_ptr<block::BlockDevice> device,
                                                   const OpenOptions& options,
                                                   std::string* held_by = nullptr);
  // All writers, readers, pins and reservations are gone. Without close() the device stays marked.
  ~RecordStore();
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  const Uuid& uuid() const noexcept;
  std::uint64_t last_epoch() const noexcept;  // the highest of those who opened it before
  bool was_clean() const noexcept;            // close() ended well before
  const std::string& previous_owner() const noexcept;
  bool read_only() const noexcept;
  block::BlockDevice& device() const noexcept { return *device_; }

  // Finds the records, from the headers alone. `visit` is called from several threads at once and
  // may take its time; the record may be pinned, read and released from then on. One that throws
  // ends the recovery with kInternal. Until it is over reserve() says kBackpressure. One at a time,
  // once; after kCancelled or an error it can be run again and visits what was not visited.
  //   kCancelled        `stop` became true
  //   kInvalidArgument  the options; it is over already
  Result<RecoveryReport> recover(const RecoverOptions& options, const Visit& visit);

  // Space for a payload of 1 byte or more.
  //   kExhausted        no space, or no header cells: the message says which
  //   kBackpressure     enough is being released; recovery is not over
  //   kTooLarge         no empty device of this size would hold it
  //   kInvalidArgument  no bytes
  //   kPermissionDenied read only
  Result<Reservation> reserve(std::uint64_t payload_bytes);

  // kNotFound: released, or never there.
  Result<Pin> pin(RecordId id);

  // No new pins from now on. Once the last is gone the writer makes it durable, and then its space
  // is free. False: not there (any more), or read only.
  bool release(RecordId id);

  // A reader or scrubber found that the payload is not what it should be.
  void note_damaged_payload() noexcept;
  // The next record in order of cells, from `cell` on, pinned; none: the end.
  std::optional<Pin> next_from(std::uint32_t cell);

  StoreStats stats() const;

  // Marks the device as cleanly closed. kConflict: there are reservations, pins, a writer, or
  // releases that no writer has made durable; kInvalidArgument: closed already. Else as of the
  // device. Nothing can be reserved, pinned or released afterwards.
  Result<void> close();

 private:
  friend class Reservation;
  friend class Pin;
  friend class RecordWriter;
  friend class Recovery;
  friend class Scrubber;

  RecordStore(std::shared_ptr<block::BlockDevice> device, std::unique_ptr<Superblock> superblock,
              const OpenOptions& options);
  void give_back(std::uint32_t slot) noexcept;
  void unpin(std::uint32_t slot) noexcept;
  Pin make_pin(std::uint32_t slot);

  const std::shared_ptr<block::BlockDevice> device_;
  const std::unique_ptr<Superblock> superblock_;
  const OpenOptions options_;
  std::uint64_t last_epoch_ = 0;
  bool was_clean_ = false;
  std::string previous_owner_;
  std::uint64_t damaged_superblocks_ = 0;
  std::atomic<std::uint64_t> damaged_payloads_{0};

  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<RecordTable> table_;
  std::function<void()> wake_;  // of the writer; empty: there is none
  bool recovering_ = false;
  bool closed_ = false;
};

}  // namespace larder::extent
