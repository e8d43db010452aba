// SPDX-License-Identifier: Apache-2.0
// One process owns a device.
#pragma once

#include "fileio/file.h"
#include "larder/status.h"

namespace larder::block {

// Locks it (flock) for as long as `file` is open. Advisory: it keeps out those who ask, which every
// Larder does. kConflict: another has it, with the number of its process where that can be known.
// kUnsupported: its file system has no locks.
Result<void> lock_device(const fileio::File& file);

}  // namespace larder::block
