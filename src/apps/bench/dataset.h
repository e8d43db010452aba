// SPDX-License-Identifier: Apache-2.0
// The values a case reads: their keys, and what must be in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "larder/client.h"
#include "larder/status.h"

namespace larder::apps {

// `count` keys "bench/<run>/<group>/<index>" in one block of memory. Movable.
class KeyList {
 public:
  KeyList() = default;
  KeyList(std::string_view group, std::size_t count);
  std::span<const std::string_view> views() const noexcept { return views_; }
  std::size_t size() const noexcept { return views_.size(); }

 private:
  std::vector<char> text_;
  std::vector<std::string_view> views_;
};

class Dataset {
 public:
  // Stores `count` values of `value_bytes`, all different, and checks that all are there.
  static Result<Dataset> store(Client& client, std::uint64_t value_bytes, std::size_t count);
  Result<void> remove(Client& client) const;
  std::uint64_t value_bytes() const noexcept { return value_bytes_; }
  std::span<const std::string_view> keys() const noexcept { return keys_.views(); }
  // kCorrupt names the key whose value is not what was stored.
  Result<void> check(std::size_t index, ConstBytes value) const;

 private:
  std::uint64_t value_bytes_ = 0;
  KeyList keys_;
  std::vector<std::uint64_t> checksums_;
};

// Removes all of them, some thousands a call. A key that is not there is no error.
Result<void> remove_all(Client& client, std::span<const std::string_view> keys);
// Asks for all of them; kExhausted when one is missing. It also warms the client's route cache.
Result<void> expect_all(Client& client, std::span<const std::string_view> keys);
// The first item that failed, as an error that names its key.
Result<void> first_failure(std::span<const PutResult> results, std::span<const PutItem> items);

}  // namespace larder::apps
