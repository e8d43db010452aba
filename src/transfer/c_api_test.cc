// SPDX-License-Identifier: Apache-2.0
// The engine through its C interface only: engines, transfers, memory.
#include <atomic>
#include <cstring>
#include <future>
#include <vector>

#include "env/clock.h"
#include "transfer/c_api_testing.h"

extern "C" int larder_transfer_c_round_trip(void);

namespace larder {
namespace {

TEST_F(CApiTest, TheHeaderIsC) {
  EXPECT_EQ(larder_transfer_c_round_trip(), 0) << "the line of c_api_header_test.c";
}

// ---- engines ----

TEST_F(CApiTest, IsMadeFromAFileFromTextOrFromNothing) {
  larder_transfer_engine* made = nullptr;
  ASSERT_EQ(larder_transfer_create(nullptr, &made), LARDER_OK) << last_error();
  larder_transfer_destroy(made);
  std::ofstream(dir_.file("engine.yaml")) << "transports: [memcpy]\nbatches_max: 1\n";
  ASSERT_EQ(larder_transfer_create(dir_.file("engine.yaml").c_str(), &made), LARDER_OK);
  // What the file says is what the engine does.
  std::uint64_t batch = 0;
  EXPECT_EQ(larder_transfer_allocate_batch(made, 1, &batch), LARDER_OK);
  EXPECT_EQ(larder_transfer_allocate_batch(made, 1, &batch), LARDER_EXHAUSTED);
  larder_transfer_destroy(made);
  larder_transfer_destroy(nullptr);

  auto* const junk = reinterpret_cast<larder_transfer_engine*>(&made);
  made = junk;
  EXPECT_EQ(larder_transfer_create("/no/such/file", &made), LARDER_NOT_FOUND);
  EXPECT_EQ(made, nullptr);
  EXPECT_NE(last_error().find("/no/such/file"), std::string::npos);
  made = junk;
  EXPECT_EQ(larder_transfer_create_from_text("transports: [memcpy]\nfile_deep: 3", &made),
            LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  EXPECT_NE(last_error().find("configuration:2: 'file_deep'"), std::string::npos) << last_error();
  EXPECT_EQ(larder_transfer_create_from_text("[: {", &made), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_transfer_create_from_text("", &made), LARDER_INVALID_ARGUMENT);
  const std::string huge((1 << 20) + 1, ' ');
  EXPECT_EQ(larder_transfer_create_from_text(huge.c_str(), &made), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_transfer_create_from_text("transports: [gds]", &made), LARDER_UNSUPPORTED);
  EXPECT_EQ(larder_transfer_create_from_text("transports: [nvme_tcp]", &made), LARDER_UNSUPPORTED);
  EXPECT_EQ(larder_transfer_create_from_text(nullptr, &made), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_transfer_create_from_text("{}", nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_transfer_create(nullptr, nullptr), LARDER_INVALID_ARGUMENT);
}

TEST_F(CApiTest, CodesHaveNames) {
  EXPECT_STREQ(larder_transfer_code_name(LARDER_OK), "ok");
  EXPECT_STREQ(larder_transfer_code_name(LARDER_NOT_FOUND), "not_found");
  EXPECT_STREQ(larder_transfer_code_name(LARDER_INTERNAL), "internal");
  EXPECT_STREQ(larder_transfer_code_name(16), "unknown");
  EXPECT_STREQ(larder_transfer_code_name(0x10001), "unknown");
  EXPECT_STREQ(larder_transfer_code_name(0xffffffff), "unknown");
}

TEST_F(CApiTest, TextOfErrorsIsOfThisThreadAndOfTheLastCall) {
  EXPECT_EQ(larder_transfer_free_batch(engine_, 99), LARDER_NOT_FOUND);
  EXPECT_NE(last_error(), "");
  std::async(std::launch::async, [] { EXPECT_EQ(last_error(), ""); }).get();
  EXPECT_NE(last_error(), "");
  EXPECT_EQ(larder_transfer_free_batch(engine_, new_batch(1)), LARDER_OK);
  EXPECT_EQ(last_error(), "");
}

// ---- transfers ----

TEST_F(CApiTest, CopiesBothWays) {
  char* const a = memory(4 * kMiB, 1);
  char* const b = memory(4 * kMiB, 2);
  for (const std::uint64_t bytes : {1UL, 65537UL, 4 * kMiB}) {
    EXPECT_EQ(run(copy(LARDER_OPCODE_READ, a, b, bytes)), LARDER_OK) << last_error();
    EXPECT_EQ(std::memcmp(a, b, bytes), 0);
    EXPECT_EQ(transport_, LARDER_TRANSPORT_MEMCPY);
    EXPECT_EQ(bytes_, bytes);
    a[bytes - 1] = static_cast<char>(~a[bytes - 1]);
    EXPECT_EQ(run(copy(LARDER_OPCODE_WRITE, a, b, bytes)), LARDER_OK) << last_error();
    EXPECT_EQ(std::memcmp(a, b, bytes), 0);
  }
}

TEST_F(CApiTest, FilesBothWaysAndWhatWentWrongWithOne) {
  const std::uint64_t segment = new_file("blocks", 2 * kMiB);
  char* const from = memory(kMiB, 3);
  char* const to = memory(kMiB, 4);
  EXPECT_EQ(run(request(LARDER_OPCODE_WRITE, from, segment, 4097, 700'001)), LARDER_OK);
  EXPECT_EQ(run(request(LARDER_OPCODE_READ, to, segment, 4097, 700'001)), LARDER_OK);
  EXPECT_EQ(transport_, LARDER_TRANSPORT_IO_URING);
  EXPECT_EQ(std::memcmp(from, to, 700'001), 0);

  // Accepted, and then there is not enough of the file: the task has the text.
  const std::uint64_t batch = new_batch(1);
  ASSERT_EQ(submit(batch, request(LARDER_OPCODE_READ, to, segment, 2 * kMiB - 10, 4096)),
            LARDER_OK);
  EXPECT_EQ(larder_transfer_wait(engine_, batch, kLong, nullptr), LARDER_OK);
  auto status = blank<larder_transfer_task>();
  EXPECT_EQ(larder_transfer_poll(engine_, batch, 0, &status), LARDER_OK);
  EXPECT_EQ(status.outcome, LARDER_OUTCOME_FAILED);
  EXPECT_EQ(status.code, LARDER_CONFLICT);
  EXPECT_NE(last_error().find("blocks"), std::string::npos) << last_error();
  auto whole = blank<larder_transfer_batch>();
  EXPECT_EQ(larder_transfer_poll_batch(engine_, batch, &whole), LARDER_OK);
  EXPECT_EQ(whole.idle, 1);
  EXPECT_EQ(whole.all_completed, 0);
  EXPECT_EQ(whole.tasks, 1U);
  EXPECT_EQ(whole.completed, 0U);
}

TEST_F(CApiTest, EveryFieldOfARequestCounts) {
  larder_transfer_destroy(engine_);
  engine_ = make(R"({transports: [memcpy, io_uring], policy: [
      {name: first, segment_type: file, transports: [io_uring]},
      {name: second, segment_type: file, transports: [io_uring]},
      {name: here, segment_type: memory, transports: [memcpy]}]})");
  const std::uint64_t segment = new_file("fields", kMiB);
  char* const to = memory(kMiB, 5);
  auto full = request(LARDER_OPCODE_READ, to, segment, 8192, 4096);
  full.intent = LARDER_INTENT_FOREGROUND_PREFIX_FETCH;
  full.traffic_class = LARDER_CLASS_LOW;
  full.transport_hint = LARDER_TRANSPORT_IO_URING;
  full.deadline_ns = env::monotonic_now() + kLong;
  full.trace_id = 4711;
  full.policy = "second";
  full.tenant = 3;
  const std::uint64_t batch = new_batch(1);
  ASSERT_EQ(submit(batch, full), LARDER_OK) << larder_transfer_request_error(0);
  EXPECT_EQ(larder_transfer_wait(engine_, batch, kLong, nullptr), LARDER_OK);
  const std::string why = text_of([&](char* text, auto capacity, auto* needed) {
    return larder_transfer_explain(engine_, batch, 0, text, capacity, needed);
  });
  for (const std::string_view part :
       {"\"direction\":\"read\"", "\"bytes\":4096", "second", "\"trace_id\":4711",
        "\"intent\":\"foreground_prefix_fetch\",\"class\":\"low\"", "\"transport\":\"io_uring\""}) {
    EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
  }
  const auto refused = [&](auto change) {
    auto changed = full;
    change(changed);
    return run(changed);
  };
  EXPECT_EQ(refused([](auto& r) { r.deadline_ns = 1; }), LARDER_DEADLINE_EXCEEDED);
  EXPECT_EQ(refused([](auto& r) { r.deadline_ns = -1; }), LARDER_DEADLINE_EXCEEDED);
  EXPECT_EQ(refused([](auto& r) { r.deadline_ns = INT64_MAX; }), LARDER_OK);
  for (const unsigned opcode : {2U, 200U, 255U}) {
    EXPECT_EQ(refused([&](auto& r) { r.opcode = static_cast<std::uint8_t>(opcode); }),
              LARDER_INVALID_ARGUMENT);
  }
  EXPECT_EQ(refused([](auto& r) { r.intent = 7; }), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& r) { r.traffic_class = 3; }), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& r) { r.transport_hint = LARDER_TRANSPORT_TCP; }),
            LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& r) { r.transport_hint = LARDER_TRANSPORT_NVME_TCP; }),
            LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& r) { r.transport_hint = 255; }), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& r) { r.policy = "third"; }), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& r) { r.policy = nullptr; }), LARDER_OK);
  EXPECT_EQ(refused([](auto& r) { r.length = 0; }), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& r) { r.local = nullptr; }), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& r) { r.target = 0; }), LARDER_NOT_FOUND);
  EXPECT_EQ(refused([](auto& r) { r.reserved = 1; }), LARDER_INVALID_ARGUMENT);
}

// Neighbours of one tenant travel together, those of two do not.
TEST_F(CApiTest, TheTenantCounts) {
  const std::uint64_t segment = new_file("tenants", kMiB);
  char* const to = memory(kMiB);
  for (const std::uint32_t second : {5U, 6U}) {
    std::vector<larder_transfer_request> requests = {
        request(LARDER_OPCODE_READ, to, segment, 0, 4096),
        request(LARDER_OPCODE_READ, to + 4096, segment, 4096, 4096)};
    requests[0].tenant = 5;
    requests[1].tenant = second;
    std::vector<larder_transfer_result> results(2, blank<larder_transfer_result>());
    const std::uint64_t batch = new_batch(2);
    ASSERT_EQ(larder_transfer_submit(engine_, batch, requests.data(), 2, results.data(), nullptr),
              LARDER_OK);
    EXPECT_EQ(larder_transfer_wait(engine_, batch, kLong, nullptr), LARDER_OK);
    const std::string why = text_of([&](char* text, auto capacity, auto* needed) {
      return larder_transfer_explain(engine_, batch, 0, text, capacity, needed);
    });
    const std::string part = second == 5 ? "\"merged_requests\":2" : "\"merged_requests\":1";
    EXPECT_NE(why.find(part), std::string::npos) << why;
  }
}

TEST_F(CApiTest, ABadRequestNeverFailsItsNeighbours) {
  char* const a = memory(kMiB, 6);
  char* const b = memory(kMiB, 7);
  std::vector<larder_transfer_request> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    requests.push_back(copy(LARDER_OPCODE_READ, a + i * 4096, b + i * 4096, 4096));
  }
  requests[1].reserved = 1;
  requests[2].opcode = 9;
  requests[4].length = 0;
  std::vector<larder_transfer_result> results(6);
  results[0].struct_size = sizeof(results[0]);
  const std::uint64_t batch = new_batch(8);
  ASSERT_EQ(larder_transfer_submit(engine_, batch, requests.data(), 6, results.data(), nullptr),
            LARDER_OK)
      << last_error();
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const bool bad = i == 1 || i == 2 || i == 4;
    EXPECT_EQ(results[i].struct_size, sizeof(results[i]));
    EXPECT_EQ(results[i].code, bad ? LARDER_INVALID_ARGUMENT : LARDER_OK) << i;
    EXPECT_EQ(results[i].task, bad ? 0 : next++) << i;
    EXPECT_EQ(std::string(larder_transfer_request_error(i)).empty(), !bad) << i;
  }
  EXPECT_NE(std::string(larder_transfer_request_error(1)).find("reserved"), std::string::npos);
  EXPECT_NE(std::string(larder_transfer_request_error(2)).find("opcode"), std::string::npos);
  EXPECT_NE(std::string(larder_transfer_request_error(4)).find("length"), std::string::npos);
  EXPECT_STREQ(larder_transfer_request_error(6), "");
  EXPECT_STREQ(larder_transfer_request_error(UINT64_MAX), "");
  auto status = blank<larder_transfer_batch>();
  EXPECT_EQ(larder_transfer_wait(engine_, batch, kLong, &status), LARDER_OK);
  EXPECT_EQ(status.tasks, 3U);
  EXPECT_EQ(status.completed, 3U);
  EXPECT_EQ(status.all_completed, 1);
  // The next submit forgets them.
  ASSERT_EQ(submit(batch, requests[0]), LARDER_OK);
  EXPECT_STREQ(larder_transfer_request_error(1), "");
}

TEST_F(CApiTest, AMetricAndAnEmptySubmit) {
  char* const a = memory(8192);
  EXPECT_EQ(run(copy(LARDER_OPCODE_READ, a, a + 4096, 4096)), LARDER_OK);
  const std::string text = text_of([&](char* to, auto capacity, auto* needed) {
    return larder_transfer_metrics(engine_, to, capacity, needed);
  });
  EXPECT_NE(text.find("larder_transfer_bytes_total{"), std::string::npos) << text;
  std::uint64_t bytes = 1;
  EXPECT_EQ(larder_transfer_quarantined_bytes(engine_, &bytes), LARDER_OK);
  EXPECT_EQ(bytes, 0U);
  EXPECT_EQ(larder_transfer_submit(engine_, new_batch(1), nullptr, 0, nullptr, nullptr), LARDER_OK);
}

// ---- memory ----

TEST_F(CApiTest, RegistersAllOrNone) {
  std::vector<char> own(4 * 4096);
  char* const other = memory(4096, 8);
  std::vector<larder_transfer_range> ranges(2, blank<larder_transfer_range>());
  ranges[0].address = own.data();
  ranges[0].bytes = 4096;
  ranges[1].address = own.data() + 8192;
  ranges[1].bytes = 0;
  EXPECT_EQ(larder_transfer_register_memory(engine_, ranges.data(), 2), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(run(copy(LARDER_OPCODE_READ, own.data(), other, 1)), LARDER_INVALID_ARGUMENT);
  ranges[1].bytes = 4096;
  ranges[1].location = "npu:0";
  EXPECT_EQ(larder_transfer_register_memory(engine_, ranges.data(), 2), LARDER_INVALID_ARGUMENT);
  ranges[1].location = "*";
  ASSERT_EQ(larder_transfer_register_memory(engine_, ranges.data(), 2), LARDER_OK) << last_error();
  EXPECT_EQ(larder_transfer_register_memory(engine_, ranges.data(), 1), LARDER_ALREADY_EXISTS);
  EXPECT_EQ(run(copy(LARDER_OPCODE_READ, own.data(), other, 4096)), LARDER_OK);
  EXPECT_EQ(run(copy(LARDER_OPCODE_READ, own.data(), other, 4097)), LARDER_INVALID_ARGUMENT);

  void* const addresses[] = {own.data(), own.data() + 8192};
  void* const strange[] = {own.data(), own.data() + 1};
  EXPECT_EQ(larder_transfer_unregister_memory(engine_, strange, 2), LARDER_NOT_FOUND);
  EXPECT_EQ(larder_transfer_unregister_memory(engine_, addresses, 2), LARDER_OK);
  EXPECT_EQ(larder_transfer_unregister_memory(engine_, addresses, 2), LARDER_NOT_FOUND);
  EXPECT_EQ(larder_transfer_unregister_memory(engine_, nullptr, 0), LARDER_OK);
  EXPECT_EQ(larder_transfer_register_memory(engine_, nullptr, 0), LARDER_INVALID_ARGUMENT);

  EXPECT_EQ(larder_transfer_free_memory(engine_, other), LARDER_OK);
  EXPECT_EQ(larder_transfer_free_memory(engine_, other), LARDER_NOT_FOUND);
  void* address = nullptr;
  EXPECT_EQ(larder_transfer_allocate_memory(engine_, 4096, "npu:0", &address), LARDER_UNSUPPORTED);
  EXPECT_EQ(larder_transfer_allocate_memory(engine_, 4096, "moon:0", &address),
            LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(address, nullptr);
}

}  // namespace
}  // namespace larder
