// SPDX-License-Identifier: Apache-2.0
// Values from and to files and pipes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "larder/client.h"
#include "larder/status.h"

namespace larder::apps {

// A value read piece by piece: growing never copies what is already there.
struct FileValue {
  std::vector<std::vector<std::byte>> pieces;
  std::uint64_t bytes = 0;
  std::vector<ConstBytes> views() const;
};

// The whole of a file, or of stdin when `path` is "" or "-". kTooLarge above `bytes_max` (known
// before reading where the file tells its size), kInvalidArgument when empty or unreadable.
Result<FileValue> read_value(const std::string& path, std::uint64_t bytes_max = kValueBytesMax);

// To a file: written beside it and renamed, so that nobody sees half of it. Devices and pipes are
// written directly. To stdout when `path` is "" or "-".
Result<void> write_value(const std::string& path, ConstBytes bytes);

// Whether a terminal would take these bytes for text.
bool is_text(ConstBytes bytes) noexcept;

}  // namespace larder::apps
