// SPDX-License-Identifier: Apache-2.0
// The platforms of a process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "platform/cpu.h"
#include "platform/cuda.h"
#include "platform/platform.h"
#include "platform/sim.h"

namespace larder::platform {

// One entry of the list of platforms in a configuration.
struct PlatformSpec {
  std::string name;  // "cpu", "cuda", "sim-cuda" or "sim-npu"
  MemoryType type = MemoryType::kCpu;
  int devices = 1;  // of a simulated one
  bool operator==(const PlatformSpec&) const = default;
};

// ["cpu", "cuda", "sim-npu:2"]: names, and how many devices a simulated platform has (1 if not
// said). kInvalidArgument: an unknown name, a number that is none or does not belong there, or two
// platforms for one type of memory. Pure; any thread.
Result<std::vector<PlatformSpec>> parse_platforms(std::span<const std::string> names);

struct PlatformSetOptions {
  CpuOptions cpu;
  CudaOptions cuda;
  SimOptions sim;  // of every simulated platform; type and number of devices are the list's
};

// Host memory is always in it, listed or not. Threads: all methods const, from any thread; the
// platforms are as they say.
class PlatformSet {
 public:
  // Opens all that are named; one that is named and cannot be had is an error (that of its
  // create()), which begins with its name.
  static Result<PlatformSet> create(std::span<const std::string> names,
                                    const PlatformSetOptions& options = {});
  // From platforms that exist; host memory is added if none of them is. kInvalidArgument: a null
  // one, or two for one type of memory.
  static Result<PlatformSet> create(std::vector<std::unique_ptr<Platform>> platforms);

  // Where the range is: what the device platforms say, else host memory. Errors of
  // Platform::locate().
  Result<Location> locate(const void* ptr, std::uint64_t bytes) const;
  // The same, piece by piece; device memory is one piece.
  Result<std::vector<Region>> probe(const void* ptr, std::uint64_t bytes) const;

  // Where the range is, after it was compared with where the caller says it is. kInvalidArgument:
  // another type of memory, another device, or, of host memory, a node that none of its pages is on
  // though the node of some is known. A declared location without an index, or "*", says less and
  // so contradicts less. Errors of locate().
  Result<Location> check(const void* ptr, std::uint64_t bytes, const Location& declared) const;

  // The platform whose engine copies between two places. kUnsupported: between the devices of two
  // platforms, or memory of a type that is not here.
  Result<Platform*> copier_between(const Location& dst, const Location& src) const;

  // Null when there is none for that type.
  Platform* of(MemoryType type) const noexcept;
  // All, host memory last.
  const std::vector<std::unique_ptr<Platform>>& all() const noexcept { return platforms_; }

 private:
  PlatformSet() = default;

  std::vector<std::unique_ptr<Platform>> platforms_;
};

}  // namespace larder::platform
