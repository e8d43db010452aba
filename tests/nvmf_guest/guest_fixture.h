// SPDX-License-Identifier: Apache-2.0
// One guest for all tests of a binary, booted by the first that needs it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "guest_process.h"

namespace larder::nvmf_guest {

// ctest counts a binary as skipped that prints "no guest: ".
class GuestTest : public testing::Test {
 protected:
  void SetUp() override {
    if (impossible_) GTEST_SKIP() << why_not_;
    if (guest_ != nullptr) return;
    auto booted = GuestProcess::boot();
    if (booted) {
      guest_ = std::move(*booted);
      return;
    }
    why_not_ = booted.error().message();
    impossible_ = booted.error().code() == Code::kUnsupported;
    if (impossible_) GTEST_SKIP() << why_not_;
    FAIL() << why_not_;
  }

  static GuestProcess& guest() { return *guest_; }
  // The next test boots another.
  static void give_up_guest() { guest_.reset(); }

 private:
  inline static std::unique_ptr<GuestProcess> guest_;
  inline static std::string why_not_;
  inline static bool impossible_ = false;
};

}  // namespace larder::nvmf_guest
