// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transfer_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "apps/bench/page_pattern.h"

namespace larder::apps {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr std::size_t kQuickCallsPerSpan = 16;  // as the copy limit
constexpr std::uint64_t kQuickBytesMax = 16 << 10;

class TransferProbe final : public Probe {
 public:
  TransferProbe(const TransferCase& name, const TransferContext& context, const TransferBed& bed)
      : name_(name),
        bed_(bed),
        engine_(bed.engine()),
        verify_(context.options.verify),
        seed_(context.options.seed) {}

  Result<void> prepare() {
    workers_.resize(name_.threads);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      const auto share = share_of(bed_.local(), i, name_.threads);
      const std::uint64_t places = bed_.target_bytes() / name_.threads / name_.bytes;
      worker.local = Slots(share, name_.bytes);
      worker.places = Walk(places);
      worker.begin = bed_.target_begin() + i * places * name_.bytes;
      worker.requests.resize(name_.batch);
      if (verify_) {
        worker.scratch = bed_.scratch().subspan(2 * i * name_.bytes, name_.bytes);
        worker.image = bed_.scratch().subspan((2 * i + 1) * name_.bytes, name_.bytes);
      }
      LARDER_TRY(warm(worker));
      if (verify_) LARDER_TRY(next_requests(worker));
    }
    return {};
  }

  std::string name() const override { return to_string(name_); }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t items_per_call() const override { return name_.batch; }
  std::uint64_t bytes_per_call() const override { return name_.batch * name_.bytes; }
  std::size_t calls_per_span() const override {
    const bool copies =
        name_.target == TransferTarget::kMemcpy || name_.target == TransferTarget::kShm;
    return copies && bytes_per_call() < kQuickBytesMax && !verify_ ? kQuickCallsPerSpan : 1;
  }

  Result<void> step(std::size_t thread) override {
    Worker& worker = workers_[thread];
    if (!verify_) LARDER_TRY(next_requests(worker));
    return transfer(worker.requests);
  }

  Result<void> settle(std::size_t thread) override {
    if (!verify_) return {};
    Worker& worker = workers_[thread];
    for (const TransferRequest& request : worker.requests) {
      LARDER_TRY(name_.op == Opcode::kRead ? check_read(worker, request)
                                           : check_write(worker, request));
    }
    return next_requests(worker);
  }

 private:
  struct alignas(64) Worker {
    Slots local;
    Walk places;
    std::uint64_t begin = 0;  // of its share of the target
    std::vector<TransferRequest> requests;
    std::span<std::byte> scratch;
    std::span<std::byte> image;  // what is on a device, for the CPU
    std::uint64_t written = 0;   // requests filled so far: the seed of the next
  };

  Result<void> next_requests(Worker& worker) const {
    for (TransferRequest& request : worker.requests) {
      const auto local = worker.local.next();
      request.opcode = name_.op;
      request.local = local.data();
      request.target = bed_.target();
      request.target_offset = worker.begin + worker.places.next() * name_.bytes;
      request.length = name_.bytes;
      if (verify_) LARDER_TRY(scrub(worker, local));
    }
    return {};
  }

  // What is left from earlier must not pass for what comes; what goes out must be new there.
  Result<void> scrub(Worker& worker, std::span<std::byte> local) const {
    const std::span<std::byte> seen = bed_.on_device() ? worker.image : local;
    if (name_.op == Opcode::kRead) {
      std::fill(seen.begin(), seen.end(), std::byte{});
    } else {
      fill_pages(seen, ~seed_, ++worker.written << 20);
    }
    if (!bed_.on_device()) return {};
    return bed_.copy(Opcode::kRead, local.data(), seen.data(), local.size());
  }

  // The local bytes of a request, where the CPU can look at them.
  Result<std::span<const std::byte>> seen(Worker& worker, const TransferRequest& request) const {
    auto* const local = static_cast<std::byte*>(request.local);
    if (!bed_.on_device()) return std::span<const std::byte>(local, request.length);
    LARDER_TRY(bed_.copy(Opcode::kWrite, local, worker.image.data(), request.length));
    return worker.image;
  }

  // The first visit of a page through a mapping is a fault, and the limit's mapping is warm.
  Result<void> warm(Worker& worker) {
    if (on_file(name_.target)) return {};
    for (std::size_t done = 0; done < worker.places.slots(); done += name_.batch) {
      LARDER_TRY(next_requests(worker));
      LARDER_TRY(transfer(worker.requests));
    }
    return {};
  }

  Result<void> transfer(std::span<const TransferRequest> requests) const {
    LARDER_ASSIGN(const BatchId batch, engine_.allocate_batch(requests.size()));
    auto moved = run(batch, requests);
    const auto freed = engine_.free_batch(batch);
    return moved ? freed : moved;
  }

  Result<void> run(BatchId batch, std::span<const TransferRequest> requests) const {
    LARDER_ASSIGN(const auto taken, engine_.submit(batch, requests));
    for (const SubmitResult& one : taken) {
      if (one.code != Code::kOk) return fail(one.code, one.message);
    }
    LARDER_TRY(engine_.wait(batch, kPatience));
    LARDER_ASSIGN(const BatchStatus status, engine_.poll(batch));
    return status.all_completed() ? Result<void>{} : first_failure(batch, status.tasks);
  }

  Result<void> first_failure(BatchId batch, std::size_t tasks) const {
    for (std::uint32_t i = 0; i < tasks; ++i) {
      LARDER_ASSIGN(const TaskStatus task, engine_.poll(batch, i));
      if (task.outcome == Outcome::kCompleted) continue;
      return fail(task.code == Code::kOk ? Code::kInternal : task.code,
                  fmt::format("request {} of a batch is {}: {}", i, outcome_name(task.outcome),
                              task.message));
    }
    return fail(Code::kInternal, "a batch is neither completed nor has it a task that failed");
  }

  Result<void> check_read(Worker& worker, const TransferRequest& request) const {
    LARDER_ASSIGN(const auto local, seen(worker, request));
    const std::uint64_t at = request.target_offset - bed_.target_begin();
    return check_pages(local, seed_, at / kPatternPageBytes);
  }

  Result<void> check_write(Worker& worker, const TransferRequest& request) const {
    TransferRequest back = request;
    back.opcode = Opcode::kRead;
    back.local = worker.scratch.data();
    std::fill(worker.scratch.begin(), worker.scratch.end(), std::byte{});
    LARDER_TRY(transfer({&back, 1}));
    LARDER_ASSIGN(const auto local, seen(worker, request));
    if (std::memcmp(worker.scratch.data(), local.data(), request.length) == 0) return {};
    return fail(Code::kCorrupt,
                fmt::format("what was written to byte {} (--seed {}) is not what is there",
                            request.target_offset - bed_.target_begin(), seed_));
  }

  TransferCase name_;
  const TransferBed& bed_;
  TransferEngine& engine_;
  bool verify_;
  std::uint64_t seed_;
  std::vector<Worker> workers_;
};

}  // namespace

Result<ProbePtr> make_transfer_probe(const TransferCase& name, const TransferContext& context,
                                     const TransferBed& bed) {
  auto probe = std::make_unique<TransferProbe>(name, context, bed);
  LARDER_TRY(probe->prepare());
  return probe;
}

}  // namespace larder::apps
