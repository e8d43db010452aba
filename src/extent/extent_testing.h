// SPDX-License-Identifier: Apache-2.0
// What tests of the record store share.
#pragma once

#include <map>
#include <optional>

#include "base/checksum.h"
#include "block/block_testing.h"
#include "extent/record_reader.h"
#include "extent/record_store.h"
#include "extent/record_writer.h"

namespace larder::extent {

using block::code_of;
using block::take_value;

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;

inline std::shared_ptr<block::MemoryDevice> memory_device(std::uint64_t bytes) {
  return take_value(block::MemoryDevice::create({.bytes = bytes}));
}

inline std::unique_ptr<RecordStore> open_store(std::shared_ptr<block::BlockDevice> device,
                                               const OpenOptions& options = {.owner = "a test"}) {
  return take_value(RecordStore::open(std::move(device), options));
}

struct Seen {
  RecordId id;
  Manifest manifest;
};

// By key. One queue: what it does is then the same every time.
inline std::map<std::string, Seen> recover_all(RecordStore& store,
                                               RecoveryReport* report = nullptr) {
  std::map<std::string, Seen> out;
  std::mutex mutex;
  auto done = store.recover({.queues = 1, .depth = 2}, [&](const RecordStore::Found& found) {
    const std::lock_guard lock(mutex);
    out[found.manifest.key] = {found.id, found.manifest};
    return RecordStore::Verdict::kKeep;
  });
  EXPECT_TRUE(done) << done.error().to_string();
  if (report != nullptr && done) *report = *done;
  return out;
}

// Formatted, opened and recovered.
inline std::unique_ptr<RecordStore> fresh_store(std::shared_ptr<block::BlockDevice> device,
                                                std::uint64_t record_bytes = 4 * kKiB) {
  const auto made = format(*device, {.record_bytes = record_bytes});
  EXPECT_TRUE(made) << made.error().to_string();
  auto store = open_store(std::move(device));
  recover_all(*store);
  return store;
}

// Bytes that differ with the seed, and what is to be said of them.
inline std::vector<std::byte> payload_of(std::uint64_t seed, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (std::size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    out[i] = static_cast<std::byte>(state >> 56U);
  }
  return out;
}

inline Manifest manifest_of(const std::string& key, std::span<const std::byte> payload,
                            std::uint64_t version = 1) {
  Manifest out;
  out.tenant = "tenant";
  out.domain = "domain";
  out.object_set = "set";
  out.key = key;
  out.version = version;
  out.length = payload.size();
  out.checksum = checksum64(payload);
  return out;
}

inline std::vector<WriteDone> wait_for(RecordWriter& writer, std::size_t count) {
  std::vector<WriteDone> all(count);
  std::size_t have = 0;
  const env::Nanos deadline = block::within(block::kSoon);
  while (have < count && env::monotonic_now() < deadline) {
    have += writer.wait(std::span(all).subspan(have), deadline);
  }
  EXPECT_EQ(have, count);
  all.resize(have);
  return all;
}

// One record, waited for.
inline Result<RecordId> put_one(RecordStore& store, RecordWriter& writer, const Manifest& manifest,
                                std::span<const std::byte> payload) {
  LARDER_ASSIGN(auto reservation, store.reserve(payload.size()));
  LARDER_TRY(writer.put(std::move(reservation), payload, manifest, 7, {}));
  auto done = wait_for(writer, 1);
  if (done.empty()) return fail(Code::kInternal, "it did not end");
  EXPECT_EQ(done[0].tag, 7U);
  if (!done[0].result) return fail(done[0].result.error());
  return done[0].id;
}

inline Result<void> release_one(RecordWriter& writer, RecordId id) {
  LARDER_TRY(writer.release(id, 8));
  auto done = wait_for(writer, 1);
  if (done.empty()) return fail(Code::kInternal, "it did not end");
  EXPECT_TRUE(done[0].is_release);
  EXPECT_EQ(done[0].id, id);
  return done[0].result;
}

// Of one record, verified by the reader.
inline Result<std::vector<std::byte>> read_one(RecordStore& store, RecordReader& reader,
                                               RecordId id, std::uint64_t checksum) {
  LARDER_ASSIGN(Pin pin, store.pin(id));
  std::vector<std::byte> out(pin.payload_bytes());
  LARDER_TRY(reader.read(std::move(pin), out, checksum, 9, {}));
  ReadDone done;
  const env::Nanos deadline = block::within(block::kSoon);
  while (reader.wait({&done, 1}, deadline) == 0) {
    if (env::monotonic_now() > deadline) return fail(Code::kInternal, "it did not end");
  }
  EXPECT_EQ(done.tag, 9U);
  if (!done.result) return fail(done.result.error());
  EXPECT_EQ(done.bytes, out.size());
  return out;
}

inline std::unique_ptr<RecordWriter> writer_of(RecordStore& store,
                                               const WriterOptions& options = {}) {
  return take_value(RecordWriter::create(store, options));
}
inline std::unique_ptr<RecordReader> reader_of(RecordStore& store,
                                               const ReaderOptions& options = {}) {
  return take_value(RecordReader::create(store, options));
}

inline void expect_balanced(const RecordStore& store) {
  const StoreStats now = store.stats();
  EXPECT_EQ(now.used + now.free, now.capacity);
  EXPECT_LE(now.reserved + now.releasing + now.stuck, now.used);
}

}  // namespace larder::extent
