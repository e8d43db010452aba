// SPDX-License-Identifier: Apache-2.0
#include "client/disk_reader.h"

#include <algorithm>
#include <cstring>

#include "client/readable_disks.h"
#include "obs/log.h"

namespace larder::client {
namespace {

// Parts of one value are read side by side, and the first are digested while the last are on their
// way. Smaller ones than these cost more than they win (virtio disk, medians of 1,000 gets taken in
// turn: 256 KiB and 1 MiB for a single 1 MiB value 2 to 5 % slower; 256 KiB in batches 5 to 10 %).
constexpr std::uint64_t kPartOfFew = 512U << 10U;
constexpr std::uint64_t kPartOfMany = 1U << 20U;

std::uint64_t whole_blocks(std::uint64_t bytes, std::uint64_t block) {
  return bytes / block * block;
}

}  // namespace

void DiskReader::begin(std::vector<DiskRead*> reads, bool large, qos::Purpose purpose) {
  reset();
  purpose_ = purpose;
  reads_ = std::move(reads);
  limits_ = queue_->limits();
  bounces_.reset(limits_.block_bytes);
  part_bytes_ = large ? kPartOfMany : kPartOfFew;
  for (std::uint32_t i = 0; i < reads_.size(); ++i) {
    const std::size_t parts = parts_.size();
    const std::size_t segments = segments_.size();
    Progress& progress = progress_.emplace_back();
    progress.next = static_cast<std::uint32_t>(parts);
    if (!cut(i)) {
      parts_.resize(parts);
      segments_.resize(segments);
      pieces_.resize(segments);
    }
    progress.end = static_cast<std::uint32_t>(parts_.size());
  }
}

void DiskReader::reset() {
  parts_.clear();
  segments_.clear();
  pieces_.clear();
  ready_.clear();
  progress_.clear();
  submitted_ = digested_ = 0;
}

// A part lies in one extent, and has as many segments as the queue takes. False: not to be read
// here.
bool DiskReader::cut(std::uint32_t number) {
  const DiskRead& read = *reads_[number];
  Cursor cursor;
  std::uint64_t left = read.bytes;
  for (const DiskExtent& extent : read.extents) {
    if (extent.offset % limits_.block_bytes != 0) return false;
    for (std::uint64_t at = 0; at < extent.bytes && left > 0;) {
      Part part{number, static_cast<std::uint32_t>(segments_.size()), 0, extent.offset + at, false};
      const std::uint64_t bytes =
          cut_part(read, cursor, part, std::min({extent.bytes - at, left, part_bytes_}));
      if (bytes == 0) return false;
      parts_.push_back(part);
      at += bytes;
      left -= bytes;
    }
  }
  return true;
}

// How many of `bytes` it has; 0: there is no room for what begins or ends within a block.
std::uint64_t DiskReader::cut_part(const DiskRead& read, Cursor& cursor, Part& part,
                                   std::uint64_t bytes) {
  std::uint64_t done = 0;
  for (; done < bytes && part.segments < limits_.pieces_max; ++part.segments) {
    const std::uint64_t more = add_segment(read, cursor, bytes - done);
    if (more == 0) return 0;
    done += more;
  }
  return done;
}

std::uint64_t DiskReader::add_segment(const DiskRead& read, Cursor& cursor, std::uint64_t bytes) {
  while (cursor.at == read.into[cursor.piece].size()) cursor = {cursor.piece + 1, 0};
  const MutableBytes piece = read.into[cursor.piece];
  Segment segment;
  segment.piece = cursor.piece;
  segment.piece_at = cursor.at;
  const auto straight = static_cast<std::size_t>(
      whole_blocks(std::min<std::uint64_t>(bytes, piece.size() - cursor.at), limits_.block_bytes));
  if (straight > 0) {
    segment.value = piece.subspan(cursor.at, straight);
    pieces_.push_back({segment.value.data(), straight});
    cursor.at += straight;
  } else {
    const std::span<std::byte> bounce = bounces_.take();
    if (bounce.empty()) return 0;
    pieces_.push_back({bounce.data(), bounce.size()});
    segment.bounced = true;
    segment.value =
        bounce.first(static_cast<std::size_t>(std::min<std::uint64_t>(bounce.size(), bytes)));
    for (std::size_t left = segment.value.size(); left > 0;) {
      if (cursor.at == read.into[cursor.piece].size()) cursor = {cursor.piece + 1, 0};
      const std::size_t here = std::min(left, read.into[cursor.piece].size() - cursor.at);
      cursor.at += here;
      left -= here;
    }
  }
  segments_.push_back(segment);
  return segment.value.size();
}

Result<void> DiskReader::submit() {
  for (; submitted_ < parts_.size() && in_flight_ < PartQueue::kDepth; ++submitted_) {
    const Part& part = parts_[submitted_];
    PartOp op;
    op.file = reads_[part.read]->disk->file.get();
    op.offset = part.offset;
    op.into = std::span(pieces_).subspan(part.segment, part.segments);
    op.tag = submitted_;
    op.purpose = purpose_;
    const Result<void> taken = queue_->submit(op);
    if (taken) {
      ++in_flight_;
    } else if (taken.error().code() == Code::kUnavailable) {
      return taken;
    } else {
      arrived(static_cast<std::uint32_t>(submitted_), false);
    }
  }
  queue_->start();
  return {};
}

void DiskReader::arrived(std::uint32_t number, bool ok) {
  Part& part = parts_[number];
  Progress& progress = progress_[part.read];
  part.there = true;
  progress.failed |= !ok;
  if (progress.next == number) ready_.push_back(part.read);
}

void DiskReader::take(std::size_t count) {
  in_flight_ -= count;
  for (std::size_t i = 0; i < count; ++i) {
    arrived(static_cast<std::uint32_t>(done_[i].tag), done_[i].ok);
  }
}

void DiskReader::copy_out(const Segment& segment, const DiskRead& read) {
  std::size_t piece = segment.piece;
  std::size_t at = segment.piece_at;
  for (std::span<const std::byte> left = segment.value; !left.empty(); ++piece, at = 0) {
    const std::size_t here = std::min(left.size(), read.into[piece].size() - at);
    if (here > 0) std::memcpy(read.into[piece].data() + at, left.data(), here);
    left = left.subspan(here);
  }
}

void DiskReader::digest(Progress& progress, const Part& part, DiskRead& read) {
  const auto segments = std::span(segments_).subspan(part.segment, part.segments);
  for (const Segment& segment : segments) {
    if (segment.bounced) copy_out(segment, read);
  }
  if (segments.front().value.size() == read.bytes) {
    read.good = checksum64(segments.front().value) == read.checksum;
    return;
  }
  if (!progress.sum) {
    if (sums_.empty()) sums_.push_back(std::make_unique<Checksum64>());
    progress.sum = std::move(sums_.back());
    sums_.pop_back();
    progress.sum->reset();
  }
  for (const Segment& segment : segments) progress.sum->update(segment.value);
  if (progress.next < progress.end) return;
  read.good = progress.sum->digest() == read.checksum;
  sums_.push_back(std::move(progress.sum));
}

// Values in the order in which they come, each from its front. False: none is there.
bool DiskReader::digest_one() {
  if (ready_.empty()) return false;
  const std::uint32_t number = ready_.back();
  ready_.pop_back();
  Progress& progress = progress_[number];
  const Part& part = parts_[progress.next++];
  ++digested_;
  if (progress.next < progress.end && parts_[progress.next].there) ready_.push_back(number);
  digest(progress, part, *reads_[number]);
  if (progress.next == progress.end && progress.failed) reads_[number]->good = false;
  return true;
}

Result<bool> DiskReader::step() {
  LARDER_TRY(submit());
  take(queue_->poll(done_));
  return digest_one();
}

void DiskReader::wait(env::Nanos deadline) {
  if (in_flight_ > 0) take(queue_->wait(done_, deadline));
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
  reset();
}

}  // namespace larder::client
