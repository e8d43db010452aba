// SPDX-License-Identifier: Apache-2.0
// The engine through its C interface only: real memory, real files, a real peer.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "env/clock.h"
#include "env/temp_directory.h"
#include "larder/transfer_c.h"

extern "C" int larder_transfer_c_round_trip(void);

namespace larder {
namespace {

constexpr std::uint64_t kMiB = 1UL << 20;
constexpr std::int64_t kLong = 30'000'000'000;

template <class Struct>
Struct blank() {
  Struct made{};
  made.struct_size = sizeof(made);
  return made;
}

std::string last_error() {
  return larder_transfer_last_error();
}

// Asks twice, as the header says.
template <class Call>
std::string text_of(Call call) {
  std::uint64_t needed = 0;
  if (call(nullptr, 0, &needed) != LARDER_OK) return "error: " + last_error();
  std::string text(needed + 64, '?');  // what grows meanwhile has room
  if (call(text.data(), text.size(), &needed) != LARDER_OK) return "error: " + last_error();
  EXPECT_EQ(text[needed - 1], '\0');
  text.resize(needed - 1);
  return text;
}

class CApiTest : public testing::Test {
 protected:
  void SetUp() override { engine_ = make("{transports: [memcpy, shm, tcp, io_uring]}"); }
  void TearDown() override {
    larder_transfer_destroy(engine_);
    larder_transfer_destroy(peer_);
  }
  static larder_transfer_engine* make(const std::string& text) {
    larder_transfer_engine* made = nullptr;
    EXPECT_EQ(larder_transfer_create_from_text(text.c_str(), &made), LARDER_OK) << last_error();
    return made;
  }
  // A second engine, and the segment of its memory.
  std::uint64_t open_peer() {
    peer_ = make("{transports: [memcpy], listen: ['tcp:127.0.0.1:0']}");
    const std::string address = text_of([&](char* text, auto capacity, auto* needed) {
      return larder_transfer_address(peer_, 0, text, capacity, needed);
    });
    EXPECT_EQ(address.rfind("tcp:127.0.0.1:", 0), 0U) << address;
    return open_segment(address);
  }
  static char* memory(larder_transfer_engine* engine, std::uint64_t bytes, unsigned seed) {
    void* address = nullptr;
    EXPECT_EQ(larder_transfer_allocate_memory(engine, bytes, nullptr, &address), LARDER_OK)
        << last_error();
    auto* const at = static_cast<char*>(address);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      at[i] = static_cast<char>(seed * 131 + i * 7 + i / 251);
    }
    return at;
  }
  char* memory(std::uint64_t bytes, unsigned seed = 0) { return memory(engine_, bytes, seed); }
  std::uint64_t open_segment(const std::string& name) {
    std::uint64_t segment = 0;
    EXPECT_EQ(larder_transfer_open_segment(engine_, name.c_str(), &segment), LARDER_OK)
        << last_error();
    return segment;
  }
  std::uint64_t new_file(const std::string& name, std::uint64_t bytes) {
    std::ofstream(dir_.file(name)).close();
    std::filesystem::resize_file(dir_.file(name), bytes);
    return open_segment("file://" + dir_.file(name));
  }
  std::uint64_t new_batch(std::uint64_t tasks) {
    std::uint64_t batch = 0;
    EXPECT_EQ(larder_transfer_allocate_batch(engine_, tasks, &batch), LARDER_OK) << last_error();
    return batch;
  }
  static larder_transfer_request request(std::uint8_t opcode, void* local, std::uint64_t target,
                                         std::uint64_t offset, std::uint64_t length) {
    auto made = blank<larder_transfer_request>();
    made.opcode = opcode;
    made.local = local;
    made.target = target;
    made.target_offset = offset;
    made.length = length;
    return made;
  }
  static larder_transfer_request copy(std::uint8_t opcode, void* local, void* target,
                                      std::uint64_t length) {
    return request(opcode, local, LARDER_LOCAL_SEGMENT, reinterpret_cast<std::uintptr_t>(target),
                   length);
  }
  larder_code submit(std::uint64_t batch, const larder_transfer_request& one) {
    auto result = blank<larder_transfer_result>();
    const larder_code code = larder_transfer_submit(engine_, batch, &one, 1, &result, nullptr);
    return code != LARDER_OK ? code : result.code;
  }
  // Submits one request by itself and waits; its code, or why it was refused.
  larder_code run(const larder_transfer_request& one) {
    const std::uint64_t batch = new_batch(1);
    larder_code code = submit(batch, one);
    if (code == LARDER_OK) {
      EXPECT_EQ(larder_transfer_wait(engine_, batch, kLong, nullptr), LARDER_OK) << last_error();
      auto status = blank<larder_transfer_task>();
      EXPECT_EQ(larder_transfer_poll(engine_, batch, 0, &status), LARDER_OK) << last_error();
      EXPECT_EQ(status.quiescent, 1);
      EXPECT_EQ(status.outcome == LARDER_OUTCOME_COMPLETED, status.code == LARDER_OK);
      EXPECT_EQ(last_error().empty(), status.code == LARDER_OK);
      transport_ = status.transport;
      bytes_ = status.bytes;
      code = status.code;
    }
    EXPECT_EQ(larder_transfer_free_batch(engine_, batch), LARDER_OK);
    return code;
  }

  env::TempDirectory dir_ = env::TempDirectory::create("larder-c").value();
  larder_transfer_engine* engine_ = nullptr;
  larder_transfer_engine* peer_ = nullptr;
  unsigned transport_ = 0;  // of the last run()
  std::uint64_t bytes_ = 0;
};

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
