// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "rpc/late_testing.h"

namespace larder::rpc {
namespace {

using wire::Op;

constexpr std::size_t kOutstandingMax = 64;  // of a connection

class LateReplyTest : public RpcTest {
 protected:
  void serve(env::Nanos spin = 100 * env::kMicro, env::Nanos stall = 30 * env::kSecond) {
    ServerOptions with;
    with.listen = {unix_address()};
    with.spin = spin;
    with.stall_timeout = stall;
    server_ = Server::create(with, service_, env::system_clock()).value();
  }
  ChannelOptions to_server() const {
    ChannelOptions out;
    out.address = server_->addresses()[0];
    return out;
  }
  std::shared_ptr<Channel> channel() const { return Channel::connect(to_server()).value(); }
  env::Fd raw_calls() const {
    return std::move(connect_and_shake(to_server(), wire::Purpose::kCalls).value().fd);
  }
  static std::string request(std::uint64_t id, Op op = Op::kGet) {
    wire::FrameHeader header;
    header.op = op;
    header.call_id = id;
    return sealed(header, std::to_string(id));
  }
  static std::string requests(std::uint64_t first, std::uint64_t last) {
    std::string stream;
    for (std::uint64_t id = first; id <= last; ++id) stream += request(id);
    return stream;
  }
  static bool eventually(const std::function<bool()>& condition) {
    for (const env::Nanos deadline = later(); env::monotonic_now() < deadline;) {
      if (condition()) return true;
      std::this_thread::yield();
    }
    return condition();
  }
  std::uint64_t outstanding() const { return server_->counters().outstanding; }

  std::atomic<int> alive_{0};  // payloads that are
  env::ManualClock clock_;
  LateService service_;
  std::unique_ptr<Server> server_;
};

TEST_F(LateReplyTest, AnswersFromAnotherThreadAwakeOrAsleep) {
  for (const env::Nanos spin : {env::Nanos{0}, 100 * env::kMicro, 10 * env::kSecond}) {
    serve(spin);
    const auto calls = channel();
    const env::Nanos began = env::monotonic_now();
    for (int i = 0; i < 100; ++i) {
      TestCall call;
      start(*calls, call, Op::kGet, std::to_string(i), {}, later(), false);
      std::vector<LateCall> got = service_.take(1);
      ASSERT_EQ(got.size(), 1U);
      EXPECT_TRUE(got[0].responder.wanted());
      got[0].responder.complete(text_reply(got[0].text + "!"));
      ASSERT_TRUE(call.wait_end());
      EXPECT_EQ(call.code(), Code::kOk);
      EXPECT_EQ(call.text, std::to_string(i) + "!");
    }
    EXPECT_EQ(outstanding(), 0U);
    // A reply that woke nobody would be found half a second later.
    EXPECT_LT(env::monotonic_now() - began, 20 * env::kSecond);
    server_.reset();
  }
}

// Whatever the order of the answers, each gets to its call; those that need no waiting overtake.
TEST_F(LateReplyTest, AnyOrder) {
  serve();
  const auto calls = channel();
  std::vector<std::unique_ptr<TestCall>> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(std::make_unique<TestCall>());
    start(*calls, *all.back(), Op::kGet, std::to_string(i), {}, later(), false);
  }
  std::vector<LateCall> got = service_.take(40);
  ASSERT_EQ(got.size(), 40U);
  TestCall at_once;
  run(*calls, at_once, Op::kInfo, "at once");
  EXPECT_EQ(at_once.text, "at once");
  EXPECT_EQ(outstanding(), 40U);
  std::reverse(got.begin(), got.end());
  for (LateCall& call : got) {
    call.responder.complete(payload_reply(1000 + std::stoul(call.text), alive_));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(all[i]->wait_end());
    EXPECT_TRUE(all[i]->payload == pattern(1000 + i, 1000 + i)) << i;
  }
  EXPECT_EQ(calls->in_flight(), 0U);
}

TEST_F(LateReplyTest, RepliesKeepTheOrderOfCompletion) {
  serve();
  const env::Fd fd = raw_calls();
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(requests(1, 10)), later()));
  std::vector<LateCall> got = service_.take(10);
  ASSERT_EQ(got.size(), 10U);
  for (const std::size_t i : {7U, 2U, 9U}) got[i].responder.complete(text_reply("late"));
  for (const std::uint64_t id : {8U, 3U, 10U}) {
    std::string text;
    const wire::FrameHeader header = next_frame(fd.get(), &text);
    EXPECT_EQ(header.call_id, id);
    EXPECT_EQ(header.op, Op::kGet);
    EXPECT_EQ(text, "late");
  }
}

TEST_F(LateReplyTest, DroppedRespondersAnswerThatTheyWere) {
  serve();
  const auto calls = channel();
  TestCall dropped;
  TestCall assigned_over;
  start(*calls, dropped, Op::kGet, "1", {}, later(), false);
  start(*calls, assigned_over, Op::kGet, "2", {}, later(), false);
  {
    std::vector<LateCall> got = service_.take(2);
    ASSERT_EQ(got.size(), 2U);
    got[1].responder = std::move(got[0].responder);
    EXPECT_FALSE(got[0].responder.wanted());
    got[0].responder.complete(text_reply("moved from: to nobody"));
    ASSERT_TRUE(assigned_over.wait_end());
    EXPECT_EQ(dropped.ends, 0);
  }
  ASSERT_TRUE(dropped.wait_end());
  for (const TestCall* call : {&dropped, &assigned_over}) {
    EXPECT_EQ(call->header.code, Code::kUnavailable);
    EXPECT_NE(call->text.find("gave this call up"), std::string::npos);
  }
}

TEST_F(LateReplyTest, OneCallOneAnswer) {
  serve();
  const auto calls = channel();
  TestCall call;
  start(*calls, call, Op::kGet, "1", {}, later(), false);
  {
    std::vector<LateCall> got = service_.take(1);
    ASSERT_EQ(got.size(), 1U);
    got[0].responder.complete(text_reply("first"));
    EXPECT_FALSE(got[0].responder.wanted());
    got[0].responder.complete(text_reply("second"));
  }
  ASSERT_TRUE(call.wait_end());
  EXPECT_EQ(call.text, "first");
  TestCall next;
  run(*calls, next, Op::kInfo, "next");
  EXPECT_EQ(next.text, "next");
  EXPECT_EQ(outstanding(), 0U);
}

// The 65th call is not read before one of the 64 is answered, though it may have been received.
TEST_F(LateReplyTest, OutstandingCallsAreBounded) {
  serve();
  const env::Fd fd = raw_calls();
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(requests(1, 3 * kOutstandingMax)), later()));
  std::vector<LateCall> got = service_.take(kOutstandingMax);
  ASSERT_EQ(got.size(), kOutstandingMax);
  for (int i = 0; i < 20; ++i) {  // the reactor goes on, but not with this connection
    TestCall call;
    run(*channel(), call, Op::kInfo, "x");
  }
  EXPECT_EQ(service_.waiting(), 0U);
  EXPECT_EQ(outstanding(), kOutstandingMax);
  got.front().responder.complete(text_reply("one"));
  EXPECT_EQ(next_frame(fd.get()).call_id, 1U);
  std::vector<LateCall> more = service_.take(1);
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more.front().text, std::to_string(kOutstandingMax + 1));
  got.erase(got.begin());
  std::size_t answered = 1;
  while (answered < 3 * kOutstandingMax) {
    for (LateCall& call : got) call.responder.complete(text_reply("more"));
    for (LateCall& call : more) call.responder.complete(text_reply("more"));
    for (std::size_t n = got.size() + more.size(); n > 0; --n, ++answered) {
      ASSERT_NE(next_frame(fd.get()).call_id, 0U);
    }
    got.clear();
    more = answered < 3 * kOutstandingMax ? service_.take(1) : std::vector<LateCall>{};
  }
  EXPECT_TRUE(eventually([&] { return outstanding() == 0; }));
}

// ---- connections that end ----

TEST_F(LateReplyTest, AClosedConnectionDropsWhatComes) {
  serve();
  auto fd = raw_calls();
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(requests(1, 3)), later()));
  std::vector<LateCall> got = service_.take(3);
  ASSERT_EQ(got.size(), 3U);
  fd.reset();
  EXPECT_TRUE(eventually([&] { return server_->counters().open == 0; }));
  EXPECT_EQ(outstanding(), 0U);
  EXPECT_FALSE(got[0].responder.wanted());
  got[0].responder.complete(payload_reply(1000, alive_));
  EXPECT_EQ(alive_, 0);
  got.clear();
  TestCall call;
  run(*channel(), call, Op::kInfo, "others go on");
  EXPECT_EQ(call.text, "others go on");
}

// A peer that leaves at its bound is noticed although nothing more is read from it.
TEST_F(LateReplyTest, AClosedConnectionIsNoticedAtTheBoundToo) {
  serve();
  auto fd = raw_calls();
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(requests(1, 2 * kOutstandingMax)), later()));
  const std::vector<LateCall> got = service_.take(kOutstandingMax);
  ASSERT_EQ(got.size(), kOutstandingMax);
  fd.reset();
  EXPECT_TRUE(eventually([&] { return server_->counters().open == 0; }));
  EXPECT_FALSE(got[0].responder.wanted());
}

// Payload that waits behind other answers goes with the connection, too.
TEST_F(LateReplyTest, PayloadEndsWithItsConnection) {
  serve();
  auto fd = raw_calls();
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(requests(1, 4)), later()));
  std::vector<LateCall> got = service_.take(4);
  ASSERT_EQ(got.size(), 4U);
  for (LateCall& call : got) call.responder.complete(payload_reply(5'000'000, alive_));
  EXPECT_TRUE(eventually([&] { return outstanding() == 0; }));
  EXPECT_EQ(alive_, 4);
  fd.reset();
  EXPECT_TRUE(eventually([&] { return alive_ == 0; }));
}

// Waiting for the node is not stalling: neither with nothing else to do, nor at the bound with more
// requests sent.
TEST_F(LateReplyTest, WaitingForAnAnswerIsNoStall) {
  serve(100 * env::kMicro, 30 * env::kMilli);
  for (const std::uint64_t sent : {std::uint64_t{1}, std::uint64_t{2 * kOutstandingMax}}) {
    const env::Fd fd = raw_calls();
    ASSERT_TRUE(env::send_all(fd.get(), as_bytes(requests(1, sent)), later()));
    const std::size_t first = std::min<std::size_t>(sent, kOutstandingMax);
    std::vector<LateCall> got = service_.take(first);
    ASSERT_EQ(got.size(), first);
    // A peer that is at fault comes later and is dropped: this one has outlasted the time-out.
    const env::Fd half = raw_calls();
    ASSERT_TRUE(env::send_all(half.get(), as_bytes(request(1)).first(47), later()));
    EXPECT_TRUE(closes(half.get()));
    got.front().responder.complete(text_reply("late"));
    EXPECT_EQ(next_frame(fd.get()).call_id, 1U);
  }
  EXPECT_EQ(server_->counters().stalled, 2U);
}

// The peer's time to take an answer begins when the answer is there.
TEST_F(LateReplyTest, ALateAnswerHasItsTimeToLeave) {
  ServerOptions with;
  with.listen = {unix_address()};
  with.spin = 0;
  with.stall_timeout = 30 * env::kSecond;
  server_ = Server::create(with, service_, clock_).value();
  const env::Fd fd = raw_calls();
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(request(1)), later()));
  std::vector<LateCall> got = service_.take(1);
  ASSERT_EQ(got.size(), 1U);
  clock_.advance(2 * env::kSecond);
  const env::Fd half = raw_calls();
  ASSERT_TRUE(env::send_all(half.get(), as_bytes(request(1)).first(47), later()));
  TestCall call;  // after it the reactor has seen the half request
  run(*channel(), call, Op::kInfo, "x");
  clock_.advance(29 * env::kSecond);
  got[0].responder.complete(payload_reply(20'000'000, alive_));
  EXPECT_TRUE(eventually([&] { return outstanding() == 0; }));
  clock_.advance(2 * env::kSecond);
  EXPECT_TRUE(closes(half.get()));
  EXPECT_EQ(server_->counters().stalled, 1U);
  EXPECT_EQ(next_frame(fd.get()).call_id, 1U);
  std::vector<std::byte> payload(20'000'000);
  ASSERT_TRUE(env::receive_all(fd.get(), payload, later()));
  EXPECT_TRUE(payload == pattern(payload.size(), payload.size()));
}

// ---- the end ----

TEST_F(LateReplyTest, StopWaitsForOutstandingCalls) {
  serve();
  const env::Fd fd = raw_calls();
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(requests(1, 2)), later()));
  std::vector<LateCall> got = service_.take(2);
  ASSERT_EQ(got.size(), 2U);
  std::thread stopping([&] { server_->stop(later()); });
  EXPECT_TRUE(eventually([&] {  // it is stopping: nobody can connect any more
    return !connect_and_shake(to_server(), wire::Purpose::kCalls).has_value();
  }));
  got[1].responder.complete(text_reply("b"));
  EXPECT_EQ(next_frame(fd.get()).call_id, 2U);
  got[0].responder.complete(text_reply("a"));
  EXPECT_EQ(next_frame(fd.get()).call_id, 1U);
  EXPECT_TRUE(closes(fd.get()));
  stopping.join();
}

TEST_F(LateReplyTest, StopDoesNotWaitLongerThanItsDeadline) {
  serve();
  const env::Fd fd = raw_calls();
  ASSERT_TRUE(env::send_all(fd.get(), as_bytes(requests(1, 2)), later()));
  std::vector<LateCall> got = service_.take(2);
  ASSERT_EQ(got.size(), 2U);
  const env::Nanos begin = env::monotonic_now();
  server_->stop(after(50 * env::kMilli));
  EXPECT_GE(env::monotonic_now() - begin, 50 * env::kMilli);
  EXPECT_LT(env::monotonic_now() - begin, 10 * env::kSecond);
  EXPECT_TRUE(closes(fd.get()));
  EXPECT_FALSE(got[0].responder.wanted());
  got[0].responder.complete(payload_reply(1000, alive_));
  EXPECT_EQ(alive_, 0);
  server_.reset();
  got.clear();  // a responder may outlive the server
}

}  // namespace
}  // namespace larder::rpc
