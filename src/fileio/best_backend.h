// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "fileio/io_backend.h"

namespace larder::fileio {

// io_uring, or where that is forbidden a pool of threads. `depth`: operations in flight, 1 to 4096.
// kExhausted: descriptors, memory, threads; kInvalidArgument: the depth.
Result<std::unique_ptr<IoBackend>> best_backend(std::size_t depth);

}  // namespace larder::fileio
