// SPDX-License-Identifier: Apache-2.0
#include "client/readable_disks.h"

#include <algorithm>

namespace larder::client {
namespace {

constexpr std::uint64_t kLarge = 4U << 20U;  // bytes read together
// How long the wait for one of several disks keeps the others from being looked at.
constexpr env::Nanos kTurn = 200 * env::kMicro;

// All of them to their ends. False: the deadline came first.
template <class AllLent>
bool run(AllLent& lent, env::Nanos deadline) {
  for (;;) {
    bool moved = false;
    DiskReader* busy = nullptr;
    std::size_t count = 0;
    for (auto& one : lent) {
      if (one.broken || one.reader->done()) continue;
      const Result<bool> step = one.reader->step();
      one.broken = !step;
      moved |= step.value_or(true);
      if (one.broken || one.reader->done()) continue;
      ++count;
      if (busy == nullptr) busy = one.reader.get();
    }
    if (busy == nullptr) return true;
    if (moved) continue;
    const env::Nanos now = env::monotonic_now();
    if (now >= deadline) return false;
    busy->wait(count == 1 ? deadline : std::min(deadline, now + kTurn));
  }
}

}  // namespace

bool ReadableDisks::Known::usable() const noexcept {
  return disk && (!disk->remote || disk->remote->state() == RemoteDisk::State::kReady);
}

bool ReadableDisks::Known::opening() const noexcept {
  return disk && disk->remote && disk->remote->state() == RemoteDisk::State::kOpening;
}

std::shared_ptr<const ReadableDisk> ReadableDisks::open(const DiskName& name) {
  auto disk = std::make_shared<ReadableDisk>();
  if (name.is_remote()) {
    disk->remote = RemoteDisk::open(name.path, name.id);
    return disk;
  }
  fileio::FileOptions options;
  options.read = true;
  auto file = fileio::File::open(name.path, options);
  if (!file || file->identity() != name.identity) return nullptr;
  disk->file = std::make_shared<const fileio::File>(std::move(*file));
  return disk;
}

std::shared_ptr<const ReadableDisk> ReadableDisks::find(const DiskName& name) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& one) {
    return one.name.path == name.path && one.name.identity == name.identity &&
           one.name.id == name.id;
  });
  if (known != known_.end()) {
    known->name.number = name.number;
    return known->usable() ? known->disk : nullptr;
  }
  if (known_.size() >= kDisksMax) return nullptr;
  Known& made = known_.emplace_back();
  made.name = name;
  made.disk = open(name);
  count_.store(known_.size(), std::memory_order_relaxed);
  return made.usable() ? made.disk : nullptr;
}

std::vector<std::uint32_t> ReadableDisks::not_wanted() {
  std::vector<std::uint32_t> numbers;
  if (count_.load(std::memory_order_relaxed) == 0) return numbers;
  std::vector<Known> forgotten;  // goes after the lock: that may take a while
  const std::lock_guard lock(mutex_);
  const env::Nanos now = env::monotonic_now();
  for (std::size_t i = 0; i < known_.size();) {
    Known& one = known_[i];
    if (!one.usable() && !one.opening()) {
      if (one.retry_at == 0) one.retry_at = now + retry_after_;
      if (now >= one.retry_at) {
        forgotten.push_back(std::move(one));
        known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
    }
    if (!one.usable()) numbers.push_back(one.name.number);
    ++i;
  }
  count_.store(known_.size(), std::memory_order_relaxed);
  return numbers;
}

void ReadableDisks::clear() {
  std::vector<Known> forgotten;
  const std::lock_guard lock(mutex_);
  forgotten.swap(known_);
  count_.store(0, std::memory_order_relaxed);
}

// ---- reading ----

void ReadableDisks::read(std::span<DiskRead> reads, qos::Purpose purpose, env::Nanos deadline) {
  std::uint64_t bytes = 0;
  for (const DiskRead& one : reads) bytes += one.bytes;
  std::vector<Lent> lent = lend(reads);
  for (Lent& one : lent) one.reader->begin(std::move(one.reads), bytes >= kLarge, purpose);
  const bool ended = run(lent, deadline);
  for (Lent& one : lent) {
    if (!ended || one.broken) one.reader->let_go();
    give_back(std::move(one));
  }
}

// Reads of a disk without a reader are left out.
std::vector<ReadableDisks::Lent> ReadableDisks::lend(std::span<DiskRead> reads) {
  std::vector<Lent> lent;
  for (DiskRead& read : reads) {
    auto found = std::find_if(lent.begin(), lent.end(), [&](const Lent& one) {
      return read.disk->remote ? one.disk->remote == read.disk->remote : one.disk->file != nullptr;
    });
    if (found == lent.end()) {
      lent.push_back({reader_of(*read.disk), read.disk, {}, false});
      found = lent.end() - 1;
    }
    found->reads.push_back(&read);
  }
  std::erase_if(lent, [](const Lent& one) { return !one.reader; });
  return lent;
}

// Null: the disk was forgotten.
ReadableDisks::Readers* ReadableDisks::idle_of(const ReadableDisk& disk) {
  if (disk.file) return &idle_;
  const auto known = std::find_if(known_.begin(), known_.end(),
                                  [&](const Known& one) { return one.disk.get() == &disk; });
  return known == known_.end() ? nullptr : &known->idle;
}

std::unique_ptr<DiskReader> ReadableDisks::reader_of(const ReadableDisk& disk) {
  {
    const std::lock_guard lock(mutex_);
    Readers* const idle = idle_of(disk);
    if (idle != nullptr && !idle->empty()) {
      auto reader = std::move(idle->back());
      idle->pop_back();
      return reader;
    }
  }
  auto queue = disk.remote ? disk.remote->queue() : ring_for_files();
  if (!queue) return nullptr;
  auto reader = std::make_unique<DiskReader>(std::move(*queue));
  if (disk.remote) return reader;
  const std::lock_guard lock(mutex_);
  for (const std::span<std::byte> memory : buffers_) reader->add_buffer(memory);
  of_files_.push_back(reader.get());
  return reader;
}

// One that is not kept goes with `lent`, after the lock: a queue says goodbye to its target.
void ReadableDisks::give_back(Lent lent) {
  const std::lock_guard lock(mutex_);
  Readers* const idle = idle_of(*lent.disk);
  if (!lent.broken && idle != nullptr && idle->size() < kReadersKept) {
    return idle->push_back(std::move(lent.reader));
  }
  if (lent.disk->file) std::erase(of_files_, lent.reader.get());
}

void ReadableDisks::add_buffer(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  buffers_.push_back(memory);
  for (DiskReader* reader : of_files_) reader->add_buffer(memory);
}

void ReadableDisks::remove_buffer(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  std::erase_if(buffers_, [&](std::span<std::byte> one) {
    return one.data() == memory.data() && one.size() == memory.size();
  });
  for (DiskReader* reader : of_files_) reader->remove_buffer(memory);
}

}  // namespace larder::client
