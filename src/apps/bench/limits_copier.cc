// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "apps/bench/limits.h"
#include "base/units.h"
#include "platform/sim.h"

namespace larder::apps {
namespace {

constexpr env::Nanos kPatience = 60 * env::kSecond;

class CopierLimit final : public Probe {
 public:
  CopierLimit(bool out, std::uint64_t bytes) : out_(out), bytes_(bytes) {}

  // A device, an engine and host memory of its own for each thread: engines are for one thread.
  Result<void> add(std::span<std::byte> host) {
    platform::SimOptions options;
    options.device_bytes = host.size();
    LARDER_ASSIGN(auto device, platform::SimPlatform::create(options));
    Worker& worker = workers_.emplace_back();
    LARDER_ASSIGN(worker.memory, device->allocate(host.size(), 0));
    LARDER_ASSIGN(worker.engine, device->create_copier({}));
    worker.host = Slots(host, bytes_);
    worker.device = Slots({worker.memory.data(), host.size()}, bytes_, 1);
    // Pages that nobody has written to are neither read from memory nor written at once.
    for (std::size_t i = 0; i < host.size() / bytes_; ++i) LARDER_TRY(copy(worker, false));
    return {};
  }

  std::string name() const override {
    return fmt::format("sim-npu copy {} {} x{}", out_ ? "out" : "in", base::format_size(bytes_),
                       workers_.size());
  }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t bytes_per_call() const override { return bytes_; }
  Result<void> step(std::size_t thread) override { return copy(workers_[thread], out_); }

 private:
  struct Worker {
    platform::Allocation memory;
    std::unique_ptr<platform::CopyEngine> engine;
    Slots host;
    Slots device;
  };

  Result<void> copy(Worker& worker, bool out) const {
    const auto host = worker.host.next();
    const auto device = worker.device.next();
    platform::Copy copy;
    copy.dst = out ? host.data() : device.data();
    copy.src = out ? device.data() : host.data();
    copy.bytes = bytes_;
    LARDER_TRY(worker.engine->submit(copy));
    std::array<platform::CopyDone, 1> done;
    if (worker.engine->wait(done, env::monotonic_now() + kPatience) == 1) return done[0].result;
    return fail(Code::kInternal, "a copy of the simulated device did not end");
  }

  const bool out_;
  const std::uint64_t bytes_;
  std::vector<Worker> workers_;
};

}  // namespace

Result<ProbePtr> make_copier_limit(bool out, std::uint64_t bytes, std::size_t threads,
                                   std::span<std::byte> host) {
  auto limit = std::make_unique<CopierLimit>(out, bytes);
  for (std::size_t i = 0; i < threads; ++i) LARDER_TRY(limit->add(share_of(host, i, threads)));
  return limit;
}

}  // namespace larder::apps
