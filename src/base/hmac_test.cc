// SPDX-License-Identifier: Apache-2.0
#include "base/hmac.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace larder {
namespace {

std::string hex(const Digest256& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : digest) {
    out.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    out.push_back(kDigits[std::to_integer<unsigned>(b) & 15]);
  }
  return out;
}

std::string mac(std::string_view key, std::string_view message) {
  const std::array<std::span<const std::byte>, 1> parts = {as_bytes(message)};
  return hex(hmac_sha256(key, parts));
}

// RFC 4231, test cases 1, 2, 3, 6 and 7.
TEST(Hmac, Rfc4231) {
  EXPECT_EQ(mac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(mac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(mac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(mac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(mac(std::string(131, '\xaa'),
                "This is a test using a larger than block-size key and a larger than block-size "
                "data. The key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, PartsAreOneMessage) {
  const std::array<std::span<const std::byte>, 4> parts = {
      as_bytes("what do "), as_bytes(""), as_bytes("ya want"), as_bytes(" for nothing?")};
  EXPECT_EQ(hex(hmac_sha256("Jefe", parts)), mac("Jefe", "what do ya want for nothing?"));
}

TEST(Hmac, EmptyKeyAndMessage) {
  EXPECT_EQ(hex(hmac_sha256({}, {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Hmac, EqualConstantTime) {
  const auto equal = [](std::string_view a, std::string_view b) {
    return equal_constant_time(as_bytes(a), as_bytes(b));
  };
  EXPECT_TRUE(equal("", ""));
  EXPECT_TRUE(equal("abc", "abc"));
  EXPECT_FALSE(equal("abc", "abd"));
  EXPECT_FALSE(equal("xbc", "abc"));
  EXPECT_FALSE(equal("abc", "ab"));
  EXPECT_FALSE(equal("", "a"));
}

}  // namespace
}  // namespace larder
