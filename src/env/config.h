// SPDX-License-Identifier: Apache-2.0
// Typed configuration: one table of keys, filled from defaults, then a YAML file, then flags.
//
//   Options options;
//   ConfigSchema schema;
//   schema.add_size("hot.capacity", "4GiB", {.min = 1 << 20}, "bytes of DRAM to use",
//                   into(options.hot_capacity));
//   LARDER_ASSIGN(Config config, Config::create(std::move(schema)));   // defaults are in `options`
//   LARDER_TRY(config.load_file("/etc/larder.yaml"));
//   LARDER_TRY(config.set("hot.capacity", "8GiB", "--hot.capacity"));
//
// Every value from anywhere passes the same checks. Errors are kInvalidArgument and name the place
// (`file:line` or the flag), the key, what was found and what is allowed. A load or set that fails
// changes nothing. The later call wins, so load the file first. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "larder/status.h"

namespace larder::env {

enum class ConfigType : std::uint8_t {
  kString,
  kBool,
  kU64,
  kRatio,
  kSize,
  kDuration,
  kEnum,
  kList,
};

using ConfigValue = std::variant<std::string, bool, std::uint64_t, double, std::chrono::nanoseconds,
                                 std::vector<std::string>>;

// Both ends are allowed values.
struct U64Range {
  std::uint64_t min = 0;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
};
struct DurationRange {
  std::chrono::nanoseconds min{0};
  std::chrono::nanoseconds max = std::chrono::nanoseconds::max();
};
struct RatioRange {
  double min = 0;
  double max = 1;
};
// Text is one line: control characters are refused.
struct TextRange {
  std::size_t bytes_min = 0;
  std::size_t bytes_max = 4096;
};
struct ListRange {
  std::size_t items_min = 0;
  std::size_t items_max = 256;
};

// One key as help texts need it.
struct ConfigKey {
  std::string name;          // "hot.capacity": lower_snake parts joined by dots
  ConfigType type{};         //
  std::string default_text;  // as a flag would give it
  std::string help;          // one line
  std::string allowed;       // "a size from 1MiB to 1TiB, like 512MiB"
};

// The table of keys. Setters are called with each accepted value, the default first.
class ConfigSchema {
 public:
  template <class T>
  using Setter = std::function<void(T)>;

  ConfigSchema& add_string(std::string name, std::string fallback, TextRange range,
                           std::string help, Setter<std::string> setter);
  ConfigSchema& add_bool(std::string name, bool fallback, std::string help, Setter<bool> setter);
  ConfigSchema& add_u64(std::string name, std::uint64_t fallback, U64Range range, std::string help,
                        Setter<std::uint64_t> setter);
  ConfigSchema& add_ratio(std::string name, std::string fallback, RatioRange range,
                          std::string help, Setter<double> setter);
  ConfigSchema& add_size(std::string name, std::string fallback, U64Range range, std::string help,
                         Setter<std::uint64_t> setter);
  ConfigSchema& add_duration(std::string name, std::string fallback, DurationRange range,
                             std::string help, Setter<std::chrono::nanoseconds> setter);
  ConfigSchema& add_enum(std::string name, std::string fallback, std::vector<std::string> choices,
                         std::string help, Setter<std::string> setter);
  // A YAML sequence; as a flag, items between commas (so no item holds a comma).
  ConfigSchema& add_list(std::string name, std::string fallback, ListRange range, std::string help,
                         Setter<std::vector<std::string>> setter);

 private:
  friend class Config;
  struct Entry {
    ConfigKey key;
    U64Range number;  // also sizes, durations in ns, text bytes and list items
    RatioRange ratio;
    std::vector<std::string> choices;
    std::function<void(const ConfigValue&)> apply;
  };
  ConfigSchema& add(Entry entry);
  static Result<ConfigValue> parse(const Entry& entry, const std::vector<std::string>& items);
  static Result<ConfigValue> parse_scalar(const Entry& entry, const std::string& text);
  static Result<void> check(const Entry& entry);

  std::vector<Entry> entries_;
};

// A setter that assigns to `field`, which must outlive the Config. Durations convert to the field's
// own unit, rounding down.
template <class T>
auto into(T& field) {
  return [&field]<class V>(V&& value) {
    using Value = std::remove_cvref_t<V>;
    if constexpr (std::is_same_v<Value, std::chrono::nanoseconds>) {
      field = std::chrono::duration_cast<T>(value);
    } else {
      field = static_cast<T>(std::forward<V>(value));
    }
  };
}

class Config {
 public:
  static constexpr std::size_t kFileBytesMax = 1 << 20;
  static constexpr std::size_t kDepthMax = 16;   // of nested YAML
  static constexpr std::size_t kKeysMax = 1024;  // in a schema

  // Checks the table itself and applies every default. A mistake in the table (a default that is
  // out of bounds, a key given twice) is kInternal.
  static Result<Config> create(ConfigSchema schema);

  // YAML 1.2 text; `filename` is for messages. Nested maps and dotted keys mean the same. Refused:
  // unknown keys (with a suggestion), keys given twice, aliases, anchors, tags, a second document,
  // more than kFileBytesMax.
  Result<void> load_yaml(std::string_view text, std::string_view filename);
  Result<void> load_file(const std::string& path);
  // `origin` names the source in messages and dump(), e.g. "--hot.capacity".
  Result<void> set(std::string_view name, std::string_view text, std::string_view origin);

  // Sorted by name; valid as long as the Config.
  std::vector<const ConfigKey*> keys() const;
  // The effective configuration as YAML that load_yaml() takes, each value with its origin as a
  // comment.
  std::string dump() const;

 private:
  struct Item {
    ConfigSchema::Entry entry;
    ConfigValue value;
    std::string origin;
  };
  Config() = default;
  Result<void> apply(Item& item, ConfigValue value, std::string origin);
  tl::unexpected<Error> unknown_key(std::string_view where, std::string_view name) const;
  bool is_section(std::string_view name) const;

  std::map<std::string, Item, std::less<>> items_;
};

}  // namespace larder::env
