// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace larder::base {
namespace {

constexpr std::uint64_t kU64Max = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kI64Max = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kFractionDigitsMax = 3;  // keeps fraction * unit within 64 bits

struct Unit {
  std::string_view name;
  std::uint64_t value;
};

constexpr std::uint64_t kDay = 86'400'000'000'000;

// Largest first: the formatters take the first unit that divides the value.
constexpr std::array<Unit, 7> kSizeUnits = {{{"EiB", 1ULL << 60},
                                             {"PiB", 1ULL << 50},
                                             {"TiB", 1ULL << 40},
                                             {"GiB", 1ULL << 30},
                                             {"MiB", 1ULL << 20},
                                             {"KiB", 1ULL << 10},
                                             {"B", 1}}};
constexpr std::array<Unit, 7> kDurationUnits = {{{"d", kDay},
                                                 {"h", 3'600'000'000'000},
                                                 {"m", 60'000'000'000},
                                                 {"s", 1'000'000'000},
                                                 {"ms", 1'000'000},
                                                 {"us", 1'000},
                                                 {"ns", 1}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "12.5 GiB" cut into 12, 5, 10 and "GiB".
struct Quantity {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;
  std::uint64_t fraction_scale = 1;  // 10^digits
  std::string_view unit;
};

enum class Fault { kGarbage, kOverflow, kFraction };

tl::expected<Quantity, Fault> split_quantity(std::string_view text) {
  text = trim(text);
  Quantity out;
  const char* const end = text.data() + text.size();
  if (text.empty() || !is_digit(text.front())) return tl::unexpected(Fault::kGarbage);
  const auto parsed = std::from_chars(text.data(), end, out.whole);
  if (parsed.ec == std::errc::result_out_of_range) return tl::unexpected(Fault::kOverflow);
  const char* at = parsed.ptr;
  if (at != end && *at == '.') {
    const char* const first = ++at;
    for (; at != end && is_digit(*at); ++at) {
      if (static_cast<std::size_t>(at - first) == kFractionDigitsMax) {
        return tl::unexpected(Fault::kFraction);
      }
      out.fraction = out.fraction * 10 + static_cast<std::uint64_t>(*at - '0');
      out.fraction_scale *= 10;
    }
    if (at == first) return tl::unexpected(Fault::kGarbage);
  }
  out.unit = trim(std::string_view(at, static_cast<std::size_t>(end - at)));
  return out;
}

// whole.fraction * unit, or nothing when it exceeds `max`.
std::optional<std::uint64_t> scale(const Quantity& quantity, std::uint64_t unit,
                                   std::uint64_t max) {
  if (quantity.whole > max / unit) return std::nullopt;
  // Split to stay within 64 bits: unit = a * scale + b, so fraction * unit / scale is the sum
  // below.
  const std::uint64_t high = unit / quantity.fraction_scale * quantity.fraction;
  const std::uint64_t low =
      unit % quantity.fraction_scale * quantity.fraction / quantity.fraction_scale;
  const std::uint64_t base = quantity.whole * unit;
  if (max - base < high + low) return std::nullopt;
  return base + high + low;
}

std::string_view fault_text(Fault fault) {
  switch (fault) {
    case Fault::kGarbage:
      return "does not start with a number";
    case Fault::kOverflow:
      return "is too large";
    case Fault::kFraction:
      return "has more than three digits after the point";
  }
  return "is not valid";
}

std::optional<std::uint64_t> size_unit(std::string_view text) {
  if (text.empty()) return 1;
  const std::string name = lower(text);
  for (const Unit& unit : kSizeUnits) {
    const std::string full = lower(unit.name);  // "gib"
    if (name == full) return unit.value;
    if (unit.value > 1 && name == full.substr(0, 1)) return unit.value;
  }
  constexpr std::string_view kDecimal = "kmgtpe";
  if (name.size() != 2 || name[1] != 'b') return std::nullopt;
  const std::size_t power = kDecimal.find(name[0]);
  if (power == std::string_view::npos) return std::nullopt;
  std::uint64_t value = 1000;
  for (std::size_t i = 0; i < power; ++i) value *= 1000;
  return value;
}

std::optional<std::uint64_t> duration_unit(std::string_view text) {
  if (text == "min") return 60'000'000'000;
  if (text == "\xc2\xb5s") return 1'000;  // U+00B5 MICRO SIGN
  for (const Unit& unit : kDurationUnits) {
    if (text == unit.name) return unit.value;
  }
  return std::nullopt;
}

tl::unexpected<Error> bad(std::string_view kind, std::string_view text, std::string_view why,
                          std::string_view hint) {
  return fail(Code::kInvalidArgument,
              fmt::format("{} {} {}; write for example {}", kind, quoted(text), why, hint));
}

// The value and unit of the largest unit that divides `value` exactly.
template <std::size_t N>
std::string exact(std::uint64_t value, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (value >= unit.value && value % unit.value == 0) {
      return fmt::format("{}{}", value / unit.value, unit.name);
    }
  }
  return fmt::format("0{}", units.back().name);
}

std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

Result<std::uint64_t> parse_u64(std::string_view text) {
  const std::string_view body = trim(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), value);
  if (error == std::errc::result_out_of_range) return bad("number", text, "is too large", "4096");
  if (error != std::errc() || end != body.data() + body.size()) {
    return bad("number", text, "is not made of digits only", "4096");
  }
  return value;
}

Result<bool> parse_bool(std::string_view text) {
  const std::string word = lower(trim(text));
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return bad("switch", text, "is neither true nor false", "true");
}

Result<std::uint64_t> parse_size(std::string_view text) {
  constexpr std::string_view kHint = "512MiB or 4GiB";
  const auto quantity = split_quantity(text);
  if (!quantity) return bad("size", text, fault_text(quantity.error()), kHint);
  const auto unit = size_unit(quantity->unit);
  if (!unit) return bad("size", text, "has an unknown unit", kHint);
  const auto value = scale(*quantity, *unit, kU64Max);
  if (!value) return bad("size", text, "is too large (16 EiB is out of reach)", kHint);
  return *value;
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::string_view kHint = "250us, 10ms, 5s, 2m or 1h";
  const auto quantity = split_quantity(text);
  if (!quantity) return bad("duration", text, fault_text(quantity.error()), kHint);
  if (quantity->unit.empty()) {
    if (quantity->whole == 0 && quantity->fraction == 0) return std::chrono::nanoseconds(0);
    return bad("duration", text, "has no unit", kHint);
  }
  const auto unit = duration_unit(quantity->unit);
  if (!unit) return bad("duration", text, "has an unknown unit", kHint);
  const auto value = scale(*quantity, *unit, kI64Max);
  if (!value) return bad("duration", text, "is too long (292 years is the limit)", kHint);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(*value));
}

Result<double> parse_ratio(std::string_view text) {
  constexpr std::string_view kHint = "85% or 0.85";
  std::string_view body = trim(text);
  const bool percent = !body.empty() && body.back() == '%';
  if (percent) body = trim(body.substr(0, body.size() - 1));
  const bool clean =
      std::all_of(body.begin(), body.end(), [](char c) { return is_digit(c) || c == '.'; });
  double value = 0;
  const char* const last = body.data() + body.size();
  const auto [end, error] = std::from_chars(body.data(), last, value, std::chars_format::fixed);
  if (!clean || error != std::errc() || end != last) {
    return bad("ratio", text, "is not a number", kHint);
  }
  if (percent) value /= 100;
  if (!(value >= 0 && value <= 1)) return bad("ratio", text, "is not within 0% to 100%", kHint);
  return value;
}

std::string format_size(std::uint64_t bytes) {
  return exact(bytes, kSizeUnits);
}

std::string format_duration(std::chrono::nanoseconds value) {
  const std::int64_t count = std::max<std::int64_t>(value.count(), 0);
  return count == 0 ? "0s" : exact(static_cast<std::uint64_t>(count), kDurationUnits);
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = kSizeUnits.size() - 2;
  for (; value >= 1023.5 && unit > 0; --unit) value /= 1024;
  return fmt::format("{} {}", three_digits(value), kSizeUnits[unit].name);
}

std::string human_rate(double bytes_per_second) {
  if (!(bytes_per_second > 0)) return "0 B/s";
  constexpr double kMax = 9.2e18;  // above it the cast below would be undefined
  if (bytes_per_second < 9.995) return fmt::format("{:.2f} B/s", bytes_per_second);
  return human_bytes(static_cast<std::uint64_t>(std::min(bytes_per_second, kMax))) + "/s";
}

std::string human_duration(std::chrono::nanoseconds value) {
  const std::int64_t ns = value.count();
  if (ns < 0) {
    const auto positive = ns == std::numeric_limits<std::int64_t>::min() ? ns + 1 : ns;
    return "-" + human_duration(std::chrono::nanoseconds(-positive));
  }
  const auto real = static_cast<double>(ns);
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (real < 999.5e3) return three_digits(real / 1e3) + " us";
  if (real < 999.5e6) return three_digits(real / 1e6) + " ms";
  const std::int64_t seconds = ns / 1'000'000'000;
  if (seconds < 120) return three_digits(real / 1e9) + " s";
  const std::int64_t minutes = seconds / 60;
  if (minutes < 120) return fmt::format("{}m {:02}s", minutes, seconds % 60);
  const std::int64_t hours = minutes / 60;
  if (hours < 48) return fmt::format("{}h {:02}m", hours, minutes % 60);
  return fmt::format("{}d {:02}h", hours / 24, hours % 24);
}

std::string quoted(std::string_view text, std::size_t bytes_max) {
  std::string out = "'";
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte != 0x7f && c != '\'' && c != '\\';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  out += '\'';
  if (text.size() > bytes_max) out += fmt::format(" and {} more bytes", text.size() - bytes_max);
  return out;
}

}  // namespace larder::base
