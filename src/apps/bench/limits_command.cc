// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "apps/bench/commands.h"
#include "apps/bench/dataset.h"
#include "apps/bench/limits.h"
#include "apps/bench/name_filter.h"
#include "apps/console.h"
#include "base/units.h"
#include "env/thread.h"

namespace larder::apps {
namespace {

constexpr std::array<std::size_t, 5> kSizes = {64, 4 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr std::uint64_t kLocalBytes = 64ULL << 20;  // twice a large last-level cache
constexpr std::size_t kHotBytes = 256 << 10;
constexpr std::size_t kLookupsPerCall = 64;
constexpr std::array<std::size_t, 3> kDiskSizes = {4 << 10, 128 << 10, 2 << 20};
constexpr std::size_t kDiskDepth = 32;

struct Bed {
  const RawPeer& peer;
  std::span<std::byte> local;
  std::span<std::byte> shared;
  std::span<const std::string_view> keys;
};

using Factory = std::function<Result<ProbePtr>()>;

void add_copies(std::vector<Factory>& list, const Bed& bed) {
  const std::vector<std::size_t> threads = env::core_count() > 1
                                               ? std::vector<std::size_t>{1, env::core_count()}
                                               : std::vector<std::size_t>{1};
  for (const std::size_t count : threads) {
    for (const std::size_t bytes : kSizes) {
      if (bytes < 4096 || bytes * count > bed.local.size()) continue;
      list.push_back(
          [=] { return make_copy_limit(CopyKind::kOut, bytes, count, bed.shared, bed.local); });
      list.push_back(
          [=] { return make_copy_limit(CopyKind::kIn, bytes, count, bed.local, bed.shared); });
      list.push_back([=] {
        return make_copy_limit(CopyKind::kInChecksum, bytes, count, bed.local, bed.shared);
      });
    }
  }
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{64 << 10}}) {  // cache-hot
    list.push_back([=] {
      return make_copy_limit(CopyKind::kOut, bytes, 1, bed.shared.first(kHotBytes),
                             bed.local.first(kHotBytes));
    });
  }
}

void add_exchange(std::vector<Factory>& list, const Bed& bed, BenchPath path, Wait wait,
                  std::size_t bytes, Direction direction) {
  ExchangeShape shape;
  shape.path = path;
  shape.wait = wait;
  shape.value_bytes = bytes;
  const bool up = direction == Direction::kUp;
  (up ? shape.up_bytes : shape.down_bytes) = bytes;
  list.push_back([=] { return make_exchange_limit(bed.peer, shape, bed.local); });
}

void add_sockets(std::vector<Factory>& list, const Bed& bed) {
  for (const BenchPath path : {BenchPath::kTcp, BenchPath::kUnix}) {
    for (const Wait wait : {Wait::kBlock, Wait::kSpin, Wait::kBrief}) {
      for (const Direction direction : {Direction::kDown, Direction::kUp}) {
        for (const std::size_t bytes : kSizes) {
          // 64 bytes each way is the same exchange in both directions.
          if (direction == Direction::kUp && bytes == kRawHeaderBytes) continue;
          add_exchange(list, bed, path, wait, bytes, direction);
        }
        list.push_back([=] {
          return make_stream_limit(bed.peer, path, wait, direction, 1, kRawWriteBytes, bed.local);
        });
      }
    }
  }
}

void add_lookups(std::vector<Factory>& list, const Bed& bed) {
  list.push_back([=] { return make_lookup_limit(bed.keys, kLookupsPerCall, 1); });
  const std::size_t there = std::min(bed.keys.size(), bed.shared.size() / 4096);
  list.push_back([=] {
    return make_lookup_copy_limit(bed.keys.first(there), 4096, 1, bed.shared, bed.local);
  });
}

// The file is made when the first of them is wanted.
void add_disk(std::vector<Factory>& list, const BenchOptions& options, const NameFilter& filter,
              std::unique_ptr<DiskFile>& file, std::span<std::byte> memory) {
  for (const bool write : {false, true}) {
    for (const std::size_t bytes : kDiskSizes) {
      for (const std::size_t depth : {std::size_t{1}, kDiskDepth}) {
        if (depth * bytes > memory.size()) continue;
        const DiskShape shape{write, bytes, depth, 1, depth > 1};
        if (!filter.matches(disk_limit_name(shape, nullptr))) continue;
        list.push_back([=, &options, &file]() -> Result<ProbePtr> {
          if (!file) {
            LARDER_ASSIGN(file,
                          DiskFile::create(options.directory, options.file_bytes, options.seed));
          }
          return make_disk_limit(*file, shape, memory);
        });
      }
    }
  }
}

}  // namespace

Result<void> bench_limits(const BenchOptions& options) {
  LARDER_ASSIGN(const NameFilter filter, NameFilter::create(options.cases));
  LARDER_ASSIGN(const auto peer, RawPeer::start(options.set_bytes));
  LARDER_ASSIGN(const Mapping local, Mapping::private_memory(kLocalBytes));
  LARDER_ASSIGN(const Mapping shared, Mapping::shared_memory(options.set_bytes));
  const KeyList keys("limit", static_cast<std::size_t>(options.set_bytes / 4096));
  const Bed bed{*peer, local.bytes(), shared.bytes(), keys.views()};
  std::vector<Factory> factories;
  add_copies(factories, bed);
  add_sockets(factories, bed);
  add_lookups(factories, bed);
  std::unique_ptr<DiskFile> file;
  add_disk(factories, options, filter, file, bed.local);
  std::vector<BenchRow> rows;
  LARDER_TRY(print(table_head(false)));
  for (const Factory& factory : factories) {
    LARDER_ASSIGN(const ProbePtr probe, factory());
    if (!filter.matches(probe->name())) continue;
    BenchRow row;
    row.name = probe->name();
    LARDER_ASSIGN(row.ours, run_alone(*probe, options.rhythm()));
    LARDER_TRY(print(table_line(row)));
    rows.push_back(std::move(row));
  }
  if (!options.json_file.empty()) LARDER_TRY(write_json(options.json_file, rows));
  return {};
}

}  // namespace larder::apps
