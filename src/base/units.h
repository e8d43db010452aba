// SPDX-License-Identifier: Apache-2.0
// Sizes, durations and ratios as people write them, in both directions.
//
// Parsers never guess: garbage, a missing or unknown unit, and overflow are kInvalidArgument with
// a message that names the text and shows a correct one. All functions are pure and thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "larder/status.h"

namespace larder::base {

// Decimal digits only, e.g. "4096". No sign, no unit.
Result<std::uint64_t> parse_u64(std::string_view text);

// "true"/"false", "yes"/"no", "on"/"off", "1"/"0"; any letter case.
Result<bool> parse_bool(std::string_view text);

// Bytes: "4096", "64K" = "64KiB" = "64 KiB" (1024 each), "1.5GiB"; "4GB" is 4 * 1000^3. Units B, K,
// M, G, T, P and E in any letter case; a fraction has at most three digits and the result is
// rounded down to a whole byte.
Result<std::uint64_t> parse_size(std::string_view text);

// "250us", "10ms", "5s", "2m", "1.5h", "1d"; ns, us, ms, s, m (or min), h and d. Only "0" may go
// without a unit. Never negative.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// "85%" or "0.85", both 0.85. Always within 0..1.
Result<double> parse_ratio(std::string_view text);

// The shortest exact text that parses back to the same value: "4GiB", "1500B"; "10ms", "90s".
std::string format_size(std::uint64_t bytes);
std::string format_duration(std::chrono::nanoseconds value);

// Three significant digits for people: "1.50 GiB", "812 B"; "3.21 GiB/s"; "12.3 ms", "2m 05s".
std::string human_bytes(std::uint64_t bytes);
std::string human_rate(double bytes_per_second);
std::string human_duration(std::chrono::nanoseconds value);

// `text` in single quotes for an error message: control bytes and quotes as \xNN, and no more
// than `bytes_max` bytes of it, so that hostile input can neither forge nor flood a log.
std::string quoted(std::string_view text, std::size_t bytes_max = 64);

}  // namespace larder::base
