// SPDX-License-Identifier: Apache-2.0
#include "transfer/config_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "base/units.h"
#include "transfer/policy.h"

namespace larder::transfer {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;
constexpr int kPolicyNodesMax = 65536;

// One value of the file, with its place for messages.
struct Field {
  const std::string& path;
  const std::string& key;
  const YAML::Node& node;

  tl::unexpected<Error> wrong(const std::string& what) const {
    return fail(Code::kInvalidArgument,
                path + ":" + std::to_string(node.Mark().line + 1) + ": '" + key + "': " + what);
  }
  Result<std::string> text() const {
    if (!node.IsScalar()) return wrong("one value is needed");
    return node.Scalar();
  }
  template <class T, class Parse>
  Result<void> parse(Parse parser, T& into) const {
    LARDER_ASSIGN(const std::string value, text());
    auto parsed = parser(value);
    if (!parsed) return wrong(parsed.error().message());
    into = static_cast<T>(*parsed);
    return {};
  }
  template <class T>
  Result<void> number(T& into, std::uint64_t max) const {
    LARDER_ASSIGN(const std::string value, text());
    const auto parsed = base::parse_u64(value);
    if (!parsed) return wrong(parsed.error().message());
    if (*parsed > max) return wrong("at most " + std::to_string(max));
    into = static_cast<T>(*parsed);
    return {};
  }
  Result<void> size(std::uint64_t& into) const { return parse(base::parse_size, into); }
  Result<void> flag(bool& into) const { return parse(base::parse_bool, into); }
  Result<void> duration(std::chrono::milliseconds& into) const {
    std::chrono::nanoseconds value{};
    LARDER_TRY(parse(base::parse_duration, value));
    into = std::chrono::duration_cast<std::chrono::milliseconds>(value);
    return {};
  }
  Result<void> list(std::vector<std::string>& into) const {
    if (!node.IsSequence()) return wrong("a list is needed, like [cpu, cuda]");
    into.clear();
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) return wrong("the items of the list are single values");
      into.push_back(item.Scalar());
    }
    return {};
  }
};

// Aliases make a small text a huge tree: it is walked with a limit before it is written out.
bool is_small(const YAML::Node& node, int& nodes_left) {
  if (--nodes_left < 0) return false;
  for (const auto& child : node) {
    if (node.IsSequence() && !is_small(child, nodes_left)) return false;
    if (node.IsMap() &&
        (!is_small(child.first, nodes_left) || !is_small(child.second, nodes_left))) {
      return false;
    }
  }
  return true;
}

// The rules have a parser of their own, which wants them under their key.
Result<void> take_policy(const Field& field, TransferConfig& config) {
  int nodes_left = kPolicyNodesMax;
  if (!is_small(field.node, nodes_left)) return field.wrong("too many values");
  YAML::Emitter text;
  text << YAML::BeginMap << YAML::Key << "policy" << YAML::Value << field.node << YAML::EndMap;
  config.policy = text.c_str();
  config.policy_source = field.path + " (policy)";
  LARDER_TRY(Policy::parse(config.policy, config.policy_source));
  return {};
}

Result<void> take(const Field& field, TransferConfig& config) {
  constexpr std::uint64_t kCountMax = 1U << 24;
  const std::string& key = field.key;
  if (key == "policy") return take_policy(field, config);
  if (key == "platforms") return field.list(config.platforms);
  if (key == "transports") return field.list(config.transports);
  if (key == "listen") return field.list(config.listen);
  if (key == "token_file")
    return field.parse([](auto v) { return Result<std::string>(v); }, config.token_file);
  if (key == "insecure") return field.flag(config.insecure);
  if (key == "streams") return field.number(config.streams, kCountMax);
  if (key == "peer_timeout") return field.duration(config.peer_timeout);
  if (key == "copy_workers") return field.number(config.copy_workers, kCountMax);
  if (key == "file_workers") return field.number(config.file_workers, kCountMax);
  if (key == "file_depth") return field.number(config.file_depth, kCountMax);
  if (key == "io_uring") return field.flag(config.io_uring);
  if (key == "high_slice_bytes") return field.size(config.high_slice_bytes);
  if (key == "low_slice_bytes") return field.size(config.low_slice_bytes);
  if (key == "quarantine_bytes_max") return field.size(config.quarantine_bytes_max);
  if (key == "batches_max") return field.number(config.batches_max, kCountMax);
  if (key == "drain_timeout") return field.duration(config.drain_timeout);
  return field.wrong("no such key; docs/transfer.md lists them");
}

Result<TransferConfig> read(const std::string& path, const std::string& text) {
  TransferConfig config;
  const YAML::Node root = YAML::Load(text);
  if (!root.IsMap()) {
    return fail(Code::kInvalidArgument, path + ": a mapping of keys and values is needed");
  }
  std::vector<std::string> seen;
  for (const auto& entry : root) {
    if (!entry.first.IsScalar()) return fail(Code::kInvalidArgument, path + ": a key is no text");
    const std::string key = entry.first.Scalar();
    const Field field{path, key, entry.second};
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) return field.wrong("given twice");
    seen.push_back(key);
    LARDER_TRY(take(field, config));
  }
  return config;
}

}  // namespace

Result<TransferConfig> load_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Code::kNotFound, path + ": cannot be read");
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_config(text, path);
}

Result<TransferConfig> parse_config(const std::string& text, const std::string& source) {
  if (text.size() > kFileBytesMax) {
    return fail(Code::kInvalidArgument, source + ": more than 1 MiB");
  }
  // yaml-cpp throws.
  try {
    return read(source, text);
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalidArgument,
                source + ":" + std::to_string(error.mark.line + 1) + ": " + error.msg);
  }
}

}  // namespace larder::transfer
