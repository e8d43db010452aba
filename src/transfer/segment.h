// SPDX-License-Identifier: Apache-2.0
// What a transfer can aim at: this process's memory, a file, a peer's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "larder/transfer.h"

namespace larder::fileio {
class File;
}

namespace larder::transfer {

class Peer;

struct Segment {
  SegmentId id;
  SegmentType type = SegmentType::kMemory;
  std::string name;
  bool same_process = false;
  bool same_machine = false;
  std::shared_ptr<fileio::File> file;  // kFile
  std::shared_ptr<Peer> peer;          // kMemory of another process
};

// The open segments of an engine. Any thread. A closed one lives on while transfers hold it.
class SegmentTable {
 public:
  static constexpr std::size_t kSegmentsMax = 65536;

  SegmentTable();
  // kExhausted.
  Result<SegmentId> add(Segment segment);
  // kInvalidArgument for the local one, kNotFound.
  Result<void> remove(SegmentId id);
  // Null: never opened, or closed.
  std::shared_ptr<const Segment> find(SegmentId id) const;
  std::size_t size() const;

 private:
  struct Slot {
    std::uint32_t generation = 0;
    std::shared_ptr<const Segment> segment;
  };
  mutable std::shared_mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace larder::transfer
