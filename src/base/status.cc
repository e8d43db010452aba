// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "larder/status.h"

namespace larder {
namespace {

constexpr std::array<std::string_view, 16> kNames = {
    "ok",        "not_found",         "invalid_argument", "too_large",         "backpressure",
    "conflict",  "deadline_exceeded", "unavailable",      "permission_denied", "corrupt",
    "exhausted", "unsupported",       "cancelled",        "version_mismatch",  "already_exists",
    "internal"};

}  // namespace

std::string_view code_name(Code code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

bool is_retryable(Code code) noexcept {
  return code == Code::kBackpressure || code == Code::kConflict ||
         code == Code::kDeadlineExceeded || code == Code::kUnavailable || code == Code::kExhausted;
}

std::string Error::to_string() const {
  std::string text(code_name(code_));
  if (!message_.empty()) text += ": " + message_;
  return text;
}

}  // namespace larder
