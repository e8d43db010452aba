// SPDX-License-Identifier: Apache-2.0
// How single reads and writes reach the kernel and come back: io_uring, a pool of threads, or a
// fake with faults. FileQueue stands on this and makes it comfortable; few should use it directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "env/clock.h"
#include "larder/status.h"

namespace larder::fileio {

enum class IoKind : std::uint8_t {
  kRead = 0,
  kWrite = 1,
  kSync = 2,  // fdatasync: covers writes that completed before it was submitted
};

// Not free for tags.
inline constexpr std::uint64_t kIoTagReserved = std::numeric_limits<std::uint64_t>::max();
inline constexpr env::Nanos kNoDeadline = std::numeric_limits<env::Nanos>::max();

// One operation. `fd` and `memory` stay valid until the completion came or quiesce() said true.
struct IoOp {
  IoKind kind = IoKind::kRead;
  int fd = -1;
  std::uint64_t offset = 0;     // bytes from the start of the file
  std::byte* memory = nullptr;  // only read from when the kind is kWrite
  std::uint32_t bytes = 0;
  std::uint64_t tag = 0;  // comes back in the completion
};

// What became of one operation, as the kernel says it.
struct IoDone {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes moved, maybe fewer than asked; or -errno
};

// One thread uses an instance at a time (not always the same one, and not only its creator); wake()
// and the calls for buffers come from any thread. Errors of single operations are results; an error
// from a call means:
//   kInvalidArgument  the call is wrong, nothing of it was taken
//   kUnavailable      the backend is dead for good. Operations may still run: only quiesce() tells.
class IoBackend {
 public:
  virtual ~IoBackend() = default;

  virtual std::string_view name() const noexcept = 0;
  // The most operations that may be in flight.
  virtual std::size_t depth() const noexcept = 0;
  // Taken and not yet given back by poll() or wait().
  virtual std::size_t in_flight() const noexcept = 0;

  // Takes operations from the front until the depth is reached, and says how many. They begin now
  // or with the next start(), poll() or wait(), many with one system call. Completions come in any
  // order.
  virtual Result<std::size_t> submit(std::span<const IoOp> ops) = 0;
  // Begins what was submitted, for those who do not poll or wait next.
  virtual Result<void> start() = 0;
  // Fills `into` with what has completed; never blocks. How many.
  virtual Result<std::size_t> poll(std::span<IoDone> into) = 0;
  // As poll(), but sleeps until there is one, wake() was called, or `deadline` (monotonic).
  virtual Result<std::size_t> wait(std::span<IoDone> into, env::Nanos deadline) = 0;
  // Makes the wait() that runs, else the next one, return at once. Wakes may merge.
  virtual void wake() noexcept = 0;

  // True: every operation taken has ended, and nothing can touch the memory of any. Completions of
  // those are there for poll(), except such as will never come. False at `deadline` (monotonic):
  // something may still run. The backend can be used again afterwards unless it is dead.
  // To be called before the destructor, which may block for as long as an operation runs.
  virtual bool quiesce(env::Nanos deadline) noexcept = 0;

  // Optional: memory that many operations will use is pinned once instead of each time, from any
  // thread, up to 1 GiB a call and not overlapping. False: the kernel refuses (a memory-lock limit,
  // say) or there is no room; everything works as without.
  virtual bool add_buffer(std::span<std::byte> memory) noexcept = 0;
  // Exactly what was added. No operation in flight may use it; from here on its pages may go and
  // its addresses be given to others. Any thread.
  virtual void remove_buffer(std::span<std::byte> memory) noexcept = 0;
};

}  // namespace larder::fileio
