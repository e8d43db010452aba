// SPDX-License-Identifier: Apache-2.0
// A random load on a record store whose power goes, and what must hold when it is opened again; for
// power_cut_test.cc and tests/integration.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "block/fault_device.h"
#include "extent/extent_testing.h"

namespace larder::extent {

// What a store stands on, over the disk whose power goes: that itself, or something remote.
using Reach =
    std::function<std::shared_ptr<block::BlockDevice>(std::shared_ptr<block::FaultDevice>)>;

struct PutRecord {
  Manifest manifest;
  std::vector<std::byte> payload;
  RecordId id;
  bool durable = false;
  bool release_begun = false;
  bool gone = false;
};

// What was done, whatever became of it.
class PowerCutWorld {
 public:
  explicit PowerCutWorld(std::uint64_t seed, Reach reach = nullptr)
      : random_(seed), reach_(std::move(reach)) {
    inner = memory_device(kDeviceBytes);
    EXPECT_TRUE(format(*inner, {.record_bytes = 4 * kKiB}));
  }

  // A life of the store that ends with the power: at change `cut_at`, or (0) at its end. How many
  // changes there were.
  std::uint64_t live(std::uint64_t fault_seed, std::uint64_t cut_at,
                     block::FaultOptions options = {}) {
    options.seed = fault_seed;
    options.late = 0.3;
    options.reorder = 0.3;
    options.cut_at = cut_at;
    broken_ = false;
    const auto device = take_value(block::FaultDevice::create(inner, options));
    {
      const std::shared_ptr<block::BlockDevice> reached = reach_ ? reach_(device) : device;
      if (auto store = RecordStore::open(reached, {.owner = "a life"})) use(**store);
    }
    EXPECT_TRUE(device->cut_power());
    return device->counts().changes;
  }

  // Everything that must hold when it is opened again.
  void check() {
    const auto store = open_store(inner);
    RecoveryReport report;
    const auto seen = recover_all(*store, &report);
    EXPECT_EQ(report.overlapping, 0U);
    EXPECT_EQ(store->stats().records, seen.size());
    expect_balanced(*store);
    const auto reader = reader_of(*store, {.depth = 4});
    for (const auto& [key, put] : puts) {
      const auto at = seen.find(key);
      EXPECT_FALSE(put.gone && at != seen.end()) << key << " was released";
      const bool kept = put.durable && !put.release_begun && !put.gone;
      EXPECT_FALSE(kept && at == seen.end()) << key << " was lost";
    }
    std::uint64_t stored = 0;
    for (const auto& [key, one] : seen) {
      PutRecord& put = puts[key];
      EXPECT_EQ(one.manifest.length, put.payload.size());
      EXPECT_EQ(one.manifest.checksum, put.manifest.checksum);
      const auto got = read_one(*store, *reader, one.id, put.manifest.checksum);
      EXPECT_TRUE(got && *got == put.payload) << key;
      stored += (put.payload.size() + 4095) / 4096 * 4096;
    }
    EXPECT_EQ(store->stats().used, stored);
    last_seen = seen.size();
    damaged += report.damaged;
  }

  std::shared_ptr<block::MemoryDevice> inner;
  std::map<std::string, PutRecord> puts;  // by key, which is never used twice
  std::size_t last_seen = 0;
  std::uint64_t damaged = 0;

 private:
  static constexpr std::uint64_t kDeviceBytes = 512 * kKiB;
  static constexpr int kSteps = 40;

  void use(RecordStore& store) {
    const auto recovered = store.recover({.queues = 1, .depth = 2}, [&](const auto& found) {
      PutRecord& put = puts[found.manifest.key];
      put.id = found.id;
      // An end that nobody was told of.
      put.durable = true;
      put.release_begun = false;
      return RecordStore::Verdict::kKeep;
    });
    if (!recovered) return;
    for (auto& [key, put] : puts) put.gone |= !store.pin(put.id);
    const auto writer =
        RecordWriter::create(store, {.depth = 3, .piece_bytes = 8 * kKiB, .group_records = 3});
    if (!writer) return;
    for (int i = 0; i < kSteps && !broken_; ++i) step(store, **writer);
    while (!broken_ && !(*writer)->idle()) collect(**writer);
  }

  void step(RecordStore& store, RecordWriter& writer) {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        begin_put(store, writer);
        break;
      case 3:
        begin_release(store, writer);
        break;
      case 4: {
        const auto aborted = store.reserve(1 + random_() % 30000);
        break;
      }
      case 5:
        store.pin(puts.empty() ? RecordId{} : std::next(puts.begin())->second.id);
        [[fallthrough]];
      default:
        collect(writer);
    }
  }

  void begin_put(RecordStore& store, RecordWriter& writer) {
    const std::size_t bytes = 1 + random_() % (random_() % 4 == 0 ? 60000 : 9000);
    auto reservation = store.reserve(bytes);
    if (!reservation) return;
    std::string key = "k" + std::to_string(puts.size());
    if (random_() % 2 == 0) key += std::string(random_() % 1000, 'x');
    PutRecord& put = puts[key];
    put.payload = random_() % 3 == 0 ? deceitful(bytes) : payload_of(random_(), bytes);
    put.manifest = manifest_of(key, put.payload);
    if (!writer.put(std::move(*reservation), put.payload, put.manifest, keys_.size(), {})) return;
    keys_.push_back(key);
  }

  // What the device itself holds: superblock, headers, tombstones, of other records or its own.
  std::vector<std::byte> deceitful(std::size_t bytes) {
    const auto held = block::contents(*inner, 0, 64 * kKiB);
    const std::uint64_t skip = random_() % 8 * 4096;
    std::vector<std::byte> out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = held.data()[(skip + i) % held.size()];
    return out;
  }

  void begin_release(RecordStore& store, RecordWriter& writer) {
    if (puts.empty()) return;
    auto at = std::next(puts.begin(), static_cast<std::ptrdiff_t>(random_() % puts.size()));
    if (!at->second.durable || at->second.release_begun) return;
    if (random_() % 4 == 0) {
      at->second.release_begun = store.release(at->second.id);
    } else if (writer.release(at->second.id, keys_.size())) {
      at->second.release_begun = true;
      keys_.push_back(at->first);
    }
  }

  void collect(RecordWriter& writer) {
    std::array<WriteDone, 4> done;
    if (writer.idle()) return;
    const std::size_t count = writer.wait(done, block::within(block::kSoon));
    for (std::size_t i = 0; i < count; ++i) {
      PutRecord& put = puts[keys_[done[i].tag]];
      if (!done[i].result) {
        broken_ = true;
      } else if (done[i].is_release) {
        put.gone = true;
      } else {
        put.durable = true;
        put.id = done[i].id;
      }
    }
  }

  std::mt19937_64 random_;
  const Reach reach_;
  std::deque<std::string> keys_;  // by tag
  bool broken_ = false;           // the power is gone
};

}  // namespace larder::extent
