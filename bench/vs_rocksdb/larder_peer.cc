// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/checksum.h"
#include "bench/vs_rocksdb/peer.h"
#include "bench/vs_rocksdb/values.h"
#include "block/file_device.h"
#include "extent/record_reader.h"
#include "extent/record_store.h"
#include "extent/record_writer.h"

namespace larder::vs_rocksdb {
namespace {

constexpr std::uint64_t kSlack = 256U << 20U;  // header table, superblocks, room for the allocator

double seconds_since(env::Nanos begin) {
  return static_cast<double>(env::monotonic_now() - begin) / 1e9;
}

class LarderPeer final : public Peer {
 public:
  explicit LarderPeer(const Plan& plan) : plan_(plan) {}

  Result<double> write() override {
    block::FileDeviceOptions how;
    how.path = path();
    how.create = true;
    how.bytes = plan_.values * (plan_.value_bytes + (64U << 10U)) + kSlack;
    LARDER_ASSIGN(const auto device, block::FileDevice::open(how));
    LARDER_TRY(extent::format(*device, {}));
    LARDER_TRY(open_store(device));
    LARDER_ASSIGN(const auto writer, extent::RecordWriter::create(*store_, {.depth = plan_.depth}));
    // A value's memory is its own until it is durable: as many slots as can be under way.
    LARDER_ASSIGN(auto values, Values::create(plan_.value_bytes, 4 * plan_.depth));
    const env::Nanos begin = env::monotonic_now();
    LARDER_TRY(write_all(*writer, values));
    return seconds_since(begin);
  }

  Result<double> open() override {
    const env::Nanos begin = env::monotonic_now();
    block::FileDeviceOptions how;
    how.path = path();
    LARDER_ASSIGN(const auto device, block::FileDevice::open(how));
    LARDER_TRY(open_store(device));
    if (index_.size() != plan_.values) {
      return fail(Code::kNotFound, std::to_string(plan_.values - index_.size()) + " keys are gone");
    }
    const std::array<std::uint64_t, 1> last{plan_.values - 1};
    LARDER_TRY(read_all(last));
    return seconds_since(begin);
  }

  Result<void> settle() override { return {}; }  // there is one place

  Result<double> read() override {
    const auto order = shuffled(plan_.values);
    const env::Nanos begin = env::monotonic_now();
    LARDER_TRY(read_all(order));
    return seconds_since(begin);
  }

  Result<void> close() override { return store_->close(); }

 private:
  struct Entry {
    extent::RecordId id;
    std::uint64_t checksum = 0;
  };

  std::string path() const { return plan_.directory + "/larder.store"; }

  Result<void> open_store(std::shared_ptr<block::BlockDevice> device) {
    LARDER_ASSIGN(store_, extent::RecordStore::open(std::move(device), {}));
    std::mutex mutex;  // guards the index, which several threads fill
    LARDER_TRY(store_->recover({}, [&](const extent::RecordStore::Found& found) {
      const std::lock_guard lock(mutex);
      index_[found.manifest.key] = {found.id, found.manifest.checksum};
      return extent::RecordStore::Verdict::kKeep;
    }));
    return {};
  }

  Result<void> write_all(extent::RecordWriter& writer, Values& values) {
    std::uint64_t done = 0;
    for (std::uint64_t next = 0; done < plan_.values;) {
      while (next < plan_.values && next - done < values.slots()) {
        LARDER_ASSIGN(const bool taken, put(writer, values, next));
        if (!taken) break;
        ++next;
      }
      std::array<extent::WriteDone, 64> ended;
      const std::size_t count = writer.wait(ended, block::kNoDeadline);
      for (std::size_t i = 0; i < count; ++i) LARDER_TRY(ended[i].result);
      done += count;
    }
    return {};
  }

  // False: enough is under way.
  Result<bool> put(extent::RecordWriter& writer, Values& values, std::uint64_t number) {
    const auto value = values.make(number);
    extent::Manifest manifest;
    manifest.key = key_of(number);
    manifest.version = 1;
    manifest.length = value.size();
    manifest.checksum = checksum64(value);
    LARDER_ASSIGN(auto place, store_->reserve(value.size()));
    const auto taken = writer.put(std::move(place), value, manifest, number, {});
    if (!taken && taken.error().code() == Code::kBackpressure) return false;
    LARDER_TRY(taken);
    return true;
  }

  Result<void> read_all(std::span<const std::uint64_t> numbers) {
    LARDER_ASSIGN(auto values, Values::create(plan_.value_bytes, plan_.depth, true));
    extent::ReaderOptions how;
    how.depth = plan_.depth * (plan_.value_bytes / how.piece_bytes + 1);  // as many values
    LARDER_ASSIGN(const auto reader, extent::RecordReader::create(*store_, how));
    std::vector<std::uint64_t> free;  // slots
    for (std::uint64_t i = 0; i < plan_.depth; ++i) free.push_back(i);
    std::vector<std::uint64_t> reads(plan_.depth);  // which value a slot is for
    for (std::size_t next = 0, done = 0; done < numbers.size();) {
      for (; next < numbers.size() && !free.empty(); ++next) {
        const std::uint64_t slot = free.back();
        const Entry& entry = index_[key_of(numbers[next])];
        LARDER_ASSIGN(auto pin, store_->pin(entry.id));
        LARDER_TRY(reader->read(std::move(pin), values.slot(slot), entry.checksum, slot, {}));
        reads[slot] = numbers[next];
        free.pop_back();
      }
      std::array<extent::ReadDone, 64> ended;
      const std::size_t count = reader->wait(ended, block::kNoDeadline);
      for (std::size_t i = 0; i < count; ++i) {
        LARDER_TRY(ended[i].result);
        const std::uint64_t slot = ended[i].tag;
        LARDER_TRY(check_value(reads[slot], values.slot(slot), plan_.value_bytes));
        free.push_back(slot);
      }
      done += count;
    }
    return {};
  }

  const Plan plan_;
  std::unique_ptr<extent::RecordStore> store_;
  std::unordered_map<std::string, Entry> index_;
};

}  // namespace

std::unique_ptr<Peer> larder_store(const Plan& plan) {
  return std::make_unique<LarderPeer>(plan);
}

}  // namespace larder::vs_rocksdb
