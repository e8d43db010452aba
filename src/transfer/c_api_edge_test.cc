// SPDX-License-Identifier: Apache-2.0
// What C cannot promise is checked: sizes of structs, pointers, lengths of arrays.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "larder/transfer_c.h"

namespace larder {
namespace {

template <class Struct>
Struct blank() {
  Struct made{};
  made.struct_size = sizeof(made);
  return made;
}

std::string last_error() {
  return larder_transfer_last_error();
}

class CApiEdgeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(larder_transfer_create_from_text("transports: [memcpy]", &engine_), LARDER_OK);
  }
  void TearDown() override { larder_transfer_destroy(engine_); }
  std::uint64_t new_batch(std::uint64_t tasks) {
    std::uint64_t batch = 0;
    EXPECT_EQ(larder_transfer_allocate_batch(engine_, tasks, &batch), LARDER_OK) << last_error();
    return batch;
  }

  larder_transfer_engine* engine_ = nullptr;
};

TEST_F(CApiEdgeTest, StructsOfAnotherSizeAreRefused) {
  const std::uint64_t batch = new_batch(4);
  std::uint64_t needed = 0;
  for (const std::uint32_t off : {0U, 1U, 7U, 1000U}) {
    const auto wrong = [&](auto made) {
      made.struct_size = off == 0 ? 0 : static_cast<std::uint32_t>(sizeof(made)) + off;
      return made;
    };
    std::vector<larder_transfer_request> requests(2, blank<larder_transfer_request>());
    std::vector<larder_transfer_result> results(2, blank<larder_transfer_result>());
    requests[1] = wrong(requests[1]);
    const auto submit = [&] {
      return larder_transfer_submit(engine_, batch, requests.data(), 2, results.data(), nullptr);
    };
    EXPECT_EQ(submit(), LARDER_INVALID_ARGUMENT);
    EXPECT_NE(last_error().find("struct_size"), std::string::npos) << last_error();
    requests[1] = requests[0];
    results[0] = wrong(results[0]);
    EXPECT_EQ(submit(), LARDER_INVALID_ARGUMENT);
    auto range = wrong(larder_transfer_range{});
    EXPECT_EQ(larder_transfer_register_memory(engine_, &range, 1), LARDER_INVALID_ARGUMENT);
    auto task = wrong(larder_transfer_task{});
    EXPECT_EQ(larder_transfer_poll(engine_, batch, 0, &task), LARDER_INVALID_ARGUMENT);
    auto whole = wrong(larder_transfer_batch{});
    EXPECT_EQ(larder_transfer_poll_batch(engine_, batch, &whole), LARDER_INVALID_ARGUMENT);
    EXPECT_EQ(larder_transfer_wait(engine_, batch, 0, &whole), LARDER_INVALID_ARGUMENT);
    auto info = wrong(larder_transfer_segment{});
    auto buffer = wrong(larder_transfer_buffer{});
    const auto describe = [&] {
      return larder_transfer_segment_info(engine_, LARDER_LOCAL_SEGMENT, &info, &buffer, 1,
                                          &needed);
    };
    EXPECT_EQ(describe(), LARDER_INVALID_ARGUMENT);
    info = blank<larder_transfer_segment>();
    EXPECT_EQ(describe(), LARDER_INVALID_ARGUMENT);
    auto note = wrong(larder_transfer_notification{});
    EXPECT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_INVALID_ARGUMENT);
    EXPECT_EQ(larder_transfer_submit(engine_, batch, nullptr, 0, nullptr, &note),
              LARDER_INVALID_ARGUMENT);
    auto received = wrong(larder_transfer_received{});
    EXPECT_EQ(larder_transfer_receive_notification(engine_, &received, nullptr, 0),
              LARDER_INVALID_ARGUMENT);
  }
  // Nothing of all that happened.
  auto status = blank<larder_transfer_batch>();
  EXPECT_EQ(larder_transfer_poll_batch(engine_, batch, &status), LARDER_OK);
  EXPECT_EQ(status.tasks, 0U);
  auto range = blank<larder_transfer_range>();
  range.reserved = 1;
  EXPECT_EQ(larder_transfer_register_memory(engine_, &range, 1), LARDER_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("reserved"), std::string::npos);
  auto note = blank<larder_transfer_notification>();
  note.reserved = 1;
  EXPECT_EQ(larder_transfer_send_notification(engine_, &note), LARDER_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("reserved"), std::string::npos);
}

// What the calls point to, valid each by itself.
class CApiNullTest : public CApiEdgeTest {
 protected:
  void null(larder_code code) {
    ++checks_;
    EXPECT_EQ(code, LARDER_INVALID_ARGUMENT) << "check " << checks_;
    EXPECT_NE(last_error().find("is NULL"), std::string::npos) << checks_ << ": " << last_error();
  }

  int checks_ = 0;
  const std::uint64_t local_ = LARDER_LOCAL_SEGMENT;
  std::uint64_t batch_ = 1;
  std::uint64_t number_ = 0;
  std::int64_t took_ = 0;
  std::int32_t fd_ = 0;
  void* address_ = &number_;
  larder_transfer_segment info_ = blank<larder_transfer_segment>();
  larder_transfer_task task_ = blank<larder_transfer_task>();
  larder_transfer_batch whole_ = blank<larder_transfer_batch>();
  larder_transfer_request one_ = blank<larder_transfer_request>();
  larder_transfer_result result_ = blank<larder_transfer_result>();
  larder_transfer_range range_ = blank<larder_transfer_range>();
  larder_transfer_notification note_ = blank<larder_transfer_notification>();
  larder_transfer_received received_ = blank<larder_transfer_received>();
};

TEST_F(CApiNullTest, EveryCallNeedsItsEngine) {
  larder_transfer_engine* const none = nullptr;
  null(larder_transfer_address(none, 0, nullptr, 0, &number_));
  null(larder_transfer_quarantined_bytes(none, &number_));
  null(larder_transfer_metrics(none, nullptr, 0, &number_));
  null(larder_transfer_register_memory(none, &range_, 1));
  null(larder_transfer_unregister_memory(none, &address_, 1));
  null(larder_transfer_allocate_memory(none, 1, nullptr, &address_));
  null(larder_transfer_free_memory(none, address_));
  null(larder_transfer_open_segment(none, "local", &number_));
  null(larder_transfer_close_segment(none, local_));
  null(larder_transfer_segment_info(none, local_, &info_, nullptr, 0, &number_));
  null(larder_transfer_segment_name(none, local_, nullptr, 0, &number_));
  null(larder_transfer_probe(none, local_, &took_));
  null(larder_transfer_allocate_batch(none, 1, &number_));
  null(larder_transfer_free_batch(none, batch_));
  null(larder_transfer_submit(none, batch_, &one_, 1, &result_, nullptr));
  null(larder_transfer_poll(none, batch_, 0, &task_));
  null(larder_transfer_poll_batch(none, batch_, &whole_));
  null(larder_transfer_wait(none, batch_, 0, &whole_));
  null(larder_transfer_event_fd(none, batch_, &fd_));
  null(larder_transfer_cancel(none, batch_, 0));
  null(larder_transfer_explain(none, batch_, 0, nullptr, 0, &number_));
  null(larder_transfer_send_notification(none, &note_));
  null(larder_transfer_receive_notification(none, &received_, nullptr, 0));
}

TEST_F(CApiNullTest, EveryPointerOfEveryCallIsNeeded) {
  null(larder_transfer_address(engine_, 0, nullptr, 0, nullptr));
  null(larder_transfer_address(engine_, 0, nullptr, 9, &number_));
  null(larder_transfer_quarantined_bytes(engine_, nullptr));
  null(larder_transfer_metrics(engine_, nullptr, 0, nullptr));
  null(larder_transfer_metrics(engine_, nullptr, 9, &number_));
  null(larder_transfer_register_memory(engine_, nullptr, 1));
  null(larder_transfer_unregister_memory(engine_, nullptr, 1));
  null(larder_transfer_allocate_memory(engine_, 1, nullptr, nullptr));
  null(larder_transfer_free_memory(engine_, nullptr));
  null(larder_transfer_open_segment(engine_, nullptr, &number_));
  null(larder_transfer_open_segment(engine_, "local", nullptr));
  null(larder_transfer_segment_info(engine_, local_, nullptr, nullptr, 0, &number_));
  null(larder_transfer_segment_info(engine_, local_, &info_, nullptr, 0, nullptr));
  null(larder_transfer_segment_info(engine_, local_, &info_, nullptr, 1, &number_));
  null(larder_transfer_segment_name(engine_, local_, nullptr, 0, nullptr));
  null(larder_transfer_probe(engine_, local_, nullptr));
  null(larder_transfer_allocate_batch(engine_, 1, nullptr));
  null(larder_transfer_submit(engine_, batch_, nullptr, 1, &result_, nullptr));
  null(larder_transfer_submit(engine_, batch_, &one_, 1, nullptr, nullptr));
  null(larder_transfer_poll(engine_, batch_, 0, nullptr));
  null(larder_transfer_poll_batch(engine_, batch_, nullptr));
  null(larder_transfer_event_fd(engine_, batch_, nullptr));
  null(larder_transfer_explain(engine_, batch_, 0, nullptr, 0, nullptr));
  null(larder_transfer_send_notification(engine_, nullptr));
  null(larder_transfer_send_notification(engine_, &note_));  // no name
  note_.name = "x";
  note_.name_bytes = 1;
  note_.message_bytes = 1;
  null(larder_transfer_send_notification(engine_, &note_));
  null(larder_transfer_receive_notification(engine_, nullptr, nullptr, 0));
  null(larder_transfer_receive_notification(engine_, &received_, nullptr, 1));
}

TEST_F(CApiEdgeTest, ArraysAndTextHaveBounds) {
  auto one = blank<larder_transfer_request>();
  auto result = blank<larder_transfer_result>();
  auto range = blank<larder_transfer_range>();
  void* address = &one;
  for (const std::uint64_t count : {std::uint64_t{LARDER_ARRAY_MAX} + 1, UINT64_MAX}) {
    EXPECT_EQ(larder_transfer_submit(engine_, new_batch(1), &one, count, &result, nullptr),
              LARDER_TOO_LARGE);
    EXPECT_EQ(larder_transfer_register_memory(engine_, &range, count), LARDER_TOO_LARGE);
    EXPECT_EQ(larder_transfer_unregister_memory(engine_, &address, count), LARDER_TOO_LARGE);
  }
  std::string text(5, '?');
  std::uint64_t needed = 0;
  const auto name = [&] {
    return larder_transfer_segment_name(engine_, LARDER_LOCAL_SEGMENT, text.data(), text.size(),
                                        &needed);
  };
  EXPECT_EQ(name(), LARDER_TOO_LARGE);
  EXPECT_EQ(needed, 6U);
  EXPECT_EQ(text, "?????");
  text.resize(6, '?');
  EXPECT_EQ(name(), LARDER_OK);
  EXPECT_STREQ(text.c_str(), "local");
}

}  // namespace
}  // namespace larder
