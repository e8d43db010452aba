// SPDX-License-Identifier: Apache-2.0
// How much is written to the disks at a time: rates and operations in flight, of the node and of
// each device, and a pause for a device that fails.
//
// An operation passes all or takes nothing. What is in flight ends by exactly one end() or
// give_back(). After `errors_max` errors in a row a device pauses; then one operation goes ahead as
// a probe, and its end decides: on, or another pause. Any success ends the row, also of an
// operation that began before the pause: a disk that answers is not lost.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"

namespace larder::tier {

// 0 is: no limit.
struct AdmissionLimits {
  std::uint64_t ops_per_s = 0;
  std::uint64_t ops_burst = 0;  // at once after idling; 0: a tenth of a second's, at least one
  std::uint64_t bytes_per_s = 0;
  std::uint64_t bytes_burst = 0;      // likewise, at least 1 MiB
  std::uint64_t ops_in_flight = 0;    // at most
  std::uint64_t bytes_in_flight = 0;  // at most; one operation alone may be larger
};

struct AdmissionOptions {
  AdmissionLimits node = {};
  AdmissionLimits device = {};  // of each
  std::uint32_t devices_max = 64;
  std::uint32_t errors_max = 3;  // in a row; 0: never pauses
  env::Nanos pause = env::kSecond;
};

enum class Refusal : std::uint8_t {
  kNone,
  kPaused,    // the device failed
  kProbing,   // and is being tried by one
  kInFlight,  // of node or device
  kRate,      // of node or device
  kNoDevice,  // out of range
};
std::string_view refusal_name(Refusal why) noexcept;  // "none", "paused", "probing", ...

struct Admitted {
  Refusal why = Refusal::kNone;
  // When to come again; kAfterEnd: after the next end() or give_back(). It may be refused again,
  // for another reason.
  env::Nanos again = 0;

  bool ok() const noexcept { return why == Refusal::kNone; }
};
inline constexpr env::Nanos kAfterEnd = std::numeric_limits<env::Nanos>::max();

// A token bucket that counts what it is owed, in billionths of a token, so that no rate and no step
// of the clock loses a fraction. It holds at most `burst`; more than that at once waits for a full
// bucket, and is then paid off by a longer wait.
class TokenBucket {
 public:
  static constexpr std::uint64_t kMax = 1ULL << 50;  // of rate and burst, and of one take

  TokenBucket() noexcept = default;  // no limit
  TokenBucket(std::uint64_t per_s, std::uint64_t burst) noexcept : rate_(per_s), burst_(burst) {}

  // 0: take() may follow. Else how long until then, if nobody else takes.
  env::Nanos wait_for(std::uint64_t tokens, env::Nanos now) const noexcept;
  void take(std::uint64_t tokens, env::Nanos now) noexcept;
  void give_back(std::uint64_t tokens, env::Nanos now) noexcept;
  std::uint64_t available(env::Nanos now) const noexcept;  // whole tokens; `burst` without a limit

 private:
  __extension__ typedef unsigned __int128 Wide;
  Wide owed(env::Nanos now) const noexcept;

  std::uint64_t rate_ = 0;
  std::uint64_t burst_ = 0;
  Wide owed_ = 0;  // at `at_`
  env::Nanos at_ = std::numeric_limits<env::Nanos>::min();
};

struct AdmissionCounts {
  std::uint64_t ops_in_flight = 0;
  std::uint64_t bytes_in_flight = 0;
  std::uint64_t begun = 0;  // ever; the rest likewise
  std::uint64_t refused = 0;
  std::uint64_t errors = 0;
  std::uint64_t pauses = 0;
};

// Not thread safe: under the caller's lock. O(1). Devices are 0 .. devices_max - 1, and all there.
class Admission {
 public:
  // Errors: kInvalidArgument (options), kExhausted (memory).
  static Result<Admission> create(const AdmissionOptions& options);

  // A write of `bytes` to a device; when ok, its end() or give_back() must follow.
  Admitted try_begin(std::uint32_t device, std::uint64_t bytes, env::Nanos now) noexcept;
  // It went to the disk and has ended. False, and nothing happens: nothing that large is in flight.
  bool end(std::uint32_t device, std::uint64_t bytes, bool ok, env::Nanos now) noexcept;
  // It never went there: the tokens are back, and the device is not judged by it. False as end().
  bool give_back(std::uint32_t device, std::uint64_t bytes, env::Nanos now) noexcept;
  // The device was replaced, or an operator says it is well: errors and pause are forgotten.
  void forgive(std::uint32_t device) noexcept;

  // While it pauses or is being probed.
  bool is_paused(std::uint32_t device) const noexcept;
  AdmissionCounts node_counts() const noexcept { return node_.counts; }
  AdmissionCounts device_counts(std::uint32_t device) const noexcept;  // zeros: out of range

 private:
  struct Gate {
    AdmissionLimits limits;
    TokenBucket ops;
    TokenBucket bytes;
    AdmissionCounts counts;
  };
  struct Device {
    Gate gate;
    std::uint32_t errors = 0;  // in a row
    bool paused = false;
    bool probing = false;
    env::Nanos paused_until = 0;
  };

  static Gate make_gate(const AdmissionLimits& limits) noexcept;
  static bool has_room(const Gate& gate, std::uint64_t bytes) noexcept;
  static env::Nanos wait_for(const Gate& gate, std::uint64_t bytes, env::Nanos now) noexcept;
  static void begin(Gate& gate, std::uint64_t bytes, env::Nanos now) noexcept;
  Admitted look(const Device& device, std::uint64_t bytes, env::Nanos now) const noexcept;
  bool leave(std::uint32_t device, std::uint64_t bytes) noexcept;
  void judge(Device& device, bool ok, env::Nanos now) noexcept;

  AdmissionOptions options_;
  Gate node_;
  std::vector<Device> devices_;
};

}  // namespace larder::tier
