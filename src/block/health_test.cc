// SPDX-License-Identifier: Apache-2.0
#include "block/health.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace larder::block {
namespace {

BlockDone ended(OpKind kind, Code code, int sys_errno = 0) {
  BlockDone done;
  done.kind = kind;
  done.code = code;
  done.sys_errno = sys_errno;
  done.offset = 8192;
  return done;
}

Code note(HealthBook& book, OpKind kind, Code code) {
  BlockDone done = ended(kind, code);
  book.note(done);
  return done.code;
}

TEST(BlockHealth, ErrorsDegradeAndSuccessesHeal) {
  HealthBook book({.fail_after = 4, .heal_after = 3});
  note(book, OpKind::kRead, Code::kUnavailable);
  note(book, OpKind::kRead, Code::kUnavailable);
  EXPECT_EQ(book.now().state, HealthState::kDegraded);
  EXPECT_EQ(book.now().consecutive_errors, 2U);
  note(book, OpKind::kRead, Code::kOk);
  EXPECT_EQ(book.now().consecutive_errors, 0U);
  note(book, OpKind::kRead, Code::kOk);
  EXPECT_EQ(book.now().state, HealthState::kDegraded);
  note(book, OpKind::kRead, Code::kUnavailable);
  note(book, OpKind::kRead, Code::kOk);
  note(book, OpKind::kRead, Code::kOk);
  EXPECT_EQ(book.now().state, HealthState::kDegraded);
  note(book, OpKind::kRead, Code::kOk);
  EXPECT_EQ(book.now().state, HealthState::kHealthy);
  EXPECT_EQ(book.now().errors, 3U);
}

TEST(BlockHealth, ManyErrorsInARowAreFinal) {
  HealthBook book({.fail_after = 3, .heal_after = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(book.failed());
    BlockDone done = ended(OpKind::kWrite, Code::kUnavailable, EIO);
    book.note(done);
  }
  EXPECT_TRUE(book.failed());
  for (int i = 0; i < 10; ++i) note(book, OpKind::kRead, Code::kOk);
  EXPECT_EQ(book.now().state, HealthState::kFailed);
  EXPECT_NE(book.now().reason.find("write at byte 8192"), std::string::npos) << book.now().reason;
}

TEST(BlockHealth, AFailedFlushIsFinalAndSpoilsThoseThatRun) {
  HealthBook book;
  EXPECT_EQ(note(book, OpKind::kFlush, Code::kOk), Code::kOk);
  note(book, OpKind::kFlush, Code::kUnavailable);
  EXPECT_TRUE(book.failed());
  EXPECT_EQ(note(book, OpKind::kFlush, Code::kOk), Code::kUnavailable);
  EXPECT_EQ(note(book, OpKind::kRead, Code::kOk), Code::kOk);
}

TEST(BlockHealth, WhatIsNotItsFaultIsNoError) {
  HealthBook book({.fail_after = 1, .heal_after = 1});
  note(book, OpKind::kFlush, Code::kCancelled);
  note(book, OpKind::kRead, Code::kCancelled);
  note(book, OpKind::kDiscard, Code::kUnsupported);
  note(book, OpKind::kWrite, Code::kExhausted);
  EXPECT_EQ(book.now().state, HealthState::kHealthy);
  EXPECT_EQ(book.now().errors, 0U);
  note(book, OpKind::kFlush, Code::kExhausted);
  EXPECT_EQ(book.now().state, HealthState::kFailed);
}

}  // namespace
}  // namespace larder::block
