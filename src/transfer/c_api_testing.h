// SPDX-License-Identifier: Apache-2.0
// What the tests of the C interface share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "env/temp_directory.h"
#include "larder/transfer_c.h"

namespace larder {

inline constexpr std::uint64_t kMiB = 1UL << 20;
inline constexpr std::int64_t kLong = 30'000'000'000;

template <class Struct>
Struct blank() {
  Struct made{};
  made.struct_size = sizeof(made);
  return made;
}

inline std::string last_error() {
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

}  // namespace larder
