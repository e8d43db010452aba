// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "apps/bench/memory.h"
#include "base/checksum.h"
#include "env/clock.h"

namespace larder::apps {
namespace {

constexpr std::size_t kKeysPerCall = 4096;
constexpr std::uint64_t kStageBytes = 32ULL << 20;

// Tells the keys of this run from those of any other on the same node.
std::uint64_t run_id() {
  static const std::uint64_t id =
      hash64(fmt::format("{}/{}", ::getpid(), env::system_clock().wall()));
  return id;
}

template <class Function>
Result<void> in_calls(std::span<const std::string_view> keys, Function&& function) {
  while (!keys.empty()) {
    const auto some = keys.first(std::min(keys.size(), kKeysPerCall));
    LARDER_TRY(function(some));
    keys = keys.subspan(some.size());
  }
  return {};
}

}  // namespace

KeyList::KeyList(std::string_view group, std::size_t count) {
  const std::string prefix = fmt::format("bench/{:016x}/{}/", run_id(), group);
  const std::size_t length = prefix.size() + 16;
  text_.reserve(length * count);
  for (std::size_t i = 0; i < count; ++i) {
    fmt::format_to(std::back_inserter(text_), "{}{:016x}", prefix, i);
  }
  views_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) views_.emplace_back(text_.data() + i * length, length);
}

Result<Dataset> Dataset::store(Client& client, std::uint64_t value_bytes, std::size_t count) {
  Dataset set;
  set.value_bytes_ = value_bytes;
  set.keys_ = KeyList(fmt::format("set{}", value_bytes), count);
  set.checksums_.resize(count);
  const std::size_t batch = std::clamp<std::size_t>(kStageBytes / value_bytes, 1, kKeysPerCall);
  LARDER_ASSIGN(const Mapping stage, Mapping::private_memory(batch * value_bytes));
  std::vector<ConstBytes> pieces(batch);
  std::vector<PutItem> items(batch);
  for (std::size_t first = 0; first < count; first += batch) {
    const std::size_t n = std::min(batch, count - first);
    for (std::size_t i = 0; i < n; ++i) {
      const auto value = stage.bytes().subspan(i * value_bytes, value_bytes);
      fill_pattern(value, run_id() + first + i);
      set.checksums_[first + i] = checksum64(value);
      pieces[i] = value;
      items[i] = {set.keys()[first + i], std::span(&pieces[i], 1)};
    }
    LARDER_ASSIGN(const auto results, client.put(std::span(items).first(n)));
    LARDER_TRY(first_failure(results, items));
  }
  LARDER_TRY(expect_all(client, set.keys()));
  return set;
}

Result<void> Dataset::remove(Client& client) const {
  return remove_all(client, keys());
}

Result<void> Dataset::check(std::size_t index, ConstBytes value) const {
  if (value.size() == value_bytes_ && checksum64(value) == checksums_[index]) return {};
  return fail(Code::kCorrupt, fmt::format("WRONG BYTES under key '{}' ({} bytes, {} expected)",
                                          keys()[index], value.size(), value_bytes_));
}

Result<void> remove_all(Client& client, std::span<const std::string_view> keys) {
  return in_calls(keys, [&](std::span<const std::string_view> some) -> Result<void> {
    LARDER_ASSIGN(const auto results, client.remove(some));
    for (const RemoveResult& result : results) {
      if (result.code != Code::kOk && result.code != Code::kNotFound) {
        return fail(result.code, "removing benchmark keys: " + result.message);
      }
    }
    return {};
  });
}

Result<void> expect_all(Client& client, std::span<const std::string_view> keys) {
  return in_calls(keys, [&](std::span<const std::string_view> some) -> Result<void> {
    LARDER_ASSIGN(const auto there, client.exists(some));
    const auto missing = std::find(there.begin(), there.end(), false);
    if (missing == there.end()) return {};
    return fail(Code::kExhausted,
                fmt::format("the node does not keep the benchmark's values (key '{}' is gone): "
                            "give it more memory or use a smaller --set-bytes",
                            some[static_cast<std::size_t>(missing - there.begin())]));
  });
}

Result<void> first_failure(std::span<const PutResult> results, std::span<const PutItem> items) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].code == Code::kOk) continue;
    return fail(results[i].code, fmt::format("put of '{}': {}", items[i].key, results[i].message));
  }
  return {};
}

}  // namespace larder::apps
