// SPDX-License-Identifier: Apache-2.0
// Errors are values: every call that can fail returns Result<T>. No exception leaves a library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace larder {

// What the caller may do next, not where it broke. Numbers travel on the wire: append only.
enum class Code : std::uint16_t {
  kOk = 0,
  kNotFound = 1,          // no such object; compute it yourself
  kInvalidArgument = 2,   // the call is wrong; retrying the same call cannot work
  kTooLarge = 3,          // can never fit; the message says the limit
  kBackpressure = 4,      // full for now: nothing could be evicted; retry later or go without
  kConflict = 5,          // someone else changed it; look again and retry
  kDeadlineExceeded = 6,  // no answer in time; the call may or may not have happened
  kUnavailable = 7,       // no node there, or it went away; retry elsewhere or later
  kPermissionDenied = 8,  // refused: wrong token, wrong user, sealed memory
  kCorrupt = 9,           // bytes failed their checksum or a peer broke the protocol
  kExhausted = 10,        // a local limit was hit (descriptors, memory, connections)
  kUnsupported = 11,      // this build, host or peer cannot do that
  kCancelled = 12,        // stopped on request or by shutdown
  kVersionMismatch = 13,  // the peer speaks another protocol version
  kAlreadyExists = 14,    // put with if_absent found another value under the key
  kInternal = 15,         // a bug here; please report it
};

// Stable lower-case name, e.g. "not_found". Unknown numbers give "unknown".
std::string_view code_name(Code code) noexcept;

// True for errors after which the same call may succeed later.
bool is_retryable(Code code) noexcept;

// One error: the code says what to do, the message says what, where and how to mend it.
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  explicit Error(Code code) : code_(code) {}

  Code code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  // "not_found: key 'a/b' is not stored here"
  std::string to_string() const;

 private:
  Code code_;
  std::string message_;
};

template <class T>
using Result = tl::expected<T, Error>;

// `return fail(Code::kNotFound, "...")` from any function that returns a Result.
inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}
inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace larder

// The two macros of the tree: leave on error, or unpack the value and go on.
#define LARDER_CONCAT_(a, b) a##b
#define LARDER_CONCAT(a, b) LARDER_CONCAT_(a, b)
#define LARDER_TRY(expr)                                     \
  do {                                                       \
    if (auto larder_try_ = (expr); !larder_try_) {           \
      return ::larder::fail(std::move(larder_try_).error()); \
    }                                                        \
  } while (false)
#define LARDER_ASSIGN(decl, expr) \
  LARDER_ASSIGN_(decl, expr, LARDER_CONCAT(larder_assign_, __LINE__))
#define LARDER_ASSIGN_(decl, expr, tmp)                    \
  auto tmp = (expr);                                       \
  if (!tmp) return ::larder::fail(std::move(tmp).error()); \
  decl = std::move(*tmp)
