// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/nvmf_probe.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "apps/bench/memory.h"
#include "apps/bench/nvmf_target_process.h"

namespace larder::apps {
namespace {

constexpr env::Nanos kPatience = 30 * env::kSecond;
constexpr std::uint64_t kSmall = 16384;  // below, a call is short beside a look at the clock

class NvmfProbe final : public Probe {
 public:
  NvmfProbe(const NvmfCase& name, std::unique_ptr<block::BlockQueue> queue, std::uint64_t blocks,
            std::span<std::byte> memory)
      : case_(name),
        queue_(std::move(queue)),
        places_(static_cast<std::size_t>(blocks)),
        memory_(memory, static_cast<std::size_t>(name.bytes)),
        pieces_(name.depth) {}

  std::string name() const override { return case_.name; }
  std::uint64_t bytes_per_call() const override { return case_.bytes; }
  std::size_t calls_per_span() const override {
    return case_.depth > 1 && case_.bytes <= kSmall ? 2 * case_.depth : 1;
  }
  Result<void> begin() override {
    for (std::size_t i = 0; i < case_.depth && case_.depth > 1; ++i) LARDER_TRY(submit(i));
    return {};
  }
  // At depth 1 a whole operation, else the next end, and one more begun.
  Result<void> step(std::size_t) override {
    if (case_.depth == 1) {
      LARDER_TRY(submit(0));
      LARDER_TRY(next());
      return {};
    }
    LARDER_ASSIGN(const std::size_t ended, next());
    return submit(ended);
  }
  Result<void> end() override {
    while (first_ < count_ || queue_->in_flight() > 0) LARDER_TRY(next());
    return {};
  }

 private:
  Result<void> submit(std::size_t number) {
    const auto memory = memory_.next();
    pieces_[number] = {memory.data(), memory.size()};
    const std::uint64_t offset = places_.next() * case_.bytes;
    const std::span<const block::Piece> piece(&pieces_[number], 1);
    return queue_->submit(case_.write ? block::BlockOp::write(offset, piece, number)
                                      : block::BlockOp::read(offset, piece, number));
  }
  // The number of one that ended.
  Result<std::size_t> next() {
    if (first_ == count_) {
      first_ = 0;
      count_ = queue_->wait(done_, env::monotonic_now() + kPatience);
      if (count_ == 0) return fail(Code::kDeadlineExceeded, "the target does not answer");
    }
    const block::BlockDone& done = done_[first_++];
    if (!done.ok()) return fail(block::describe(queue_->identity(), done));
    return static_cast<std::size_t>(done.tag);
  }

  const NvmfCase case_;
  std::unique_ptr<block::BlockQueue> queue_;
  Walk places_;
  Slots memory_;
  std::vector<block::Piece> pieces_;
  std::array<block::BlockDone, 64> done_;
  std::size_t first_ = 0;  // of done_ that was not looked at
  std::size_t count_ = 0;
};

class CpuProbe final : public Probe {
 public:
  CpuProbe(ProbePtr inner, pid_t other, CpuUse& use)
      : inner_(std::move(inner)), other_(other), use_(use) {}
  std::string name() const override { return inner_->name(); }
  std::size_t threads() const override { return inner_->threads(); }
  std::uint64_t items_per_call() const override { return inner_->items_per_call(); }
  std::uint64_t bytes_per_call() const override { return inner_->bytes_per_call(); }
  std::size_t calls_per_span() const override { return inner_->calls_per_span(); }
  Result<void> begin() override {
    here_ = cpu_time_of(::getpid());
    there_ = cpu_time_of(other_);
    return inner_->begin();
  }
  Result<void> step(std::size_t thread) override {
    use_.bytes += inner_->bytes_per_call();
    return inner_->step(thread);
  }
  Result<void> end() override {
    const auto ended = inner_->end();
    use_.here += cpu_time_of(::getpid()) - here_;
    use_.there += cpu_time_of(other_) - there_;
    return ended;
  }

 private:
  ProbePtr inner_;
  const pid_t other_;
  CpuUse& use_;
  env::Nanos here_ = 0;
  env::Nanos there_ = 0;
};

}  // namespace

Result<ProbePtr> make_nvmf_probe(const NvmfCase& name, block::BlockDevice& device,
                                 std::span<std::byte> memory) {
  if (memory.size() < name.depth * name.bytes || device.geometry().bytes() < 64 * name.bytes) {
    return fail(Code::kInvalidArgument, "more memory is needed than --set-bytes gives");
  }
  LARDER_ASSIGN(auto queue, device.open_queue(name.depth));
  return std::make_unique<NvmfProbe>(name, std::move(queue), device.geometry().bytes() / name.bytes,
                                     memory);
}

ProbePtr with_cpu(ProbePtr probe, pid_t other, CpuUse& use) {
  return std::make_unique<CpuProbe>(std::move(probe), other, use);
}

}  // namespace larder::apps
