// SPDX-License-Identifier: Apache-2.0
// What tests of the target share: bytes, time, and what a host got back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "env/clock.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/pdu/pdu.h"

namespace larder::nvmf {

inline constexpr env::Nanos kPatience = 30 * env::kSecond;  // a wait that fails the test
inline constexpr const char* kTestHost = "nqn.2014-08.org.nvmexpress:larder-test-host";
inline constexpr std::uint64_t kMiB = 1ULL << 20U;

using Bytes = std::vector<std::byte>;

inline Bytes pattern(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes out(count);
  for (std::size_t at = 0; at + 8 <= count; at += 8) store_le(out.data() + at, random());
  return out;
}

inline env::Nanos soon() {
  return env::monotonic_now() + kPatience;
}

template <class T>
T value_of(Result<T> result) {
  EXPECT_TRUE(result) << result.error().to_string();
  return std::move(*result);
}

// One PDU as it came.
struct Received {
  PduHeader header{};
  Bytes head;  // the header, as much as HLEN says
  Bytes data;
  bool closed = false;  // instead of a PDU

  template <class T>
  T as() const {
    T pdu{};
    std::memcpy(&pdu, head.data(), std::min(head.size(), sizeof(T)));
    return pdu;
  }
};

// What a command ended with.
struct Answer {
  Status status;
  std::uint64_t value = 0;
  Bytes data;
  bool success_flag = false;  // there was no response
};

struct QueueOptions {
  std::uint8_t digests = 0;
  std::uint8_t hpda = 0;
  bool sq_flow = false;
  std::uint16_t entries = 32;
  std::uint32_t kato_ms = 0;
  std::string host = kTestHost;
  std::string subsystem;  // empty: the target's
  Id16 host_id{1, 2, 3};
};

}  // namespace larder::nvmf
