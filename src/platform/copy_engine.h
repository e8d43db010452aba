// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies into, out of and within the memory of one platform.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "env/clock.h"
#include "larder/status.h"

namespace larder::platform {

struct Copy {
  void* dst = nullptr;
  const void* src = nullptr;
  std::uint64_t bytes = 0;  // at least 1; the two ranges must not overlap
  std::uint64_t tag = 0;    // comes back in CopyDone; means nothing to the engine
};

// How one copy ended. From here on nothing touches its memory any more.
struct CopyDone {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;  // of the copy as it was submitted
  Result<void> result;      // all bytes were moved, or the destination holds anything
};

inline constexpr std::size_t kCopierDepthMax = 4096;

struct CopierOptions {
  std::size_t depth = 256;  // copies submitted and not yet handed back; 1 to kCopierDepthMax
};

// Each copy that submit() accepted ends exactly once and is handed back exactly once, by poll() or
// wait(), in no promised order. Only then may its source be changed, its destination be read, and
// either be freed: a deadline that passed says nothing about the memory.
//
// Which way a copy goes is found from where its pointers lie, never told. What an engine does not
// know is other work on a device: bytes that a kernel or a foreign stream writes must be complete
// before the copy is submitted.
//
// Threads: one at a time uses an engine. Different engines of a platform run side by side, and
// share the bandwidth of its devices. Times are of the platform's clock.
class CopyEngine {
 public:
  // Returns only when nothing can touch the memory of any copy; results not yet handed back are
  // lost. May block for as long as the hardware takes.
  virtual ~CopyEngine() = default;

  // Starts a copy. On an error nothing was started and nothing comes back later.
  //   kInvalidArgument: a null pointer, no bytes, overlapping ranges, a range that leaves its
  //     device allocation, or (all platforms but cpu) neither side in this platform's memory
  //   kUnsupported: from one device to another
  //   kBackpressure: `depth` copies are out; poll first
  //   kUnavailable, kExhausted: the device said no
  // May block for the length of the copy where the host side is not pinned (cuda), and does for
  // cpu, where the copy is done on return.
  virtual Result<void> submit(const Copy& copy) = 0;

  // Hands back copies that have ended, at most done.size() of them; returns how many. Never waits.
  virtual std::size_t poll(std::span<CopyDone> done) = 0;

  // Like poll(), but waits until there is at least one or `deadline` has come. 0 at once when no
  // copy is out or `done` is empty.
  virtual std::size_t wait(std::span<CopyDone> done, env::Nanos deadline) = 0;

  // Waits until every copy has ended, also those whose completion got lost; the results are still
  // to be fetched by poll(). The engine can be used further. kDeadlineExceeded says how many may
  // still touch their memory.
  virtual Result<void> quiesce(env::Nanos deadline) = 0;

  // Copies that may still touch their memory, and copies not yet handed back (ended or not).
  virtual std::size_t in_flight() const noexcept = 0;
  virtual std::size_t outstanding() const noexcept = 0;

 protected:
  CopyEngine() = default;
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;
};

}  // namespace larder::platform
