// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "apps/bench/limits.h"
#include "base/checksum.h"
#include "base/units.h"

namespace larder::apps {
namespace {

// A clock read costs some 30 ns: copies that take about a microsecond are timed sixteen at once.
constexpr std::size_t kOneSpanBytesMin = 16 << 10;

const char* kind_text(CopyKind kind) noexcept {
  switch (kind) {
    case CopyKind::kOut:
      return "memcpy shared->private";
    case CopyKind::kIn:
      return "memcpy private->shared";
    case CopyKind::kInChecksum:
      return "memcpy+xxh3 private->shared";
    case CopyKind::kAlike:
      break;
  }
  return "memcpy";
}

class CopyLimit final : public Probe {
 public:
  CopyLimit(CopyKind kind, std::size_t bytes, std::size_t threads, std::span<std::byte> from,
            std::span<std::byte> to)
      : kind_(kind),
        bytes_(bytes),
        total_bytes_(std::max(from.size(), to.size())),
        workers_(threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      workers_[i].from = Slots(share_of(from, i, threads), bytes);
      workers_[i].to = Slots(share_of(to, i, threads), bytes);
    }
  }

  std::string name() const override {
    return fmt::format("{} {} over {} x{}", kind_text(kind_), base::format_size(bytes_),
                       base::format_size(total_bytes_), workers_.size());
  }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t bytes_per_call() const override { return bytes_; }
  std::size_t calls_per_span() const override { return bytes_ < kOneSpanBytesMin ? 16 : 1; }

  Result<void> step(std::size_t thread) override {
    Worker& worker = workers_[thread];
    const auto from = worker.from.next();
    const auto to = worker.to.next();
    if (kind_ != CopyKind::kInChecksum) {
      std::memcpy(to.data(), from.data(), bytes_);
      return {};
    }
    worker.sum.reset();
    copy_and_update(to.data(), from, worker.sum);
    worker.digest ^= worker.sum.digest();
    return {};
  }

 private:
  struct alignas(64) Worker {
    Slots from;
    Slots to;
    Checksum64 sum;
    std::uint64_t digest = 0;  // kept, so that the checksum is not optimized away
  };
  CopyKind kind_;
  std::size_t bytes_;
  std::size_t total_bytes_;
  std::vector<Worker> workers_;
};

}  // namespace

Result<ProbePtr> make_copy_limit(CopyKind kind, std::size_t bytes, std::size_t threads,
                                 std::span<std::byte> from, std::span<std::byte> to) {
  if (bytes == 0 || share_of(from, 0, threads).size() < bytes ||
      share_of(to, 0, threads).size() < bytes) {
    return fail(Code::kInvalidArgument,
                fmt::format("copies of {} by {} threads need a larger --set-bytes",
                            base::format_size(bytes), threads));
  }
  return std::make_unique<CopyLimit>(kind, bytes, threads, from, to);
}

}  // namespace larder::apps
