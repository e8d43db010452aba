// SPDX-License-Identifier: Apache-2.0
#include "env/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <numeric>

#include "base/units.h"
#include "env/config_yaml.h"

namespace larder::env {
namespace {

constexpr std::size_t kSuggestBytesMax = 128;  // the distance below costs the product of lengths

// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    out.emplace_back(text.substr(0, comma));
    if (comma + 1 == text.size()) out.emplace_back();  // "a," ends with an empty item: refused
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

std::vector<std::string> to_items(ConfigType type, std::string_view text) {
  if (type == ConfigType::kList) return split_list(text);
  return {std::string(text)};
}

// "larder.yaml:3: hot.capacity: found '9Q' (...); allowed is a size from ..."
tl::unexpected<Error> bad_value(std::string_view where, const ConfigKey& key,
                                std::string_view found, std::string_view why) {
  return fail(Code::kInvalidArgument, fmt::format("{}: {}: found {} ({}); allowed is {}", where,
                                                  key.name, found, why, key.allowed));
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

struct YamlWriter {
  ConfigType type;
  std::string operator()(const std::string& text) const {
    return type == ConfigType::kEnum ? text : in_quotes(text);
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::uint64_t value) const {
    return type == ConfigType::kSize ? base::format_size(value) : fmt::format("{}", value);
  }
  std::string operator()(double value) const {  // never with an exponent: 1e-05 is no ratio
    std::array<char, 512> text{};
    const auto end =
        std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    return std::string(text.data(), end.ptr);
  }
  std::string operator()(std::chrono::nanoseconds value) const {
    return base::format_duration(value);
  }
  std::string operator()(const std::vector<std::string>& items) const {
    std::string out = "[";
    for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + in_quotes(item);
    return out + ']';
  }
};

std::string kind_text(const YamlLeaf& leaf) {
  if (leaf.kind == YamlLeaf::Kind::kNull) return "no value";
  if (leaf.kind == YamlLeaf::Kind::kSequence) return "a list";
  return base::quoted(leaf.items.front());
}

std::string clean_origin(std::string_view text) {
  std::string out(text.substr(0, 256));
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) c = '?';
  }
  return out;
}

}  // namespace

Result<Config> Config::create(ConfigSchema schema) {
  Config config;
  if (schema.entries_.size() > kKeysMax) return fail(Code::kInternal, "config table: too large");
  for (ConfigSchema::Entry& entry : schema.entries_) {
    LARDER_TRY(ConfigSchema::check(entry));
    const std::string name = entry.key.name;
    auto value = ConfigSchema::parse(entry, to_items(entry.key.type, entry.key.default_text));
    if (!value) {
      return fail(Code::kInternal, fmt::format("config table, key '{}': the default is refused: {}",
                                               name, value.error().message()));
    }
    const auto [at, added] =
        config.items_.emplace(name, Item{std::move(entry), *std::move(value), "default"});
    if (!added) return fail(Code::kInternal, "config table: key '" + name + "' is given twice");
  }
  for (auto& [name, item] : config.items_) {
    if (config.is_section(name)) {
      return fail(Code::kInternal, "config table: '" + name + "' is both a key and a section");
    }
    LARDER_TRY(config.apply(item, item.value, item.origin));
  }
  return config;
}

Result<void> Config::apply(Item& item, ConfigValue value, std::string origin) {
  try {
    item.entry.apply(value);
  } catch (const std::exception& e) {
    return fail(Code::kInternal,
                fmt::format("{}: the setter failed: {}", item.entry.key.name, e.what()));
  }
  item.value = std::move(value);
  item.origin = std::move(origin);
  return {};
}

bool Config::is_section(std::string_view name) const {
  const std::string prefix = std::string(name) + '.';
  const auto next = items_.lower_bound(prefix);
  return next != items_.end() && next->first.starts_with(prefix);
}

tl::unexpected<Error> Config::unknown_key(std::string_view where, std::string_view name) const {
  std::string text = fmt::format("{}: unknown key {}", where, base::quoted(name, kSuggestBytesMax));
  if (is_section(name)) {
    text += "; it is a section, its keys are inside it";
  } else if (name.size() <= kSuggestBytesMax) {
    std::string_view best;
    std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
    for (const auto& [known, item] : items_) {
      const std::size_t distance = edit_distance(name, known);
      if (distance < best_distance) {
        best_distance = distance;
        best = known;
      }
    }
    if (!best.empty()) text += fmt::format("; did you mean '{}'?", best);
  }
  return fail(Code::kInvalidArgument, std::move(text));
}

Result<void> Config::set(std::string_view name, std::string_view text, std::string_view origin) {
  const std::string source =
      clean_origin(origin.empty() ? fmt::format("--{}", name) : std::string(origin));
  const auto found = items_.find(name);
  if (found == items_.end()) return unknown_key(source, name);
  Item& item = found->second;
  const ConfigKey& key = item.entry.key;
  auto value = ConfigSchema::parse(item.entry, to_items(key.type, text));
  if (!value) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}={}: {}; allowed is {}", source, base::quoted(text),
                            value.error().message(), key.allowed));
  }
  return apply(item, *std::move(value), source);
}

Result<void> Config::load_yaml(std::string_view text, std::string_view filename) {
  const std::string file = clean_origin(filename);
  if (text.size() > kFileBytesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: larger than {}", file, base::format_size(kFileBytesMax)));
  }
  if (text.find('\0') != std::string_view::npos) {
    return fail(Code::kInvalidArgument, fmt::format("{}: holds NUL bytes; not a text file", file));
  }
  LARDER_ASSIGN(const auto leaves, flatten_yaml(text, file, kDepthMax));
  struct Change {
    Item* item;
    ConfigValue value;
    std::string origin;
  };
  std::vector<Change> changes;  // applied only when all of them are good
  std::map<std::string_view, int> seen;
  for (const YamlLeaf& leaf : leaves) {
    const std::string where = fmt::format("{}:{}", file, leaf.line);
    const auto [first, added] = seen.emplace(leaf.name, leaf.line);
    if (!added) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: key {} is given twice, first in line {}", where,
                              base::quoted(leaf.name), first->second));
    }
    const auto found = items_.find(leaf.name);
    if (found == items_.end()) {
      const bool empty_section = leaf.kind == YamlLeaf::Kind::kNull && is_section(leaf.name);
      if (empty_section) continue;
      return unknown_key(where, leaf.name);
    }
    const ConfigKey& key = found->second.entry.key;
    const bool list = key.type == ConfigType::kList;
    if (leaf.kind == YamlLeaf::Kind::kNull || (leaf.kind == YamlLeaf::Kind::kSequence) != list) {
      return bad_value(where, key, kind_text(leaf), "the wrong kind");
    }
    auto value = ConfigSchema::parse(found->second.entry, leaf.items);
    if (!value) return bad_value(where, key, kind_text(leaf), value.error().message());
    changes.push_back({&found->second, *std::move(value), where});
  }
  for (Change& change : changes) {
    LARDER_TRY(apply(*change.item, std::move(change.value), std::move(change.origin)));
  }
  return {};
}

Result<void> Config::load_file(const std::string& path) {
  const auto unreadable = [&path](int error) {
    return fail(Code::kInvalidArgument,
                fmt::format("cannot read the config file {}: {}", base::quoted(path, 512),
                            error != 0 ? std::strerror(error) : "not a regular file"));
  };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return unreadable(errno);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return unreadable(errno);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return load_yaml(text, path);
}

std::vector<const ConfigKey*> Config::keys() const {
  std::vector<const ConfigKey*> out;
  out.reserve(items_.size());
  for (const auto& [name, item] : items_) out.push_back(&item.entry.key);
  return out;
}

std::string Config::dump() const {
  std::string out;
  std::vector<std::string> open;  // the sections around the last line
  for (const auto& [name, item] : items_) {
    std::string_view rest = name;
    std::size_t depth = 0;
    for (std::size_t dot; (dot = rest.find('.')) != std::string_view::npos; ++depth) {
      const std::string section(rest.substr(0, dot));
      rest.remove_prefix(dot + 1);
      if (depth < open.size() && open[depth] == section) continue;
      open.resize(depth);
      open.push_back(section);
      out += fmt::format("{:{}}{}:\n", "", depth * 2, section);
    }
    open.resize(depth);
    const std::string text = std::visit(YamlWriter{item.entry.key.type}, item.value);
    out += fmt::format("{:{}}{}: {}  # {}\n", "", depth * 2, rest, text, item.origin);
  }
  return out;
}

}  // namespace larder::env
