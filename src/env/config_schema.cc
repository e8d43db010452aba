// SPDX-License-Identifier: Apache-2.0
// The table of keys: what each one allows, and parsing one value against it.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "env/config.h"

namespace larder::env {
namespace {

constexpr std::size_t kNameBytesMax = 128;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

using std::chrono::nanoseconds;

nanoseconds to_ns(std::uint64_t count) {
  return nanoseconds(static_cast<std::int64_t>(count));
}
std::uint64_t to_count(nanoseconds value) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(value.count(), 0));
}

// " from 1MiB to 1TiB", or less where an end is open.
template <class Format>
std::string span_text(std::uint64_t min, std::uint64_t max, std::uint64_t open_max, Format format) {
  if (max >= open_max && min == 0) return "";
  if (max >= open_max) return fmt::format(" of at least {}", format(min));
  return fmt::format(" from {} to {}", format(min), format(max));
}

std::string plain(std::uint64_t value) {
  return fmt::format("{}", value);
}

std::string list_span(U64Range range) {
  return fmt::format("a list of {} to {} items (as a flag: a,b,c)", range.min, range.max);
}

std::string percent(double ratio) {
  return fmt::format("{:g}%", ratio * 100);
}

bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

bool is_key_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  char last = '.';
  for (const char c : name) {
    const bool letter = c >= 'a' && c <= 'z';
    const bool inner = (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (!letter && (last == '.' || !inner)) return false;
    last = c;
  }
  return last != '.';
}

tl::unexpected<Error> not_allowed(std::string why) {
  return fail(Code::kInvalidArgument, std::move(why));
}

// Wraps a typed setter for the table.
template <class T>
std::function<void(const ConfigValue&)> erase(ConfigSchema::Setter<T> setter) {
  if (!setter) return nullptr;
  return [setter = std::move(setter)](const ConfigValue& value) { setter(std::get<T>(value)); };
}

ConfigKey make_key(std::string name, ConfigType type, std::string fallback, std::string help,
                   std::string allowed) {
  return {std::move(name), type, std::move(fallback), std::move(help), std::move(allowed)};
}

}  // namespace

ConfigSchema& ConfigSchema::add(Entry entry) {
  entries_.push_back(std::move(entry));
  return *this;
}

ConfigSchema& ConfigSchema::add_string(std::string name, std::string fallback, TextRange range,
                                       std::string help, Setter<std::string> setter) {
  const U64Range bytes{range.bytes_min, range.bytes_max};
  const std::string allowed = fmt::format("text of {} to {} bytes", bytes.min, bytes.max);
  return add({make_key(std::move(name), ConfigType::kString, std::move(fallback), std::move(help),
                       allowed),
              bytes,
              {},
              {},
              erase(std::move(setter))});
}

ConfigSchema& ConfigSchema::add_bool(std::string name, bool fallback, std::string help,
                                     Setter<bool> setter) {
  return add({make_key(std::move(name), ConfigType::kBool, fallback ? "true" : "false",
                       std::move(help), "true or false"),
              {},
              {},
              {},
              erase(std::move(setter))});
}

ConfigSchema& ConfigSchema::add_u64(std::string name, std::uint64_t fallback, U64Range range,
                                    std::string help, Setter<std::uint64_t> setter) {
  const std::string allowed = "a number" + span_text(range.min, range.max, kNoLimit, plain);
  return add(
      {make_key(std::move(name), ConfigType::kU64, plain(fallback), std::move(help), allowed),
       range,
       {},
       {},
       erase(std::move(setter))});
}

ConfigSchema& ConfigSchema::add_ratio(std::string name, std::string fallback, RatioRange range,
                                      std::string help, Setter<double> setter) {
  const std::string allowed =
      fmt::format("a ratio from {} to {}", percent(range.min), percent(range.max));
  return add(
      {make_key(std::move(name), ConfigType::kRatio, std::move(fallback), std::move(help), allowed),
       {},
       range,
       {},
       erase(std::move(setter))});
}

ConfigSchema& ConfigSchema::add_size(std::string name, std::string fallback, U64Range range,
                                     std::string help, Setter<std::uint64_t> setter) {
  const std::string allowed =
      "a size" + span_text(range.min, range.max, kNoLimit, base::format_size) + ", like 512MiB";
  return add(
      {make_key(std::move(name), ConfigType::kSize, std::move(fallback), std::move(help), allowed),
       range,
       {},
       {},
       erase(std::move(setter))});
}

ConfigSchema& ConfigSchema::add_duration(std::string name, std::string fallback,
                                         DurationRange range, std::string help,
                                         Setter<std::chrono::nanoseconds> setter) {
  const U64Range count{to_count(range.min), to_count(range.max)};
  const auto format = [](std::uint64_t ns) { return base::format_duration(to_ns(ns)); };
  const std::string allowed =
      "a duration" + span_text(count.min, count.max, to_count(nanoseconds::max()), format) +
      ", like 250us or 5s";
  return add({make_key(std::move(name), ConfigType::kDuration, std::move(fallback), std::move(help),
                       allowed),
              count,
              {},
              {},
              erase(std::move(setter))});
}

ConfigSchema& ConfigSchema::add_enum(std::string name, std::string fallback,
                                     std::vector<std::string> choices, std::string help,
                                     Setter<std::string> setter) {
  const std::string allowed = fmt::format("one of {}", fmt::join(choices, ", "));
  return add(
      {make_key(std::move(name), ConfigType::kEnum, std::move(fallback), std::move(help), allowed),
       {},
       {},
       std::move(choices),
       erase(std::move(setter))});
}

ConfigSchema& ConfigSchema::add_list(std::string name, std::string fallback, ListRange range,
                                     std::string help, Setter<std::vector<std::string>> setter) {
  const U64Range items{range.items_min, range.items_max};
  return add({make_key(std::move(name), ConfigType::kList, std::move(fallback), std::move(help),
                       list_span(items)),
              items,
              {},
              {},
              erase(std::move(setter))});
}

Result<ConfigValue> ConfigSchema::parse_scalar(const Entry& entry, const std::string& text) {
  const auto in_range = [&entry](std::uint64_t value) {
    return value >= entry.number.min && value <= entry.number.max;
  };
  const auto outside = [] { return not_allowed("out of bounds"); };
  switch (entry.key.type) {
    case ConfigType::kString:
      if (!is_one_line(text)) return not_allowed("control characters");
      if (!in_range(text.size())) return not_allowed(fmt::format("{} bytes", text.size()));
      return text;
    case ConfigType::kBool: {
      LARDER_ASSIGN(const bool value, base::parse_bool(text));
      return value;
    }
    case ConfigType::kU64:
    case ConfigType::kSize: {
      const bool size = entry.key.type == ConfigType::kSize;
      LARDER_ASSIGN(const std::uint64_t value,
                    size ? base::parse_size(text) : base::parse_u64(text));
      if (!in_range(value)) return outside();
      return value;
    }
    case ConfigType::kRatio: {
      LARDER_ASSIGN(const double value, base::parse_ratio(text));
      if (value < entry.ratio.min || value > entry.ratio.max) return outside();
      return value;
    }
    case ConfigType::kDuration: {
      LARDER_ASSIGN(const nanoseconds value, base::parse_duration(text));
      if (!in_range(to_count(value))) return outside();
      return value;
    }
    case ConfigType::kEnum:
      if (std::find(entry.choices.begin(), entry.choices.end(), text) == entry.choices.end()) {
        return not_allowed("no such choice");
      }
      return text;
    case ConfigType::kList:
      break;
  }
  return not_allowed("a single value");
}

Result<ConfigValue> ConfigSchema::parse(const Entry& entry, const std::vector<std::string>& items) {
  if (entry.key.type != ConfigType::kList) return parse_scalar(entry, items.front());
  if (items.size() < entry.number.min || items.size() > entry.number.max) {
    return not_allowed(fmt::format("{} items", items.size()));
  }
  constexpr std::size_t kItemBytesMax = 4096;
  for (const std::string& item : items) {
    const bool plain_text = is_one_line(item) && item.find(',') == std::string::npos;
    if (item.empty() || item.size() > kItemBytesMax || !plain_text) {
      return not_allowed("item " + base::quoted(item) +
                         " is empty, too long, or holds a comma or control character");
    }
  }
  return items;
}

Result<void> ConfigSchema::check(const Entry& entry) {
  const auto wrong = [&entry](std::string_view why) {
    return fail(Code::kInternal,
                fmt::format("config table, key {}: {}", base::quoted(entry.key.name), why));
  };
  if (!is_key_name(entry.key.name)) return wrong("not lower_snake parts joined by dots");
  if (!is_one_line(entry.key.help)) return wrong("the help is not one line");
  if (!entry.apply) return wrong("there is no setter");
  if (entry.key.type == ConfigType::kEnum && entry.choices.empty()) return wrong("no choices");
  return {};
}

}  // namespace larder::env
