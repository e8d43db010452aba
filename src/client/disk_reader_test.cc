// SPDX-License-Identifier: Apache-2.0
#include "client/disk_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/checksum.h"
#include "block/blocking.h"
#include "block/fault_device.h"
#include "block/memory_device.h"
#include "client/readable_disks.h"

namespace larder::client {
namespace {

constexpr std::uint64_t kDisk = 8U << 20U;
constexpr std::size_t kGuard = 64;  // bytes around a destination that stay as they are
constexpr std::byte kUntouched{0xA5};

// A value on the disk, and where it is to go.
struct Planned {
  std::vector<std::byte> room;
  std::vector<MutableBytes> pieces;
  std::vector<std::byte> wanted;
  DiskRead read;
};

class DiskReaderTest : public testing::Test {
 protected:
  void make_disk(std::uint32_t block, const block::FaultOptions& faults = {}) {
    block::MemoryDeviceOptions options;
    options.bytes = kDisk;
    options.block_bytes = block;
    options.memory_alignment = 1;
    std::shared_ptr<block::BlockDevice> memory = block::MemoryDevice::create(options).value();
    auto writes = memory->open_queue(4).value();
    content_.resize(kDisk);
    for (std::byte& byte : content_) byte = static_cast<std::byte>(random_());
    block::Piece piece = block::Piece::from(content_);
    ASSERT_TRUE(writes->submit(block::BlockOp::write(0, {&piece, 1})));
    std::array<block::BlockDone, 1> done;
    ASSERT_EQ(writes->wait(done, block::kNoDeadline), 1U);
    ASSERT_TRUE(done[0].ok());
    writes.reset();
    device_ = block::FaultDevice::create(memory, faults).value();
    reader_ = std::make_unique<DiskReader>(queue_of_namespace(device_->open_queue(32).value()));
    disk_ = std::make_shared<const ReadableDisk>();
  }
  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  // In one to three extents, into up to `pieces` pieces of any length and alignment.
  Planned plan(std::uint32_t block, std::uint64_t bytes, std::size_t pieces) {
    Planned out;
    out.read.disk = disk_;
    out.read.bytes = bytes;
    for (std::uint64_t left = bytes; left > 0;) {
      const std::uint64_t blocks = (left + block - 1) / block;
      const std::uint64_t here = out.read.extents.size() == 2 ? blocks : 1 + below(blocks);
      const std::uint64_t offset = below(kDisk / block - here + 1) * block;
      out.read.extents.push_back({offset, here * block});
      const std::uint64_t valid = std::min(left, here * block);
      const auto from = content_.begin() + static_cast<std::ptrdiff_t>(offset);
      out.wanted.insert(out.wanted.end(), from, from + static_cast<std::ptrdiff_t>(valid));
      left -= valid;
    }
    out.read.checksum = checksum64(out.wanted);
    out.room.assign(bytes + 2 * kGuard, kUntouched);
    MutableBytes left = MutableBytes(out.room).subspan(kGuard - 3, bytes + 3).subspan(3);
    for (std::size_t i = 1; i < pieces; ++i) {
      const MutableBytes piece = left.first(below(left.size() + 1));
      out.pieces.push_back(piece);
      left = left.subspan(piece.size());
    }
    out.pieces.push_back(left);
    return out;
  }
  // In one extent, there.
  void put_at(Planned& one, std::uint64_t offset) {
    const std::uint64_t bytes = (one.read.bytes + 4095) / 4096 * 4096;
    one.read.extents = {{offset, bytes}};
    const auto from = content_.begin() + static_cast<std::ptrdiff_t>(offset);
    one.wanted.assign(from, from + static_cast<std::ptrdiff_t>(one.read.bytes));
    one.read.checksum = checksum64(one.wanted);
  }
  // Their memory stays where it is when they are moved.
  void run(std::vector<Planned>& all, bool large) {
    std::vector<DiskRead*> reads;
    for (Planned& one : all) {
      one.read.into = one.pieces;
      reads.push_back(&one.read);
    }
    reader_->begin(std::move(reads), large, {});
    while (!reader_->done()) {
      const auto step = reader_->step();
      ASSERT_TRUE(step) << step.error().to_string();
      if (!*step) reader_->wait(block::kNoDeadline);
    }
  }
  static void expect_right(const Planned& one) {
    ASSERT_TRUE(one.read.good);
    ASSERT_TRUE(std::equal(one.wanted.begin(), one.wanted.end(), one.room.begin() + kGuard));
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    ASSERT_TRUE(std::all_of(one.room.begin(), one.room.begin() + kGuard, untouched));
    ASSERT_TRUE(std::all_of(one.room.end() - kGuard, one.room.end(), untouched));
  }

  std::mt19937_64 random_{std::random_device()()};
  std::vector<std::byte> content_;
  std::shared_ptr<block::FaultDevice> device_;
  std::unique_ptr<DiskReader> reader_;
  std::shared_ptr<const ReadableDisk> disk_;
};

TEST_F(DiskReaderTest, ValuesOfAnyLengthIntoPiecesOfAnyLength) {
  const std::uint64_t seed = random_();
  random_.seed(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const std::uint32_t block : {512U, 4096U}) {
    make_disk(block);
    for (int round = 0; round < 40; ++round) {
      std::vector<Planned> all;
      for (std::uint64_t i = 0; i <= below(20); ++i) {
        const std::uint64_t bytes = 1 + below(round % 2 == 0 ? 3 * block : 1'500'000);
        all.push_back(plan(block, bytes, 1 + below(round % 3 == 0 ? 150 : 4)));
      }
      run(all, round % 4 == 0);
      for (const Planned& one : all) expect_right(one);
    }
  }
}

TEST_F(DiskReaderTest, WhatIsNotTheValueIsNotGood) {
  make_disk(4096);
  std::vector<Planned> all;
  for (std::uint64_t i = 0; i < 5; ++i) {
    all.push_back(plan(4096, 700'000, 1));
    put_at(all.back(), i << 20U);
  }
  all[1].read.checksum ^= 1;
  all[2].read.extents[0].offset += 512;                    // within a block
  all[3].read.extents = {{kDisk - 4096, 8192 + 700'000}};  // beyond the end
  ASSERT_TRUE(device_->flip_bit(all[4].read.extents[0].offset + 5, 3));
  run(all, false);
  expect_right(all[0]);
  for (const int i : {1, 2, 3, 4}) EXPECT_FALSE(all[static_cast<std::size_t>(i)].read.good) << i;
}

TEST_F(DiskReaderTest, AReadThatFailsIsNotGoodAndTheOthersAre) {
  make_disk(4096);
  std::vector<Planned> all;
  for (std::uint64_t i = 0; i < 3; ++i) {
    all.push_back(plan(4096, 8192, 1));
    put_at(all.back(), i * 8192);
  }
  device_->set_bad(8192 + 4096, 512);
  run(all, false);
  expect_right(all[0]);
  EXPECT_FALSE(all[1].read.good);
  expect_right(all[2]);
}

// More ends than there is memory for are for the node; the others are read.
TEST_F(DiskReaderTest, BounceMemoryIsBounded) {
  make_disk(4096);
  std::vector<Planned> all;
  constexpr std::size_t kFit = BounceBlocks::kBytesMax / 4096;
  for (std::size_t i = 0; i < kFit + 10; ++i) all.push_back(plan(4096, 100, 1));
  all.push_back(plan(4096, 4096, 1));  // needs none
  run(all, true);
  std::size_t good = 0;
  for (const Planned& one : all) good += one.read.good ? 1 : 0;
  EXPECT_EQ(good, kFit + 1);
  expect_right(all.back());
}

TEST_F(DiskReaderTest, ADiskThatHangsIsLetGoOnceItTouchesNothing) {
  make_disk(4096);
  std::vector<Planned> all;
  all.push_back(plan(4096, 1'000'000, 1));
  all[0].read.into = all[0].pieces;
  device_->stall();
  reader_->begin({&all[0].read}, false, {});
  const auto step = reader_->step();
  ASSERT_TRUE(step);
  EXPECT_FALSE(*step);
  reader_->wait(env::monotonic_now());
  EXPECT_FALSE(reader_->done());
  std::thread other([this] { device_->resume(); });
  reader_->let_go();
  other.join();
  EXPECT_FALSE(all[0].read.good);
  // It can be used again.
  std::vector<Planned> next;
  next.push_back(plan(4096, 5000, 2));
  run(next, false);
  expect_right(next[0]);
}

TEST_F(DiskReaderTest, ADeviceThatIsGoneSaysSo) {
  make_disk(4096);
  ASSERT_TRUE(device_->cut_power());
  std::vector<Planned> all;
  all.push_back(plan(4096, 1'000'000, 1));
  all[0].read.into = all[0].pieces;
  reader_->begin({&all[0].read}, false, {});
  const auto step = reader_->step();
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code(), Code::kUnavailable);
  reader_->let_go();
}

}  // namespace
}  // namespace larder::client
