// SPDX-License-Identifier: Apache-2.0
#include "transfer/batch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

const Error kError(Code::kUnavailable, "why");

// ---- tasks ----

TEST(Task, TheFirstOutcomeStays) {
  Task task;
  EXPECT_EQ(task.outcome(), Outcome::kPending);
  EXPECT_FALSE(task.quiescent());
  EXPECT_EQ(task.status().code, Code::kOk);
  EXPECT_TRUE(task.set_outcome(Outcome::kTimedOut, std::make_unique<Error>(kError)));
  EXPECT_FALSE(task.set_outcome(Outcome::kCompleted, nullptr));
  EXPECT_FALSE(task.set_outcome(Outcome::kTimedOut, nullptr));
  EXPECT_EQ(task.outcome(), Outcome::kTimedOut);
  EXPECT_FALSE(task.quiescent());
  task.set_quiescent();
  const TaskStatus status = task.status();
  EXPECT_TRUE(status.quiescent);
  EXPECT_EQ(status.outcome, Outcome::kTimedOut);
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.message, "why");
}

TEST(Task, BytesNeverGoDown) {
  Task task;
  task.raise_bytes(100);
  task.raise_bytes(20);
  EXPECT_EQ(task.status().bytes, 100U);
  task.raise_bytes(101);
  EXPECT_EQ(task.status().bytes, 101U);
}

TEST(Task, ResetIsLikeNew) {
  Task task;
  task.end(Outcome::kFailed, &kError);
  task.raise_bytes(5);
  task.set_transport(TransportType::kTcp);
  task.record.job.store(9);
  task.record.attempts.store(9);
  task.reset();
  const TaskStatus status = task.status();
  EXPECT_EQ(status.outcome, Outcome::kPending);
  EXPECT_FALSE(status.quiescent);
  EXPECT_EQ(status.code, Code::kOk);
  EXPECT_EQ(status.bytes, 0U);
  EXPECT_EQ(status.transport, TransportType::kUnspecified);
  EXPECT_EQ(status.message, "");
  EXPECT_EQ(task.record.job.load(), 0U);
  EXPECT_EQ(task.record.attempts.load(), 0U);
  EXPECT_TRUE(task.set_outcome(Outcome::kCompleted, nullptr));
}

// ---- ids ----

TEST(BatchTable, IdsAreOfOneBatchForEver) {
  BatchTable table(4);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const BatchId id = table.allocate(3).value();
    EXPECT_TRUE(seen.insert(id.value).second);
    EXPECT_EQ(table.find(id)->id(), id);
    EXPECT_EQ(table.live(), 1U);
    EXPECT_TRUE(table.free(id));
    EXPECT_FALSE(table.find(id));
    EXPECT_EQ(code_of(table.free(id)), Code::kNotFound);
    EXPECT_EQ(table.live(), 0U);
    EXPECT_EQ(table.kept(), 0U);
  }
}

TEST(BatchTable, NumbersThatAreNoIdsAreNotFound) {
  BatchTable table(1000);
  const BatchId id = table.allocate(1).value();
  for (const std::uint64_t number :
       {std::uint64_t{0}, ~std::uint64_t{0}, id.value + 1, id.value + 300, id.value + 5000,
        id.value + (std::uint64_t{1} << 32U), std::uint64_t{1} << 32U}) {
    EXPECT_FALSE(table.find({number})) << number;
    EXPECT_EQ(code_of(table.free({number})), Code::kNotFound) << number;
  }
  EXPECT_TRUE(table.find(id));
}

TEST(BatchTable, SizesAreChecked) {
  BatchTable table(4);
  EXPECT_EQ(code_of(table.allocate(0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(table.allocate(kBatchTasksMax + 1)), Code::kInvalidArgument);
  const auto large = table.allocate(kBatchTasksMax);
  ASSERT_TRUE(large);
  EXPECT_EQ(table.find(*large)->capacity(), kBatchTasksMax);
}

TEST(BatchTable, IsBoundedAndReusesPlaces) {
  BatchTable table(300);  // more than one chunk of places
  std::vector<BatchId> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(table.allocate(1).value());
  EXPECT_EQ(code_of(table.allocate(1)), Code::kExhausted);
  EXPECT_EQ(table.all().size(), 300U);
  EXPECT_TRUE(table.free(ids[77]));
  EXPECT_EQ(table.all().size(), 299U);
  EXPECT_TRUE(table.allocate(1));
  EXPECT_EQ(code_of(table.allocate(1)), Code::kExhausted);
}

TEST(BatchTable, APlaceIsKeptWhileSomebodyHoldsIt) {
  BatchTable table(1);
  const BatchId id = table.allocate(2).value();
  BatchRef held = table.find(id);
  BatchRef more = held.another();
  EXPECT_TRUE(table.free(id));
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(table.kept(), 1U);
  EXPECT_EQ(code_of(table.allocate(1)), Code::kExhausted);
  held.reset();
  EXPECT_EQ(table.kept(), 1U);
  BatchRef moved = std::move(more);
  EXPECT_FALSE(more);
  moved = BatchRef();
  EXPECT_EQ(table.kept(), 0U);
  EXPECT_TRUE(table.allocate(1));
}

TEST(BatchTable, AReusedPlaceRemembersNothing) {
  BatchTable table(1);
  for (const std::size_t tasks : {5UL, 2000UL, 3UL}) {
    const BatchId id = table.allocate(tasks).value();
    BatchRef batch = table.find(id);
    EXPECT_EQ(batch->tasks(), 0U);
    EXPECT_EQ(batch->capacity(), tasks);
    EXPECT_TRUE(batch->idle());
    EXPECT_EQ(batch->status().completed, 0U);
    int calls = 0;
    batch->subscribe([&](BatchId) { ++calls; });
    ASSERT_TRUE(batch->event_fd());
    batch->begin_work(2, 2);
    batch->publish_tasks(2);
    batch->task(0).end(Outcome::kCompleted, nullptr);
    batch->task(1).end(Outcome::kFailed, &kError);
    batch->count_completed(1);
    batch->end_work(2, 2);
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(table.free(id));
    batch.reset();
    // The next one, without a callback.
    const BatchId next = table.allocate(2).value();
    const BatchRef other = table.find(next);
    EXPECT_EQ(other->task(0).outcome(), Outcome::kPending);
    EXPECT_EQ(other->task(1).status().code, Code::kOk);
    other->begin_work(1, 1);
    other->end_work(1, 1);
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(table.free(next));
  }
}

// ---- idleness ----

class BatchIdle : public testing::Test {
 protected:
  bool readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }
  BatchTable table_{4};
  BatchId id_ = table_.allocate(8).value();
  BatchRef batch_ = table_.find(id_);
};

TEST_F(BatchIdle, StatusCountsOutcomesAndQuiets) {
  batch_->begin_work(3, 3);
  batch_->publish_tasks(3);
  BatchStatus status = batch_->status();
  EXPECT_EQ(status.tasks, 3U);
  EXPECT_EQ(status.pending, 3U);
  EXPECT_EQ(status.unquiet, 3U);
  batch_->end_work(1, 0);
  status = batch_->status();
  EXPECT_EQ(status.pending, 2U);
  EXPECT_EQ(status.unquiet, 3U);
  EXPECT_FALSE(status.idle());
  batch_->count_completed(2);
  batch_->end_work(2, 2);
  EXPECT_FALSE(batch_->idle());
  batch_->end_work(0, 1);
  status = batch_->status();
  EXPECT_TRUE(status.idle());
  EXPECT_FALSE(status.all_completed());  // two of three
}

TEST_F(BatchIdle, CallbackAndDescriptorOncePerTime) {
  int calls = 0;
  batch_->subscribe([&](BatchId which) {
    EXPECT_EQ(which, id_);
    EXPECT_TRUE(batch_->idle());
    ++calls;
  });
  const int fd = batch_->event_fd().value();
  EXPECT_EQ(batch_->event_fd().value(), fd);
  EXPECT_FALSE(readable(fd));
  for (int i = 1; i <= 3; ++i) {
    batch_->begin_work(1, 2);
    batch_->end_work(1, 1);
    EXPECT_EQ(calls, i - 1);
    EXPECT_FALSE(readable(fd));
    batch_->end_work(0, 1);
    EXPECT_EQ(calls, i);
    EXPECT_TRUE(readable(fd));
    std::uint64_t count = 0;
    EXPECT_EQ(::read(fd, &count, sizeof(count)), 8);
    EXPECT_EQ(count, 1U);
    EXPECT_FALSE(readable(fd));
  }
}

TEST_F(BatchIdle, AnotherCallbackReplacesTheFirst) {
  int first = 0;
  int second = 0;
  batch_->subscribe([&](BatchId) { ++first; });
  batch_->subscribe([&](BatchId) { ++second; });
  batch_->begin_work(1, 1);
  batch_->end_work(1, 1);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST_F(BatchIdle, ACallbackMaySubscribeFreeAndBeginAgain) {
  int calls = 0;
  batch_->subscribe([&](BatchId) {
    if (++calls == 4) {
      batch_->subscribe([](BatchId) {});
      EXPECT_TRUE(table_.free(id_));
      return;
    }
    batch_->begin_work(1, 1);
    batch_->end_work(1, 1);
  });
  batch_->begin_work(1, 1);
  batch_->end_work(1, 1);
  EXPECT_EQ(calls, 4);
  batch_.reset();
  EXPECT_EQ(table_.kept(), 0U);
}

TEST_F(BatchIdle, WakesWhoSleepsElsewhere) {
  const env::Fd event(::eventfd(0, EFD_NONBLOCK));
  EXPECT_FALSE(batch_->wake_by(event.get())) << "nothing to wait for";
  batch_->begin_work(2, 2);
  ASSERT_TRUE(batch_->wake_by(event.get()));
  EXPECT_FALSE(batch_->has_listeners()) << "it looks after its transfers itself";
  batch_->end_work(1, 1);
  EXPECT_FALSE(readable(event.get()));
  batch_->end_work(1, 1);
  EXPECT_TRUE(readable(event.get()));
  batch_->wake_no_more(event.get());
  std::uint64_t count = 0;
  ASSERT_EQ(::read(event.get(), &count, sizeof(count)), 8);
  batch_->begin_work(1, 1);
  batch_->end_work(1, 1);
  EXPECT_FALSE(readable(event.get())) << "it sleeps no more";
}

TEST_F(BatchIdle, WaitSaysWhatCameFirst) {
  EXPECT_TRUE(batch_->wait_idle(0));
  batch_->begin_work(1, 1);
  EXPECT_FALSE(batch_->wait_idle(0));
  EXPECT_FALSE(batch_->wait_idle(env::monotonic_now() + env::kMilli));
  std::thread ender([this] { batch_->end_work(1, 1); });
  EXPECT_TRUE(batch_->wait_idle(within(kSoon)));
  ender.join();
}

}  // namespace
}  // namespace larder::transfer
