// SPDX-License-Identifier: Apache-2.0
// The few operations a replay needs of a store, so that tests can play against a bad one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "larder/client.h"
#include "larder/status.h"

namespace larder::apps {

// One per worker; used by one thread at a time.
class BlockStore {
 public:
  using Keys = std::span<const std::string_view>;

  virtual ~BlockStore() = default;
  // How many keys from the front are there.
  virtual Result<std::size_t> match_prefix(Keys keys) = 0;
  // Key i goes to bytes [i * block_bytes, (i + 1) * block_bytes) of `out`. One answer per key.
  virtual Result<std::vector<GetResult>> get(Keys keys, std::uint64_t block_bytes,
                                             MutableBytes out) = 0;
  // The same the other way. No key twice in one call.
  virtual Result<std::vector<PutResult>> put(Keys keys, std::uint64_t block_bytes,
                                             ConstBytes in) = 0;
  // Memory for the two calls above: `bytes` of it, valid as long as the store. Called once.
  virtual Result<MutableBytes> buffer(std::uint64_t bytes) = 0;
};

// A store that is a node. Each has a client, hence connections, of its own.
Result<std::unique_ptr<BlockStore>> make_client_store(std::unique_ptr<Client> client);

}  // namespace larder::apps
