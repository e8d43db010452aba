// SPDX-License-Identifier: Apache-2.0
#include "apps/extent_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/console.h"
#include "apps/exit_codes.h"
#include "base/checksum.h"
#include "block/aligned_buffer.h"
#include "block/blocking.h"
#include "block/file_device.h"
#include "env/clock.h"
#include "extent/record_reader.h"
#include "extent/record_store.h"
#include "extent/record_writer.h"

namespace larder::apps {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kDepth = 32;
constexpr std::uint64_t kPool = 64;  // records' worth of memory
constexpr std::uint64_t kWarmBytes = 1U << 20U;

double seconds_since(env::Nanos start) {
  return static_cast<double>(env::monotonic_now() - start) / 1e9;
}
double rate(std::uint64_t bytes, env::Nanos start) {
  return static_cast<double>(bytes) / seconds_since(start) / 1e6;  // MB/s
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One file and the memory that goes in and out of it.
class Bench {
 public:
  explicit Bench(const ExtentBenchFlags& flags) : flags_(flags) {}
  ~Bench() {
    device_.reset();
    if (created_) ::unlink(flags_.path.c_str());
  }

  Result<Json> run() {
    block::FileDeviceOptions options;
    options.path = flags_.path;
    options.create = true;
    options.bytes = flags_.bytes;
    LARDER_ASSIGN(device_, block::FileDevice::open(options));
    created_ = true;
    LARDER_ASSIGN(memory_, block::AlignedBuffer::create(
                               std::max(kPool * flags_.record, kDepth * kWarmBytes), 4096));
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i + 8 <= memory_.size(); i += 8) {
      const std::uint64_t word = random();
      std::memcpy(memory_.data() + i, &word, 8);
    }
    // Room for the headers of small records, too.
    count_ = flags_.bytes * 9 / 10 / (flags_.record + 1024);
    LARDER_TRY(raw(block::OpKind::kWrite, kWarmBytes));  // the first write of a block costs more
    durable_.clear();
    for (std::uint64_t round = 0; round < flags_.rounds; ++round) {
      LARDER_ASSIGN(const double write, raw(block::OpKind::kWrite, flags_.record));
      raw_write_.push_back(write);
      LARDER_TRY(offload());
      LARDER_ASSIGN(const double read, raw(block::OpKind::kRead, flags_.record));
      raw_read_.push_back(read);
      LARDER_TRY(recover());
      LARDER_TRY(get());
      LARDER_TRY(get_one());
    }
    return answer();
  }

 private:
  std::span<std::byte> part(std::uint64_t i) {
    return memory_.span().subspan(i % kPool * flags_.record, flags_.record);
  }

  // The bare device: sequential, depth kDepth, in MB/s.
  Result<double> raw(block::OpKind kind, std::uint64_t unit) {
    LARDER_ASSIGN(const auto queue, device_->open_queue(kDepth));
    const std::uint64_t count = count_ * flags_.record / unit;
    const std::uint64_t first = flags_.bytes / 16 / unit * unit;
    std::vector<block::Piece> pieces(kDepth);
    std::vector<std::uint64_t> spare;
    for (std::uint64_t i = 0; i < kDepth; ++i) spare.push_back(i);
    const env::Nanos start = env::monotonic_now();
    for (std::uint64_t next = 0, ended = 0; ended < count;) {
      while (next < count && !spare.empty()) {
        const std::uint64_t slot = spare.back();
        spare.pop_back();
        pieces[slot] = {memory_.data() + slot % (memory_.size() / unit) * unit, unit};
        block::BlockOp op{kind, first + next++ * unit, {&pieces[slot], 1}, 0, slot, {}, 0};
        LARDER_TRY(queue->submit(op));
      }
      block::BlockDone done[kDepth];
      const std::size_t got = queue->wait(done, block::kNoDeadline);
      for (std::size_t i = 0; i < got; ++i) {
        if (!done[i].ok()) return fail(block::describe(device_->identity(), done[i]));
        spare.push_back(done[i].tag);
      }
      ended += got;
    }
    const double out = rate(count * unit, start);
    if (kind == block::OpKind::kWrite) {
      LARDER_TRY(block::flush(*queue));
      durable_.push_back(rate(count * unit, start));
    }
    return out;
  }

  Result<void> offload() {
    LARDER_TRY(extent::format(
        *device_, {.record_bytes = std::clamp<std::uint64_t>(flags_.record, 4096, 64U << 10U),
                   .force = true}));
    LARDER_ASSIGN(auto store, extent::RecordStore::open(device_, {.owner = "bench"}));
    LARDER_TRY(store->recover({}, [](const auto&) { return extent::RecordStore::Verdict::kKeep; }));
    LARDER_ASSIGN(auto writer,
                  extent::RecordWriter::create(*store, {.group_records = flags_.group}));
    extent::Manifest manifest;
    manifest.object_set = "bench";
    manifest.length = flags_.record;
    ids_.assign(count_, {});
    sums_.resize(kPool);
    for (std::uint64_t i = 0; i < kPool; ++i) sums_[i] = checksum64(part(i));
    const env::Nanos start = env::monotonic_now();
    for (std::uint64_t next = 0, ended = 0; ended < count_;) {
      while (next < count_ && writer->under_way() < flags_.under_way) {
        LARDER_ASSIGN(auto reservation, store->reserve(flags_.record));
        manifest.key = fmt::format("{:064x}", next);
        manifest.checksum = sums_[next % kPool];
        LARDER_TRY(writer->put(std::move(reservation), part(next), manifest, next, {}));
        ++next;
      }
      extent::WriteDone done[32];
      const std::size_t got = writer->wait(done, block::kNoDeadline);
      for (std::size_t i = 0; i < got; ++i) {
        if (!done[i].result) return fail(done[i].result.error());
        ids_[done[i].tag] = done[i].id;
      }
      ended += got;
    }
    offload_.push_back(rate(count_ * flags_.record, start));
    flushes_ = writer->flushes();
    stats_ = store->stats();
    return {};
  }

  // As the records say it is, against bare reads of as many bytes of the table.
  Result<void> recover() {
    store_.reset();
    LARDER_ASSIGN(store_, extent::RecordStore::open(device_, {.owner = "bench"}));
    LARDER_ASSIGN(report_, store_->recover({.queues = flags_.queues}, [](const auto&) {
      return extent::RecordStore::Verdict::kKeep;
    }));
    if (report_.records != count_) return fail(Code::kInternal, "records were lost");
    recovery_.push_back(static_cast<double>(report_.scan_nanos + report_.build_nanos) / 1e6);
    LARDER_ASSIGN(const auto queue, device_->open_queue(kDepth));
    const std::uint64_t unit = 64U << 10U;
    const std::uint64_t count = std::max<std::uint64_t>(report_.bytes_read / unit, 1);
    std::vector<block::Piece> pieces(kDepth);
    const env::Nanos start = env::monotonic_now();
    for (std::uint64_t next = 0, ended = 0; ended < count;) {
      while (next < count && next - ended < kDepth) {
        pieces[next % kDepth] = {memory_.data() + next % kDepth * unit, unit};
        LARDER_TRY(queue->submit(
            block::BlockOp::read(4096 + next * unit, {&pieces[next % kDepth], 1}, next)));
        ++next;
      }
      block::BlockDone done[kDepth];
      ended += queue->wait(done, block::kNoDeadline);
    }
    raw_recovery_.push_back(seconds_since(start) * 1e3);
    return {};
  }

  Result<void> get() {
    LARDER_ASSIGN(auto reader,
                  extent::RecordReader::create(*store_, {.piece_bytes = flags_.piece}));
    const env::Nanos start = env::monotonic_now();
    for (std::uint64_t next = 0, ended = 0; ended < count_;) {
      while (next < count_ && reader->under_way() < kPool) {
        LARDER_ASSIGN(auto pin, store_->pin(ids_[next]));
        LARDER_TRY(reader->read(std::move(pin), part(next), sums_[next % kPool], next, {}));
        ++next;
      }
      extent::ReadDone done[32];
      const std::size_t got = reader->wait(done, block::kNoDeadline);
      for (std::size_t i = 0; i < got; ++i) {
        if (!done[i].result) return fail(done[i].result.error());
      }
      ended += got;
    }
    get_.push_back(rate(count_ * flags_.record, start));
    return {};
  }

  // One at a time, in random order, in turn with a bare read.
  Result<void> get_one() {
    LARDER_ASSIGN(auto reader,
                  extent::RecordReader::create(*store_, {.piece_bytes = flags_.piece}));
    LARDER_ASSIGN(const auto queue, device_->open_queue(1));
    std::mt19937_64 random(flags_.rounds);
    std::vector<double> mine;
    std::vector<double> bare;
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t which = random() % count_;
      LARDER_ASSIGN(auto pin, store_->pin(ids_[which]));
      env::Nanos start = env::monotonic_now();
      LARDER_TRY(reader->read(std::move(pin), part(which), sums_[which % kPool], 0, {}));
      extent::ReadDone done;
      while (reader->wait({&done, 1}, block::kNoDeadline) == 0) {
      }
      if (!done.result) return fail(done.result.error());
      mine.push_back(seconds_since(start) * 1e6);
      const std::uint64_t offset = flags_.bytes / 16 / 4096 * 4096 + random() % count_ * 4096;
      start = env::monotonic_now();
      LARDER_TRY(block::read_all(*queue, offset, part(which)));
      bare.push_back(seconds_since(start) * 1e6);
      // What was read over has to be as it was for the next checksum.
      LARDER_ASSIGN(auto again, store_->pin(ids_[which]));
      LARDER_TRY(reader->read(std::move(again), part(which), sums_[which % kPool], 0, {}));
      while (reader->wait({&done, 1}, block::kNoDeadline) == 0) {
      }
    }
    one_.push_back(median(mine));
    raw_one_.push_back(median(bare));
    return {};
  }

  Json answer() const {
    const auto row = [](double mine, double bare) {
      return Json{{"store", mine}, {"bare", bare}, {"ratio", mine / bare}};
    };
    return {{"record_bytes", flags_.record},
            {"records", count_},
            {"put_mb_per_s", row(median(offload_), median(raw_write_))},
            {"put_mb_per_s_with_one_flush", row(median(offload_), median(durable_))},
            {"flushes", flushes_},
            {"get_mb_per_s", row(median(get_), median(raw_read_))},
            {"get_one_us", row(median(one_), median(raw_one_))},
            {"recovery_ms", row(median(recovery_), median(raw_recovery_))},
            {"recovery_scan_ms", static_cast<double>(report_.scan_nanos) / 1e6},
            {"recovery_bytes", report_.bytes_read},
            {"recovery_share_of_device",
             static_cast<double>(report_.bytes_read) / static_cast<double>(flags_.bytes)},
            {"space_amplification",
             static_cast<double>(stats_.used) / static_cast<double>(stats_.payload_bytes)},
            {"memory_bytes_a_record",
             static_cast<double>(stats_.memory_bytes) / static_cast<double>(count_)}};
  }

  const ExtentBenchFlags& flags_;
  std::shared_ptr<block::FileDevice> device_;
  bool created_ = false;
  block::AlignedBuffer memory_;
  std::uint64_t count_ = 0;
  std::unique_ptr<extent::RecordStore> store_;
  std::vector<extent::RecordId> ids_;
  std::vector<std::uint64_t> sums_;
  extent::RecoveryReport report_;
  extent::StoreStats stats_;
  std::uint64_t flushes_ = 0;
  std::vector<double> durable_, raw_write_, offload_, raw_read_, get_, one_, raw_one_, recovery_,
      raw_recovery_;
};

}  // namespace

Result<int> run_extent_bench(const ExtentBenchFlags& flags) {
  const bool sizes = flags.record >= 4096 && flags.record % 4096 == 0 &&
                     flags.bytes >= 64 * flags.record && flags.rounds > 0 &&
                     flags.bytes % 4096 == 0 && flags.record <= 16U << 20U;
  if (!sizes) {
    return fail(Code::kInvalidArgument,
                "records are of 4 KiB to 16 MiB in steps of 4 KiB, and the file holds 64 of them");
  }
  LARDER_ASSIGN(const Json json, Bench(flags).run());
  LARDER_TRY(print(json.dump(flags.json ? -1 : 2) + '\n'));
  return kExitOk;
}

}  // namespace larder::apps
