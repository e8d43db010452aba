// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace larder::nvmf {

// Of one reactor, who alone writes them; anyone reads.
struct ReactorCounters {
  using Count = std::atomic<std::uint64_t>;
  Count connections{0};
  Count accepted{0};
  Count refused{0};
  Count connects_refused{0};
  Count protocol_errors{0};
  Count digest_errors{0};
  Count keep_alive_expired{0};
  Count stalled{0};
  Count reads{0};
  Count writes{0};
  Count flushes{0};
  Count others{0};
  Count admin{0};
  Count errors{0};
  Count bytes_read{0};
  Count bytes_written{0};
  Count bounce_bytes{0};
};

// A plain addition: nobody else writes.
inline void bump(ReactorCounters::Count& count, std::uint64_t by = 1) noexcept {
  count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace larder::nvmf
