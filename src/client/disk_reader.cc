// SPDX-License-Identifier: Apache-2.0
#include "client/disk_reader.h"

#include <algorithm>

#include "fileio/best_backend.h"
#include "obs/log.h"

namespace larder::client {
namespace {

constexpr std::size_t kDepth = 32;
// Parts of one value are read side by side, and the first are digested while the last are on their
// way. Smaller ones than these cost more than they win (virtio disk, medians of 1,000 gets taken in
// turn: 256 KiB and 1 MiB for a single 1 MiB value 2 to 5 % slower; 256 KiB in batches 5 to 10 %).
constexpr std::uint64_t kPartOfFew = 512U << 10U;
constexpr std::uint64_t kPartOfMany = 1U << 20U;
constexpr std::uint64_t kMany = 4U << 20U;

}  // namespace

Result<std::unique_ptr<DiskReader>> DiskReader::create() {
  LARDER_ASSIGN(auto backend, fileio::best_backend(kDepth));
  fileio::FileQueueOptions options;
  options.ops_max = kDepth;
  LARDER_ASSIGN(auto queue, fileio::FileQueue::create(std::move(backend), options));
  std::unique_ptr<DiskReader> reader(new DiskReader(std::move(queue)));
  reader->done_.resize(kDepth);
  return reader;
}

// A part lies in one extent and in one piece of the destination.
void DiskReader::cut(std::uint32_t number, const DiskRead& read) {
  std::size_t piece = 0;
  std::size_t piece_at = 0;
  std::uint64_t left = read.bytes;
  for (const DiskExtent& extent : read.extents) {
    for (std::uint64_t at = 0; at < extent.bytes && left > 0;) {
      while (piece_at == read.into[piece].size()) {
        ++piece;
        piece_at = 0;
      }
      const std::uint64_t bytes = std::min({extent.bytes - at, left, part_bytes_,
                                            std::uint64_t{read.into[piece].size() - piece_at}});
      parts_.push_back({number, extent.offset + at,
                        read.into[piece].subspan(piece_at, static_cast<std::size_t>(bytes)),
                        false});
      piece_at += static_cast<std::size_t>(bytes);
      at += bytes;
      left -= bytes;
    }
  }
}

Result<void> DiskReader::submit(std::span<DiskRead> reads) {
  for (; submitted_ < parts_.size() && in_flight_ < kDepth; ++submitted_) {
    const Part& part = parts_[submitted_];
    LARDER_TRY(queue_->submit(
        fileio::FileOp::read(*reads[part.read].file, part.offset, part.memory, submitted_)));
    ++in_flight_;
  }
  queue_->start();
  return {};
}

void DiskReader::take(std::size_t count) {
  in_flight_ -= count;
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint32_t>(done_[i].tag);
    Part& part = parts_[number];
    Progress& progress = progress_[part.read];
    part.there = true;
    progress.failed |= !done_[i].ok();
    if (progress.next == number) ready_.push_back(part.read);
  }
}

void DiskReader::digest(Progress& progress, const Part& part, DiskRead& read) {
  if (part.memory.size() == read.bytes) {
    read.good = checksum64(part.memory) == read.checksum;
    return;
  }
  if (!progress.sum) {
    if (sums_.empty()) sums_.push_back(std::make_unique<Checksum64>());
    progress.sum = std::move(sums_.back());
    sums_.pop_back();
    progress.sum->reset();
  }
  progress.sum->update(part.memory);
  if (progress.next < progress.end) return;
  read.good = progress.sum->digest() == read.checksum;
  sums_.push_back(std::move(progress.sum));
}

// Values in the order in which they come, each from its front. False: none is there.
bool DiskReader::digest_one(std::span<DiskRead> reads) {
  if (ready_.empty()) return false;
  const std::uint32_t number = ready_.back();
  ready_.pop_back();
  Progress& progress = progress_[number];
  const Part& part = parts_[progress.next++];
  ++digested_;
  if (progress.next < progress.end && parts_[progress.next].there) ready_.push_back(number);
  digest(progress, part, reads[number]);
  if (progress.next == progress.end && progress.failed) reads[number].good = false;
  return true;
}

Result<void> DiskReader::read(std::span<DiskRead> reads, env::Nanos deadline) {
  parts_.clear();
  ready_.clear();
  progress_.clear();
  submitted_ = digested_ = 0;
  std::uint64_t all = 0;
  for (const DiskRead& one : reads) all += one.bytes;
  part_bytes_ = all < kMany ? kPartOfFew : kPartOfMany;
  for (std::uint32_t i = 0; i < reads.size(); ++i) {
    Progress& progress = progress_.emplace_back();
    progress.next = static_cast<std::uint32_t>(parts_.size());
    cut(i, reads[i]);
    progress.end = static_cast<std::uint32_t>(parts_.size());
  }
  while (digested_ < parts_.size()) {
    if (const Result<void> taken = submit(reads); !taken) {
      let_go();
      return fail(Code::kUnavailable, taken.error().message());
    }
    take(queue_->poll(done_));
    if (digest_one(reads)) continue;
    if (env::monotonic_now() >= deadline) {
      let_go();
      return fail(Code::kDeadlineExceeded, "the disk did not answer in time");
    }
    take(queue_->wait(done_, deadline));
  }
  return {};
}

void DiskReader::let_go() {
  while (!queue_->quiesce(env::monotonic_now() + env::kSecond)) {
    obs::log(obs::Level::kWarn, "disk_does_not_answer",
             {{"action", "a get waits until its reads have ended"}});
  }
  for (std::size_t count = 1; count > 0;) {
    count = queue_->poll(done_);
    in_flight_ -= count;
  }
}

std::shared_ptr<const fileio::File> DiskFiles::find(const std::string& path,
                                                    fileio::FileIdentity identity) {
  const std::lock_guard lock(mutex_);
  for (const Known& known : files_) {
    if (known.path == path && known.identity == identity) return known.file;
  }
  if (files_.size() >= kFilesMax) return {};
  Known known{path, identity, nullptr};
  fileio::FileOptions options;
  options.read = true;
  if (auto file = fileio::File::open(path, options); file && file->identity() == identity) {
    known.file = std::make_shared<const fileio::File>(std::move(*file));
  }
  files_.push_back(known);
  if (!known.file) barred_.store(true, std::memory_order_relaxed);
  return known.file;
}

void DiskFiles::clear() {
  const std::lock_guard lock(mutex_);
  files_.clear();
  barred_.store(false, std::memory_order_relaxed);
}

Result<std::unique_ptr<DiskReader>> DiskFiles::borrow() {
  const std::lock_guard lock(mutex_);
  if (!idle_.empty()) {
    auto reader = std::move(idle_.back());
    idle_.pop_back();
    return reader;
  }
  LARDER_ASSIGN(auto reader, DiskReader::create());
  for (const std::span<std::byte> memory : buffers_) reader->add_buffer(memory);
  readers_.push_back(reader.get());
  return reader;
}

void DiskFiles::give_back(std::unique_ptr<DiskReader> reader) {
  {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kReadersKept) return idle_.push_back(std::move(reader));
  }
  drop(std::move(reader));
}

void DiskFiles::drop(std::unique_ptr<DiskReader> reader) {
  const std::lock_guard lock(mutex_);
  std::erase(readers_, reader.get());
}

void DiskFiles::add_buffer(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  buffers_.push_back(memory);
  for (DiskReader* reader : readers_) reader->add_buffer(memory);
}

void DiskFiles::remove_buffer(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  std::erase_if(buffers_, [&](std::span<std::byte> one) {
    return one.data() == memory.data() && one.size() == memory.size();
  });
  for (DiskReader* reader : readers_) reader->remove_buffer(memory);
}

}  // namespace larder::client
