// SPDX-License-Identifier: Apache-2.0
// The engine through its C interface only: who is told what, peers, ids.
#include <poll.h>

#include <atomic>
#include <cstring>
#include <future>
#include <vector>

#include "env/clock.h"
#include "transfer/c_api_testing.h"

namespace larder {
namespace {

// ---- being told ----

struct Listener {
  CApiTest* test = nullptr;
  larder_transfer_engine* engine = nullptr;
  larder_transfer_request next{};
  std::atomic<int> calls{0};
  std::atomic<int> released{0};
  std::promise<void> second;

  static void idle(void* context, std::uint64_t batch) {
    auto& self = *static_cast<Listener*>(context);
    if (++self.calls != 1) return self.second.set_value();
    // From within a callback the next step may be taken.
    auto result = blank<larder_transfer_result>();
    EXPECT_EQ(larder_transfer_submit(self.engine, batch, &self.next, 1, &result, nullptr),
              LARDER_OK);
    EXPECT_EQ(result.task, 1U);
  }
  static void release(void* context) { ++static_cast<Listener*>(context)->released; }
};

TEST_F(CApiTest, CallbackAndDescriptorTellOfIdleness) {
  char* const a = memory(kMiB, 9);
  Listener listener;
  listener.engine = engine_;
  listener.next = copy(LARDER_OPCODE_READ, a, a + kMiB / 2, 100);
  const std::uint64_t batch = new_batch(2);
  std::int32_t fd = -1;
  ASSERT_EQ(larder_transfer_event_fd(engine_, batch, &fd), LARDER_OK) << last_error();
  ASSERT_EQ(
      larder_transfer_subscribe(engine_, batch, &Listener::idle, &listener, &Listener::release),
      LARDER_OK);
  // The first one is idle within the submit, whose answer is still right.
  auto result = blank<larder_transfer_result>();
  ASSERT_EQ(larder_transfer_submit(engine_, batch, &listener.next, 1, &result, nullptr), LARDER_OK);
  EXPECT_EQ(result.code, LARDER_OK);
  EXPECT_EQ(result.task, 0U);
  listener.second.get_future().wait();
  pollfd ready{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 30'000), 1);
  EXPECT_EQ(listener.calls, 2);
  EXPECT_EQ(listener.released, 0);
  EXPECT_EQ(larder_transfer_free_batch(engine_, batch), LARDER_OK);
  for (const std::int64_t until = env::monotonic_now() + kLong;
       listener.released == 0 && env::monotonic_now() < until;) {
  }
  EXPECT_EQ(listener.released, 1);
}

TEST_F(CApiTest, AContextIsReleasedOnceWhateverHappens) {
  Listener listener;
  const auto subscribe = [&](std::uint64_t batch, larder_transfer_idle idle) {
    return larder_transfer_subscribe(engine_, batch, idle, &listener, &Listener::release);
  };
  EXPECT_EQ(subscribe(99, &Listener::idle), LARDER_NOT_FOUND);
  EXPECT_EQ(listener.released, 1);
  const std::uint64_t batch = new_batch(1);
  EXPECT_EQ(subscribe(batch, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(listener.released, 2);
  EXPECT_EQ(
      larder_transfer_subscribe(nullptr, batch, &Listener::idle, &listener, &Listener::release),
      LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(listener.released, 3);
  EXPECT_EQ(subscribe(batch, &Listener::idle), LARDER_OK);
  EXPECT_EQ(listener.released, 3);
  // Another one takes its place.
  EXPECT_EQ(larder_transfer_subscribe(engine_, batch, &Listener::idle, &listener, nullptr),
            LARDER_OK);
  EXPECT_EQ(listener.released, 4);
  // The engine goes, and with it what was not freed.
  EXPECT_EQ(subscribe(new_batch(1), &Listener::idle), LARDER_OK);
  larder_transfer_destroy(engine_);
  engine_ = nullptr;
  EXPECT_EQ(listener.released, 5);
}

TEST_F(CApiTest, AWaitThatIsOverTooSoonSaysHowFarItIs) {
  const std::uint64_t segment = open_peer();
  char* const far = memory(peer_, 32 * kMiB, 10);
  char* const near = memory(32 * kMiB, 11);
  const std::uint64_t batch = new_batch(1);
  auto one =
      request(LARDER_OPCODE_READ, near, segment, reinterpret_cast<std::uintptr_t>(far), 32 * kMiB);
  one.transport_hint = LARDER_TRANSPORT_TCP;
  ASSERT_EQ(submit(batch, one), LARDER_OK) << larder_transfer_request_error(0);
  auto status = blank<larder_transfer_batch>();
  const larder_code code = larder_transfer_wait(engine_, batch, 0, &status);
  EXPECT_EQ(status.tasks, 1U);
  if (code != LARDER_OK) {
    EXPECT_EQ(code, LARDER_DEADLINE_EXCEEDED);
    EXPECT_EQ(status.struct_size, sizeof(status));
  }
  EXPECT_EQ(larder_transfer_cancel(engine_, batch, 0), LARDER_OK);
  EXPECT_EQ(larder_transfer_wait(engine_, batch, kLong, &status), LARDER_OK) << last_error();
  EXPECT_EQ(status.idle, 1);
  auto task = blank<larder_transfer_task>();
  EXPECT_EQ(larder_transfer_poll(engine_, batch, 0, &task), LARDER_OK);
  EXPECT_EQ(task.quiescent, 1);
  EXPECT_TRUE(task.outcome == LARDER_OUTCOME_CANCELLED || task.outcome == LARDER_OUTCOME_COMPLETED);
  EXPECT_EQ(task.code, task.outcome == LARDER_OUTCOME_CANCELLED ? LARDER_CANCELLED : LARDER_OK);
}

// Whoever is told may be done with the batch.
TEST_F(CApiTest, ACallbackMayFreeItsBatch) {
  struct Freer {
    larder_transfer_engine* engine;
    std::promise<larder_code> freed;
    std::promise<void> released;
  };
  char* const a = memory(16 * kMiB, 12);
  for (const std::uint64_t bytes : {std::uint64_t{100}, 8 * kMiB}) {  // at once, and by a job
    Freer freer{engine_, {}, {}};
    const std::uint64_t batch = new_batch(1);
    const auto idle = [](void* context, std::uint64_t which) {
      auto* const self = static_cast<Freer*>(context);
      self->freed.set_value(larder_transfer_free_batch(self->engine, which));
    };
    const auto release = [](void* context) { static_cast<Freer*>(context)->released.set_value(); };
    ASSERT_EQ(larder_transfer_subscribe(engine_, batch, idle, &freer, release), LARDER_OK);
    EXPECT_EQ(submit(batch, copy(LARDER_OPCODE_READ, a, a + 8 * kMiB, bytes)), LARDER_OK);
    auto freed = freer.freed.get_future();
    ASSERT_EQ(freed.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    EXPECT_EQ(freed.get(), LARDER_OK);
    EXPECT_EQ(freer.released.get_future().wait_for(std::chrono::seconds(30)),
              std::future_status::ready);
    EXPECT_EQ(larder_transfer_free_batch(engine_, batch), LARDER_NOT_FOUND);
  }
}

// ---- peers ----

TEST_F(CApiTest, APeersMemoryBothWays) {
  const std::uint64_t segment = open_peer();
  char* const far = memory(peer_, 2 * kMiB, 12);
  char* const near = memory(2 * kMiB, 13);
  const auto there = reinterpret_cast<std::uintptr_t>(far);
  EXPECT_EQ(run(request(LARDER_OPCODE_READ, near, segment, there, 2 * kMiB)), LARDER_OK)
      << last_error();
  EXPECT_EQ(std::memcmp(near, far, 2 * kMiB), 0);
  near[77] = static_cast<char>(~near[77]);
  auto write = request(LARDER_OPCODE_WRITE, near, segment, there, 4096);
  write.transport_hint = LARDER_TRANSPORT_TCP;
  EXPECT_EQ(run(write), LARDER_OK) << last_error();
  EXPECT_EQ(transport_, LARDER_TRANSPORT_TCP);
  EXPECT_EQ(near[77], far[77]);
  EXPECT_EQ(run(request(LARDER_OPCODE_READ, near, segment, 4096, 4096)), LARDER_NOT_FOUND);
}

TEST_F(CApiTest, SegmentsAreDescribed) {
  const std::uint64_t segment = open_peer();
  char* const first = memory(peer_, kMiB, 14);
  static_cast<void>(memory(peer_, kMiB, 15));
  auto info = blank<larder_transfer_segment>();
  std::uint64_t needed = 0;
  ASSERT_EQ(larder_transfer_segment_info(engine_, segment, &info, nullptr, 0, &needed), LARDER_OK);
  EXPECT_EQ(needed, 2U);
  EXPECT_EQ(info.type, LARDER_SEGMENT_MEMORY);
  EXPECT_EQ(info.same_machine, 1);
  EXPECT_EQ(info.same_process, 0);
  EXPECT_NE(info.incarnation, 0U);
  std::vector<larder_transfer_buffer> buffers(3);
  buffers[0].struct_size = sizeof(buffers[0]);
  needed = 0;
  EXPECT_EQ(larder_transfer_segment_info(engine_, segment, &info, buffers.data(), 1, &needed),
            LARDER_TOO_LARGE);
  EXPECT_EQ(needed, 2U);
  EXPECT_EQ(buffers[0].address, 0U);
  ASSERT_EQ(larder_transfer_segment_info(engine_, segment, &info, buffers.data(), 3, &needed),
            LARDER_OK);
  EXPECT_EQ(needed, 2U);
  EXPECT_LT(buffers[0].address, buffers[1].address);
  EXPECT_TRUE(buffers[0].address == reinterpret_cast<std::uintptr_t>(first) ||
              buffers[1].address == reinterpret_cast<std::uintptr_t>(first));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(buffers[i].struct_size, sizeof(buffers[i]));
    EXPECT_EQ(buffers[i].bytes, kMiB);
    EXPECT_EQ(buffers[i].memory_type, LARDER_MEMORY_CPU);
  }
  EXPECT_EQ(buffers[2].struct_size, 0U);

  const std::uint64_t file = new_file("sized", 12345);
  ASSERT_EQ(larder_transfer_segment_info(engine_, file, &info, buffers.data(), 3, &needed),
            LARDER_OK);
  EXPECT_EQ(info.type, LARDER_SEGMENT_FILE);
  EXPECT_EQ(info.bytes, 12345U);
  EXPECT_EQ(needed, 0U);
  EXPECT_EQ(text_of([&](char* text, auto capacity, auto* bytes) {
              return larder_transfer_segment_name(engine_, file, text, capacity, bytes);
            }),
            "file://" + dir_.file("sized"));
  std::int64_t took = 0;
  EXPECT_EQ(larder_transfer_probe(engine_, segment, &took), LARDER_OK) << last_error();
  EXPECT_GT(took, 0);
  EXPECT_EQ(larder_transfer_probe(engine_, file, &took), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(open_segment("local"), static_cast<std::uint64_t>(LARDER_LOCAL_SEGMENT));
  std::uint64_t none = 7;
  EXPECT_EQ(larder_transfer_open_segment(engine_, "file:///no/such", &none), LARDER_NOT_FOUND);
  EXPECT_EQ(larder_transfer_open_segment(engine_, "tcp:127.0.0.1:1", &none), LARDER_UNAVAILABLE);
  EXPECT_EQ(larder_transfer_open_segment(engine_, "http://x", &none), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(none, 7U);
}

TEST_F(CApiTest, NotificationsComeInOrderAndNoneIsLost) {
  const std::uint64_t segment = open_peer();
  auto note = blank<larder_transfer_notification>();
  note.segment = segment;
  const std::string name = "block";
  const std::string bytes("a\0b", 3);
  note.name = name.data();
  note.name_bytes = name.size();
  note.message = bytes.data();
  note.message_bytes = bytes.size();
  ASSERT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_OK) << last_error();
  const std::string large(LARDER_NOTIFICATION_BYTES, 'L');
  const std::string longest(LARDER_NOTIFICATION_NAME - 1, 'n');
  note.name = longest.data();
  note.name_bytes = longest.size();
  note.message = large.data();
  note.message_bytes = large.size();
  ASSERT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_OK) << last_error();
  note.message = nullptr;
  note.message_bytes = 0;
  ASSERT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_OK) << last_error();

  auto received = blank<larder_transfer_received>();
  std::string message(LARDER_NOTIFICATION_BYTES, '?');
  // Too little room leaves it where it is.
  EXPECT_EQ(larder_transfer_receive_notification(peer_, &received, message.data(), 2),
            LARDER_TOO_LARGE);
  EXPECT_EQ(received.message_bytes, 3U);
  EXPECT_EQ(message[0], '?');
  ASSERT_EQ(larder_transfer_receive_notification(peer_, &received, message.data(), 3), LARDER_OK);
  EXPECT_STREQ(received.name, "block");
  EXPECT_EQ(received.name_bytes, 5U);
  EXPECT_EQ(message.substr(0, 3), bytes);
  ASSERT_EQ(larder_transfer_receive_notification(peer_, &received, message.data(), message.size()),
            LARDER_OK);
  EXPECT_EQ(received.name, longest);
  EXPECT_EQ(message, large);
  ASSERT_EQ(larder_transfer_receive_notification(peer_, &received, nullptr, 0), LARDER_OK);
  EXPECT_EQ(received.message_bytes, 0U);
  EXPECT_EQ(larder_transfer_receive_notification(peer_, &received, nullptr, 0), LARDER_NOT_FOUND);

  note.name_bytes = 0;
  EXPECT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_INVALID_ARGUMENT);
  note.name_bytes = LARDER_NOTIFICATION_NAME;
  EXPECT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_INVALID_ARGUMENT);
  note.name_bytes = 1;
  note.message_bytes = LARDER_NOTIFICATION_BYTES + 1;
  note.message = large.data();
  EXPECT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_INVALID_ARGUMENT);
  note.message_bytes = UINT64_MAX;
  EXPECT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_INVALID_ARGUMENT);
  note.message_bytes = 0;
  note.segment = 99;
  EXPECT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_NOT_FOUND);
}

TEST_F(CApiTest, ANotificationFollowsTheData) {
  const std::uint64_t segment = open_peer();
  char* const far = memory(peer_, kMiB, 16);
  char* const near = memory(kMiB, 17);
  auto after = blank<larder_transfer_notification>();
  after.segment = segment;
  after.name = "written";
  after.name_bytes = 7;
  const auto one =
      request(LARDER_OPCODE_WRITE, near, segment, reinterpret_cast<std::uintptr_t>(far), kMiB);
  auto result = blank<larder_transfer_result>();
  const std::uint64_t batch = new_batch(1);
  ASSERT_EQ(larder_transfer_submit(engine_, batch, &one, 1, &result, &after), LARDER_OK)
      << last_error();
  auto received = blank<larder_transfer_received>();
  larder_code code = LARDER_NOT_FOUND;
  for (const std::int64_t until = env::monotonic_now() + kLong;
       code == LARDER_NOT_FOUND && env::monotonic_now() < until;) {
    auto status = blank<larder_transfer_batch>();
    EXPECT_EQ(larder_transfer_poll_batch(engine_, batch, &status), LARDER_OK);
    code = larder_transfer_receive_notification(peer_, &received, nullptr, 0);
  }
  ASSERT_EQ(code, LARDER_OK);
  EXPECT_STREQ(received.name, "written");
  EXPECT_EQ(std::memcmp(near, far, kMiB), 0);
  EXPECT_EQ(larder_transfer_wait(engine_, batch, kLong, nullptr), LARDER_OK);
}

// ---- ids ----

TEST_F(CApiTest, StaleIdsAreErrorsEverywhere) {
  const std::uint64_t freed = new_batch(2);
  EXPECT_EQ(larder_transfer_free_batch(engine_, freed), LARDER_OK);
  const std::uint64_t next = new_batch(2);
  auto task = blank<larder_transfer_task>();
  auto whole = blank<larder_transfer_batch>();
  std::int32_t fd = -1;
  std::uint64_t needed = 0;
  for (const std::uint64_t stale : {freed, std::uint64_t{0}, UINT64_MAX, next + 1}) {
    EXPECT_EQ(larder_transfer_poll(engine_, stale, 0, &task), LARDER_NOT_FOUND);
    EXPECT_EQ(larder_transfer_poll_batch(engine_, stale, &whole), LARDER_NOT_FOUND);
    EXPECT_EQ(larder_transfer_wait(engine_, stale, kLong, &whole), LARDER_NOT_FOUND);
    EXPECT_EQ(larder_transfer_submit(engine_, stale, nullptr, 0, nullptr, nullptr),
              LARDER_NOT_FOUND);
    EXPECT_EQ(larder_transfer_cancel(engine_, stale, 0), LARDER_NOT_FOUND);
    EXPECT_EQ(larder_transfer_event_fd(engine_, stale, &fd), LARDER_NOT_FOUND);
    EXPECT_EQ(larder_transfer_explain(engine_, stale, 0, nullptr, 0, &needed), LARDER_NOT_FOUND);
    EXPECT_EQ(larder_transfer_free_batch(engine_, stale), LARDER_NOT_FOUND);
    EXPECT_NE(last_error(), "");
  }
  EXPECT_EQ(larder_transfer_poll(engine_, next, 0, &task), LARDER_NOT_FOUND);
  std::uint64_t batch = 0;
  EXPECT_EQ(larder_transfer_allocate_batch(engine_, 0, &batch), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_transfer_allocate_batch(engine_, LARDER_ARRAY_MAX + 1, &batch),
            LARDER_INVALID_ARGUMENT);

  const std::uint64_t segment = new_file("once", 4096);
  EXPECT_EQ(larder_transfer_close_segment(engine_, segment), LARDER_OK);
  EXPECT_EQ(larder_transfer_close_segment(engine_, segment), LARDER_NOT_FOUND);
  EXPECT_EQ(larder_transfer_close_segment(engine_, LARDER_LOCAL_SEGMENT), LARDER_INVALID_ARGUMENT);
  auto info = blank<larder_transfer_segment>();
  EXPECT_EQ(larder_transfer_segment_info(engine_, segment, &info, nullptr, 0, &needed),
            LARDER_NOT_FOUND);
  EXPECT_EQ(larder_transfer_segment_name(engine_, segment, nullptr, 0, &needed), LARDER_NOT_FOUND);
  std::int64_t took = 0;
  EXPECT_EQ(larder_transfer_probe(engine_, segment, &took), LARDER_NOT_FOUND);
  EXPECT_EQ(run(request(LARDER_OPCODE_READ, memory(4096), segment, 0, 1)), LARDER_NOT_FOUND);
  EXPECT_EQ(larder_transfer_address(engine_, 0, nullptr, 0, &needed), LARDER_NOT_FOUND);
}

}  // namespace
}  // namespace larder
