// SPDX-License-Identifier: Apache-2.0
#include "fileio/best_backend.h"

#include <algorithm>
#include <utility>

#include "fileio/pool_backend.h"
#include "fileio/uring_backend.h"

namespace larder::fileio {
namespace {

constexpr std::size_t kPoolThreadsMax = 8;

}  // namespace

Result<std::unique_ptr<IoBackend>> best_backend(std::size_t depth) {
  auto ring = UringBackend::create({.depth = depth});
  if (ring) return std::unique_ptr<IoBackend>(std::move(*ring));
  if (ring.error().code() != Code::kUnsupported) return fail(ring.error());
  LARDER_ASSIGN(auto pool,
                PoolBackend::create({.depth = depth, .threads = std::min(depth, kPoolThreadsMax)}));
  return std::unique_ptr<IoBackend>(std::move(pool));
}

}  // namespace larder::fileio
