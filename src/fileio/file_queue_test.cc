// SPDX-License-Identifier: Apache-2.0
// FileQueue over a scripted backend: what reaches the kernel, in which order, and what its answers
// lead to. What happens on real files is in file_queue_property_test.cc.
#include "fileio/file_queue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fileio/fileio_testing.h"
#include "obs/log.h"

namespace larder::fileio {
namespace {

constexpr std::uint32_t kPiece = 64U << 10U;

class FileQueueTest : public testing::Test {
 protected:
  void make(std::size_t depth, std::size_t ops_max = 64) {
    auto backend = std::make_unique<ScriptBackend>(depth);
    script_ = backend.get();
    queue_ = make_queue(std::move(backend), {.ops_max = ops_max, .piece_bytes = kPiece});
  }
  FileOp read(std::uint64_t offset, std::uint64_t bytes, std::uint64_t tag) {
    return FileOp::read(file_, offset, memory_.span().subspan(0, bytes), tag);
  }
  std::vector<FileDone> poll() {
    std::vector<FileDone> done(16);
    done.resize(queue_->poll(done));
    return done;
  }
  // The one operation that has ended.
  FileDone ended() {
    const auto done = poll();
    EXPECT_EQ(done.size(), 1U);
    return done.empty() ? FileDone{} : done.front();
  }

  env::TempDirectory directory_ = make_directory();
  File file_ = open_file(directory_.file("file"), read_write(1U << 20U, Direct::kNo));
  PagedBuffer memory_{1U << 20U};
  ScriptBackend* script_ = nullptr;
  std::unique_ptr<FileQueue> queue_;
};

TEST_F(FileQueueTest, RefusesOptionsThatMakeNoSense) {
  const auto refused = [](std::unique_ptr<IoBackend> backend, const FileQueueOptions& options) {
    const auto made = FileQueue::create(std::move(backend), options);
    return !made && made.error().code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused(nullptr, {}));
  EXPECT_TRUE(refused(make_pool(1, 0), {.ops_max = 0}));
  EXPECT_TRUE(refused(make_pool(1, 0), {.ops_max = 1U << 20U}));
  EXPECT_TRUE(refused(make_pool(1, 0), {.piece_bytes = 100000}));
  EXPECT_TRUE(refused(make_pool(1, 0), {.piece_bytes = 4096}));
  EXPECT_TRUE(refused(make_pool(1, 0), {.bounces = 0}));
}

TEST_F(FileQueueTest, RefusesOperationsThatCannotWork) {
  make(4);
  const auto code = [this](const FileOp& op) {
    const auto submitted = queue_->submit(op);
    return submitted ? Code::kOk : submitted.error().code();
  };
  const File reader = open_file(file_.path(), {});
  const File writer = open_file(file_.path(), {.read = false, .write = true});
  EXPECT_EQ(code(FileOp{}), Code::kInvalidArgument);
  EXPECT_EQ(code(read(0, 0, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(FileOp::write(reader, 0, memory_.span(), 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(FileOp::read(writer, 0, memory_.span(), 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(read(1ULL << 63U, 10, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(read(~0ULL, 10, 1)), Code::kInvalidArgument);
  FileOp op = read(0, 1, 1);
  op.bytes = kFileOpBytesMax + 1;
  EXPECT_EQ(code(op), Code::kTooLarge);
  op.bytes = 1;
  op.memory = nullptr;
  EXPECT_EQ(code(op), Code::kInvalidArgument);
  EXPECT_EQ(queue_->stats().ops, 0U);
}

TEST_F(FileQueueTest, SaysWhenItIsFull) {
  make(1, 2);
  EXPECT_EQ(queue_->room(), 2U);
  ASSERT_TRUE(queue_->submit(read(0, 1, 1)));
  ASSERT_TRUE(queue_->submit(read(0, 1, 2)));
  EXPECT_EQ(queue_->room(), 0U);
  const auto full = queue_->submit(read(0, 1, 3));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), Code::kBackpressure);
  poll();
  script_->complete(0, 1);
  // An operation that has ended makes room when its result is taken.
  EXPECT_EQ(queue_->poll({}), 0U);
  EXPECT_FALSE(queue_->submit(read(0, 1, 3)));
  EXPECT_EQ(ended().tag, 1U);
  EXPECT_TRUE(queue_->submit(read(0, 1, 3)));
}

TEST_F(FileQueueTest, AWakeThatComesWithAStrayCompletionIsNotLost) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(0, 1, 1)));
  int waits = 0;
  script_->on_wait = [&] {
    // The backend's own wake() is over with its wait(); another would sleep.
    if (++waits > 1) return;
    queue_->wake();
    script_->ready.push_back({~0ULL >> 1U, 1});
  };
  FileDone done;
  EXPECT_EQ(queue_->wait({&done, 1}, kNoDeadline), 0U);
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(queue_->stats().stray_completions, 1U);
  // It is used up.
  EXPECT_EQ(queue_->wait({&done, 1}, kNoDeadline), 0U);
  EXPECT_EQ(waits, 2);
}

TEST_F(FileQueueTest, NeverHasMoreInTheBackendThanItsDepth) {
  make(3);
  ASSERT_TRUE(queue_->submit(read(0, 10 * kPiece, 1)));
  poll();
  EXPECT_EQ(script_->pending.size(), 3U);
  EXPECT_EQ(queue_->stats().pieces_in_flight, 3U);
  script_->complete(0, kPiece);
  poll();
  EXPECT_EQ(script_->pending.size(), 3U);
}

TEST_F(FileQueueTest, ALargeOperationDoesNotKeepASmallOneWaiting) {
  make(4);
  ASSERT_TRUE(queue_->submit(read(0, 16 * kPiece, 1)));
  poll();
  ASSERT_TRUE(queue_->submit(read(0, 100, 2)));
  ASSERT_TRUE(queue_->submit(read(0, 100, 3)));
  script_->complete(0, kPiece);
  script_->complete(0, kPiece);
  script_->complete(0, kPiece);
  poll();  // the three places go to the three operations
  std::vector<std::uint32_t> sizes;
  for (const IoOp& op : script_->pending) sizes.push_back(op.bytes);
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 100U), 2);
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), kPiece), 2);
}

TEST_F(FileQueueTest, ResumesAfterShortTransfers) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(1000, 500, 1)));
  poll();
  script_->complete(0, 100);
  poll();
  ASSERT_EQ(script_->pending.size(), 1U);
  EXPECT_EQ(script_->pending[0].offset, 1100U);
  EXPECT_EQ(script_->pending[0].bytes, 400U);
  EXPECT_EQ(script_->pending[0].memory, memory_.data() + 100);
  script_->complete(0, 400);
  const FileDone done = ended();
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(done.bytes, 500U);
  EXPECT_EQ(queue_->stats().resumed_shorts, 1U);
}

TEST_F(FileQueueTest, IgnoresCompletionsThatBelongToNothing) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(0, 500, 1)));
  poll();
  const std::uint64_t first = script_->pending[0].tag;
  script_->complete(0, 100);
  poll();
  // The first transfer is reported again while the second, in the same place, runs.
  script_->ready = {{first, 400}, {first, 100}, {first + 1, 7}, {12345678, 1}, {~1ULL, -5}};
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(queue_->stats().stray_completions, 5U);
  const std::uint64_t second = script_->pending[0].tag;
  script_->complete(0, 400);
  EXPECT_TRUE(ended().ok());
  // And after the end, and with another operation in its place.
  ASSERT_TRUE(queue_->submit(read(0, 400, 2)));
  poll();
  script_->ready = {{second, 400}};
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(queue_->stats().stray_completions, 6U);
  script_->complete_all();
  EXPECT_TRUE(ended().ok());
}

TEST_F(FileQueueTest, RetriesForAWhileOnly) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(0, 500, 1)));
  poll();
  int tries = 0;
  while (!script_->pending.empty() && tries < 1000) {
    script_->complete(0, ++tries % 2 == 0 ? -EAGAIN : -EINTR);
    queue_->poll({});
  }
  EXPECT_GT(tries, 3);
  EXPECT_LT(tries, 100);
  const FileDone done = ended();
  EXPECT_EQ(done.code, Code::kBackpressure);
  EXPECT_NE(describe(done).message().find(file_.path()), std::string::npos);
}

TEST_F(FileQueueTest, GivesUpAWriteThatMovesNothing) {
  make(1);
  ASSERT_TRUE(queue_->submit(FileOp::write(file_, 0, memory_.span().first(100), 1)));
  poll();
  int tries = 0;
  while (!script_->pending.empty() && ++tries < 1000) {
    script_->complete(0, 0);
    queue_->poll({});
  }
  EXPECT_LT(tries, 100);
  EXPECT_EQ(ended().code, Code::kUnavailable);
}

TEST_F(FileQueueTest, SaysWhereAFileEnded) {
  make(2);
  ASSERT_EQ(::ftruncate(file_.fd(), 1060), 0);
  ASSERT_TRUE(queue_->submit(read(1000, 500, 1)));
  poll();
  script_->complete(0, 60);
  poll();
  script_->complete(0, 0);
  const FileDone done = ended();
  EXPECT_EQ(done.code, Code::kConflict);
  EXPECT_EQ(done.position, 1060U);
  EXPECT_EQ(done.bytes, 0U);
  EXPECT_EQ(describe(done).message(), file_.path() + " ends at 1060 (truncated while in use?)");
}

TEST_F(FileQueueTest, AnErrorWaitsForTheOtherPiecesAndStopsTheRest) {
  make(3);
  ASSERT_TRUE(queue_->submit(read(0, 10 * kPiece, 1)));
  poll();
  script_->complete(1, -EIO);
  EXPECT_TRUE(poll().empty()) << "two pieces may still write";
  ASSERT_EQ(script_->pending.size(), 2U);
  script_->complete(0, kPiece);
  EXPECT_TRUE(poll().empty());
  script_->complete(0, 10);  // short: not resumed
  const FileDone done = ended();
  EXPECT_EQ(done.code, Code::kUnavailable);
  EXPECT_EQ(done.sys_errno, EIO);
  EXPECT_EQ(done.position, kPiece);
  EXPECT_TRUE(script_->pending.empty());
}

TEST_F(FileQueueTest, CancelWaitsForWhatIsInFlight) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(0, 10 * kPiece, 7)));
  ASSERT_TRUE(queue_->submit(read(0, 1, 8)));
  ASSERT_TRUE(queue_->submit(read(0, 10 * kPiece, 9)));
  poll();
  EXPECT_EQ(queue_->cancel(5), 0U);
  EXPECT_EQ(queue_->cancel(9), 1U);  // nothing of it was handed over
  EXPECT_EQ(ended().tag, 9U);
  EXPECT_EQ(queue_->cancel(7), 1U);
  EXPECT_TRUE(poll().empty());
  script_->complete_all();
  auto done = poll();
  ASSERT_EQ(done.size(), 2U);
  for (const FileDone& d : done) EXPECT_EQ(d.code, d.tag == 7 ? Code::kCancelled : Code::kOk);
  EXPECT_EQ(queue_->cancel(7), 0U);
}

TEST_F(FileQueueTest, ACancelThatComesTooLateChangesNothing) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(0, 100, 1)));
  poll();
  EXPECT_EQ(queue_->cancel(1), 1U);
  script_->complete(0, 100);
  EXPECT_TRUE(ended().ok());
}

TEST_F(FileQueueTest, FlushesAreOperationsToo) {
  make(2);
  ASSERT_TRUE(queue_->submit(FileOp::flush(file_, 1)));
  poll();
  ASSERT_EQ(script_->pending.size(), 1U);
  EXPECT_EQ(script_->pending[0].kind, IoKind::kSync);
  script_->complete(0, 0);
  EXPECT_TRUE(ended().ok());
  ASSERT_TRUE(queue_->submit(FileOp::flush(file_, 2)));
  poll();
  script_->complete(0, -ENOSPC);
  const FileDone failed = ended();
  EXPECT_EQ(failed.code, Code::kExhausted);
  EXPECT_NE(describe(failed).message().find("make room"), std::string::npos);
  // Cancelled while it waits to be tried again: then it has not happened.
  ASSERT_TRUE(queue_->submit(FileOp::flush(file_, 3)));
  poll();
  queue_->cancel(3);
  script_->complete(0, -EAGAIN);
  EXPECT_EQ(ended().code, Code::kCancelled);
}

TEST_F(FileQueueTest, ADeadBackendEndsOperationsOnlyWhenItIsQuiet) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(0, 100, 1)));
  ASSERT_TRUE(queue_->submit(read(0, 10 * kPiece, 2)));
  poll();
  script_->dead = script_->restless = true;
  EXPECT_TRUE(poll().empty());
  EXPECT_FALSE(queue_->healthy());
  FileDone none;
  EXPECT_EQ(queue_->wait({&none, 1}, within(0)), 0U);
  EXPECT_FALSE(queue_->drain(within(0)));
  EXPECT_FALSE(queue_->quiesce(within(0)));
  script_->restless = false;
  const auto done = poll();
  ASSERT_EQ(done.size(), 2U);
  for (const FileDone& d : done) {
    EXPECT_EQ(d.code, Code::kUnavailable);
    EXPECT_NE(describe(d).message().find("use a new queue"), std::string::npos);
  }
  const auto refused = queue_->submit(read(0, 1, 3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_NE(refused.error().message().find("scripted death"), std::string::npos);
}

TEST_F(FileQueueTest, AnAnswerOfTooManyBytesIsTheEndOfTheBackend) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(0, 100, 1)));
  poll();
  script_->complete(0, 101);
  const FileDone done = ended();
  EXPECT_EQ(done.code, Code::kUnavailable);
  EXPECT_FALSE(queue_->healthy());
}

TEST_F(FileQueueTest, QuiesceEndsWhatIsLostAndTheQueueGoesOn) {
  make(2);
  ASSERT_TRUE(queue_->submit(read(0, 10 * kPiece, 1)));
  ASSERT_TRUE(queue_->submit(read(0, 100, 2)));
  poll();
  script_->restless = true;
  EXPECT_FALSE(queue_->quiesce(within(0)));
  EXPECT_TRUE(poll().empty());
  script_->restless = false;
  script_->complete(1, 100);
  script_->pending.clear();  // the other is never heard of again
  EXPECT_TRUE(queue_->quiesce(within(0)));
  const auto done = poll();
  ASSERT_EQ(done.size(), 2U);
  for (const FileDone& d : done) EXPECT_EQ(d.code, d.tag == 1 ? Code::kUnavailable : Code::kOk);
  EXPECT_EQ(queue_->stats().lost_completions, 1U);
  ASSERT_TRUE(queue_->submit(read(0, 100, 3)));
  poll();
  script_->complete_all();
  EXPECT_TRUE(ended().ok());
}

TEST_F(FileQueueTest, LeavesItsMemoryToABackendThatDoesNotRest) {
  std::string log;
  obs::configure_log({.sink = [&log](std::string_view line) { log += line; }});
  auto backend = std::make_unique<ScriptBackend>(2);
  const std::unique_ptr<ScriptBackend> left_over(backend.get());
  left_over->restless = true;
  queue_ = make_queue(std::move(backend), {.close_grace = 0});
  ASSERT_TRUE(queue_->submit(read(0, 100, 1)));
  poll();
  queue_.reset();
  obs::configure_log({});
  EXPECT_NE(log.find("file_queue_leaked"), std::string::npos) << log;
}

TEST_F(FileQueueTest, TellsOperationsOfAnyNumberApart) {
  make(8);
  for (std::uint64_t tag = 0; tag < 8; ++tag) ASSERT_TRUE(queue_->submit(read(tag, 1 + tag, tag)));
  poll();
  script_->complete(3, 4);
  script_->complete(0, 1);
  const auto done = poll();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].tag, 3U);
  EXPECT_EQ(done[0].offset, 3U);
  EXPECT_EQ(done[0].bytes, 4U);
  EXPECT_EQ(done[1].tag, 0U);
  EXPECT_EQ(queue_->stats().ops_in_flight, 6U);
}

TEST_F(FileQueueTest, WritesTheEdgesOfFilesByteForByte) {
  const File file = open_file(directory_.file("direct"), read_write(1U << 20U));
  if (!file.direct()) GTEST_SKIP() << "no O_DIRECT in " << directory_.path();
  make(8);
  const std::uint64_t unit = file.write_unit();
  const auto from = memory_.span().subspan(unit - 10, unit + 30);
  ASSERT_TRUE(queue_->submit(FileOp::write(file, unit - 10, from, 1)));
  poll();
  // Nobody's neighbours are written: other queues and processes may write those meanwhile.
  ASSERT_EQ(script_->pending.size(), 3U);
  const IoOp& head = script_->pending[0];
  const IoOp& middle = script_->pending[1];
  const IoOp& tail = script_->pending[2];
  EXPECT_EQ(head.fd, file.buffered_fd());
  EXPECT_EQ(head.offset, unit - 10);
  EXPECT_EQ(head.bytes, 10U);
  EXPECT_EQ(middle.fd, file.fd());
  EXPECT_EQ(middle.offset, unit);
  EXPECT_EQ(middle.bytes, unit);
  EXPECT_EQ(middle.memory, from.data() + 10);
  EXPECT_EQ(tail.fd, file.buffered_fd());
  EXPECT_EQ(tail.offset, 2 * unit);
  EXPECT_EQ(tail.bytes, 20U);
  script_->complete_all();
  EXPECT_TRUE(ended().ok());
  EXPECT_EQ(queue_->stats().bytes_bounced, 0U);
}

TEST_F(FileQueueTest, RewritesOfOneBlockTakeTurns) {
  FileOptions options = read_write(1U << 20U);
  options.edge_writes = EdgeWrites::kRewrite;
  const File file = open_file(directory_.file("direct"), options);
  if (!file.direct()) GTEST_SKIP() << "no O_DIRECT in " << directory_.path();
  make(8);
  const auto span = memory_.span();
  ASSERT_TRUE(queue_->submit(FileOp::write(file, 10, span.subspan(10, 10), 1)));
  ASSERT_TRUE(queue_->submit(FileOp::write(file, 50, span.subspan(50, 10), 2)));
  ASSERT_TRUE(queue_->submit(FileOp::write(file, 100000, span.subspan(0, 10), 3)));
  poll();
  ASSERT_EQ(script_->pending.size(), 2U) << "the second waits for the first";
  EXPECT_EQ(script_->pending[0].kind, IoKind::kRead);
  EXPECT_EQ(script_->pending[0].offset, 0U);
  EXPECT_EQ(script_->pending[0].bytes, file.write_unit());
  script_->complete(0, file.write_unit());
  poll();
  EXPECT_EQ(script_->pending.back().kind, IoKind::kWrite);
  script_->complete(1, file.write_unit());
  EXPECT_EQ(ended().tag, 1U);
  EXPECT_EQ(script_->pending.back().offset, 0U);
  EXPECT_EQ(script_->pending.back().kind, IoKind::kRead);
  EXPECT_GT(queue_->stats().edge_waits, 0U);
}

}  // namespace
}  // namespace larder::fileio
