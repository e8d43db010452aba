// SPDX-License-Identifier: Apache-2.0
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "bench/vs_rocksdb/peer.h"
#include "bench/vs_rocksdb/values.h"
#include "env/clock.h"

namespace larder::vs_rocksdb {
namespace {

Result<void> ok(const rocksdb::Status& status) {
  if (status.ok()) return {};
  return fail(Code::kUnavailable, "RocksDB: " + status.ToString());
}

double seconds_since(env::Nanos begin) {
  return static_cast<double>(env::monotonic_now() - begin) / 1e9;
}

rocksdb::Options options_of() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.enable_blob_files = true;
  options.min_blob_size = 4096;
  options.blob_file_size = 256U << 20U;
  options.compression = rocksdb::kNoCompression;
  options.blob_compression_type = rocksdb::kNoCompression;
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  options.writable_file_max_buffer_size = 8U << 20U;  // its direct writes, one at a time
  // Flushes go on while the next buffers fill; the log is recycled, which spares its fsync the
  // growing of a file.
  options.write_buffer_size = 256U << 20U;
  options.max_write_buffer_number = 4;
  options.recycle_log_file_num = 4;
  options.max_background_jobs = 4;
  return options;
}

class RocksPeer final : public Peer {
 public:
  RocksPeer(const Plan& plan, bool log) : plan_(plan), log_(log) {}

  Result<double> write() override {
    LARDER_TRY(open_db());
    LARDER_ASSIGN(auto values, Values::create(plan_.value_bytes, plan_.depth));
    rocksdb::WriteOptions how;
    how.sync = log_;
    how.disableWAL = !log_;
    rocksdb::WriteBatch batch(plan_.depth * (plan_.value_bytes + 64));  // grows only once
    const env::Nanos begin = env::monotonic_now();
    for (std::uint64_t next = 0; next < plan_.values;) {
      batch.Clear();
      const std::uint64_t end = std::min(next + plan_.depth, plan_.values);
      for (; next < end; ++next) {
        const auto value = values.make(next);
        const auto* const text = reinterpret_cast<const char*>(value.data());
        LARDER_TRY(ok(batch.Put(key_of(next), rocksdb::Slice(text, value.size()))));
      }
      LARDER_TRY(ok(db_->Write(how, &batch)));
      if (!log_) LARDER_TRY(ok(db_->Flush(rocksdb::FlushOptions())));
    }
    return seconds_since(begin);
  }

  Result<double> open() override {
    const env::Nanos begin = env::monotonic_now();
    LARDER_TRY(open_db());
    LARDER_TRY(get(plan_.values - 1));
    return seconds_since(begin);
  }

  Result<void> settle() override { return ok(db_->Flush(rocksdb::FlushOptions())); }

  // Its reads wait for the disk, so that as many threads are needed as reads in flight.
  Result<double> read() override {
    const auto order = shuffled(plan_.values);
    std::atomic<std::uint64_t> next{0};
    std::mutex mutex;  // guards the error
    std::optional<Error> error;
    const env::Nanos begin = env::monotonic_now();
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < plan_.depth; ++t) {
      threads.emplace_back([&] {
        for (std::uint64_t i = next++; i < order.size(); i = next++) {
          if (const auto got = get(order[i]); !got) {
            const std::lock_guard lock(mutex);
            error = got.error();
            return;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (error) return fail(*error);
    return seconds_since(begin);
  }

  Result<void> close() override { return ok(db_->Close()); }

 private:
  Result<void> open_db() {
    rocksdb::DB* db = nullptr;
    LARDER_TRY(ok(rocksdb::DB::Open(options_of(), plan_.directory, &db)));
    db_.reset(db);
    return {};
  }

  Result<void> get(std::uint64_t number) {
    rocksdb::PinnableSlice value;
    LARDER_TRY(
        ok(db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), key_of(number), &value)));
    return check_value(number, std::as_bytes(std::span(value.data(), value.size())),
                       plan_.value_bytes);
  }

  const Plan plan_;
  const bool log_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

std::unique_ptr<Peer> rocksdb_with_log(const Plan& plan) {
  return std::make_unique<RocksPeer>(plan, true);
}

std::unique_ptr<Peer> rocksdb_without_log(const Plan& plan) {
  return std::make_unique<RocksPeer>(plan, false);
}

}  // namespace larder::vs_rocksdb
