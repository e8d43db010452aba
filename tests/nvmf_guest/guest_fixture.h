// SPDX-License-Identifier: Apache-2.0
// One guest for all tests of a binary, booted by the first that needs it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "guest_process.h"

namespace larder::nvmf_guest {

class SharedGuest {
 public:
  // Null where there is none: why_not() then begins with "no guest: " (which makes ctest count the
  // binary as skipped) where it is this host that cannot, else it is a fault.
  static GuestProcess* get() {
    if (guest_ != nullptr || impossible_) return guest_.get();
    auto booted = GuestProcess::boot();
    if (booted) {
      guest_ = std::move(*booted);
    } else {
      why_not_ = booted.error().message();
      impossible_ = booted.error().code() == Code::kUnsupported;
    }
    return guest_.get();
  }
  static bool impossible() noexcept { return impossible_; }
  static const std::string& why_not() noexcept { return why_not_; }
  // The next test boots another.
  static void give_up() { guest_.reset(); }

 private:
  inline static std::unique_ptr<GuestProcess> guest_;
  inline static std::string why_not_;
  inline static bool impossible_ = false;
};

class GuestTest : public testing::Test {
 protected:
  void SetUp() override {
    if (SharedGuest::get() != nullptr) return;
    if (SharedGuest::impossible()) GTEST_SKIP() << SharedGuest::why_not();
    FAIL() << SharedGuest::why_not();
  }
  static GuestProcess& guest() { return *SharedGuest::get(); }
};

}  // namespace larder::nvmf_guest
