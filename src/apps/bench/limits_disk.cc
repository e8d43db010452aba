// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "apps/bench/limits.h"
#include "base/units.h"
#include "env/host_probe.h"
#include "env/socket.h"

namespace larder::apps {
namespace {

constexpr std::size_t kPoolThreadsMax = 64;
constexpr std::size_t kFixedBytesMax = std::size_t{1} << 30;  // the kernel's limit for one buffer

bool uring_allowed() {
  static const bool allowed = env::probe_io_uring().setup_errno == 0;
  return allowed;
}

Error disk_error(int result) {
  return {Code::kUnavailable,
          "the raw disk limit failed: " +
              (result < 0 ? env::errno_text(-result) : std::string("a read or write was cut"))};
}

// A thread's places in the file and in memory.
struct Places {
  Places(const DiskFile& file, const DiskShape& shape, std::span<std::byte> memory,
         std::size_t index, std::size_t workers)
      : slots(share_of(memory, index, workers), shape.block_bytes), bytes(shape.block_bytes) {
    const std::uint64_t share = file.bytes() / workers / bytes * bytes;
    base = file.begin() + share * index;
    // Elsewhere than where ours begins, so that neither finds what the other left in a cache.
    blocks = Walk(share / bytes, share / bytes / 3);
  }
  std::uint64_t next_offset() noexcept { return base + blocks.next() * bytes; }

  Slots slots;
  Walk blocks;
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};

// This uses the kernel's interface directly rather than fileio: it is the yardstick.
class DiskRing {
 public:
  DiskRing(const DiskFile& file, const DiskShape& shape, Places places)
      : fd_(file.fd()), shape_(shape), places_(std::move(places)) {}
  ~DiskRing() {
    if (made_) ::io_uring_queue_exit(&ring_);
  }
  DiskRing(const DiskRing&) = delete;
  DiskRing& operator=(const DiskRing&) = delete;

  // Pinned memory spares the kernel a look at every page of every block. Where the limit of locked
  // memory forbids it, the limit is what it is without.
  Result<void> set_up(std::span<std::byte> memory) {
    const int error = ::io_uring_queue_init(static_cast<unsigned>(shape_.depth), &ring_, 0);
    if (error != 0) {
      return fail(Code::kExhausted, "cannot make an io_uring: " + env::errno_text(-error));
    }
    made_ = true;
    const iovec all{memory.data(), memory.size()};
    fixed_ = memory.size() <= kFixedBytesMax && ::io_uring_register_buffers(&ring_, &all, 1) == 0;
    return {};
  }

  Result<void> run_batch() {
    prepare(shape_.depth);
    LARDER_TRY(collect(shape_.depth, shape_.depth, false));
    return flush_if_due();
  }
  Result<void> run_refilled() {
    LARDER_TRY(collect(shape_.depth, 1, true));
    if (!flush_is_due()) return {};
    LARDER_TRY(drain());
    LARDER_TRY(flush_if_due());
    return fill();
  }
  Result<void> fill() {
    prepare(shape_.depth);
    return {};
  }
  Result<void> drain() { return collect(in_flight_, in_flight_, false); }

 private:
  bool flush_is_due() const noexcept {
    return shape_.flush_every != 0 && unflushed_ >= shape_.flush_every;
  }
  Result<void> flush_if_due() {
    if (!flush_is_due()) return {};
    unflushed_ = 0;
    if (::fdatasync(fd_) != 0) return fail(disk_error(-errno));
    return {};
  }
  void prepare(std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
      const auto slot = places_.slots.next();
      const std::uint64_t offset = places_.next_offset();
      const auto bytes = static_cast<unsigned>(slot.size());
      int opcode = shape_.write ? IORING_OP_WRITE : IORING_OP_READ;
      if (fixed_) opcode = shape_.write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;
      ::io_uring_prep_rw(opcode, sqe, fd_, slot.data(), bytes, offset);
      if (fixed_) sqe->buf_index = 0;
      ++in_flight_;
    }
  }

  Result<void> collect(std::size_t count, std::size_t at_once, bool refill) {
    while (count > 0) {
      const int sent =
          ::io_uring_submit_and_wait(&ring_, static_cast<unsigned>(std::min(at_once, count)));
      if (sent < 0 && sent != -EINTR && sent != -EAGAIN) return fail(disk_error(sent));
      std::size_t ended = 0;
      io_uring_cqe* cqe = nullptr;
      while (ended < count && ::io_uring_peek_cqe(&ring_, &cqe) == 0) {
        const int result = cqe->res;
        ::io_uring_cqe_seen(&ring_, cqe);
        ++ended;
        --in_flight_;
        unflushed_ += shape_.block_bytes;
        if (result != static_cast<int>(shape_.block_bytes)) return fail(disk_error(result));
      }
      count -= ended;
      if (refill) prepare(ended);
    }
    return {};
  }

  io_uring ring_{};
  bool made_ = false;
  bool fixed_ = false;
  std::size_t in_flight_ = 0;
  std::uint64_t unflushed_ = 0;
  int fd_;
  DiskShape shape_;
  Places places_;
};

class RingLimit final : public Probe {
 public:
  RingLimit(std::string name, const DiskShape& shape,
            std::vector<std::unique_ptr<DiskRing>> workers)
      : name_(std::move(name)), shape_(shape), workers_(std::move(workers)) {}

  std::string name() const override { return name_; }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t items_per_call() const override { return shape_.depth; }
  std::uint64_t bytes_per_call() const override { return shape_.depth * shape_.block_bytes; }
  Result<void> begin() override {
    for (const auto& worker : workers_) {
      if (shape_.refill) LARDER_TRY(worker->fill());
    }
    return {};
  }
  // What is in flight would take from whatever is measured next.
  Result<void> end() override {
    for (const auto& worker : workers_) LARDER_TRY(worker->drain());
    return {};
  }
  Result<void> step(std::size_t thread) override {
    return shape_.refill ? workers_[thread]->run_refilled() : workers_[thread]->run_batch();
  }

 private:
  std::string name_;
  DiskShape shape_;
  std::vector<std::unique_ptr<DiskRing>> workers_;
};

class PoolLimit final : public Probe {
 public:
  PoolLimit(std::string name, const DiskFile& file, const DiskShape& shape,
            std::vector<Places> workers)
      : name_(std::move(name)), fd_(file.fd()), shape_(shape), workers_(std::move(workers)) {}

  std::string name() const override { return name_; }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t bytes_per_call() const override { return shape_.block_bytes; }
  Result<void> step(std::size_t thread) override {
    Places& places = workers_[thread];
    const auto slot = places.slots.next();
    const auto offset = static_cast<off_t>(places.next_offset());
    const ssize_t n = shape_.write ? ::pwrite(fd_, slot.data(), slot.size(), offset)
                                   : ::pread(fd_, slot.data(), slot.size(), offset);
    if (n == static_cast<ssize_t>(slot.size())) return flush_if_due(slot.size());
    return fail(disk_error(n < 0 ? -errno : static_cast<int>(n)));
  }

 private:
  Result<void> flush_if_due(std::uint64_t bytes) {
    if (shape_.flush_every == 0) return {};
    const std::uint64_t before = written_.fetch_add(bytes);
    if (before / shape_.flush_every == (before + bytes) / shape_.flush_every) return {};
    if (::fdatasync(fd_) != 0) return fail(disk_error(-errno));
    return {};
  }
  std::string name_;
  int fd_;
  DiskShape shape_;
  std::vector<Places> workers_;
  std::atomic<std::uint64_t> written_{0};
};

Result<void> check_room(const DiskFile& file, const DiskShape& shape, std::size_t workers,
                        std::span<std::byte> memory) {
  const bool fits = shape.block_bytes > 0 && file.bytes() / workers >= shape.block_bytes &&
                    share_of(memory, 0, workers).size() >= shape.block_bytes;
  if (fits) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("blocks of {} for {} threads need a larger --file-bytes or --set-bytes",
                          base::format_size(shape.block_bytes), workers));
}

}  // namespace

std::string disk_limit_name(const DiskShape& shape, const DiskFile* file) {
  const char* how = shape.refill ? "io_uring refilled" : "io_uring in batches";
  const std::string flushed =
      shape.flush_every == 0
          ? ""
          : " flushed every " + std::string(base::format_size(shape.flush_every));
  return fmt::format(
      "disk {} {} depth {} {}{}{} x{}", shape.write ? "write" : "read",
      base::format_size(shape.block_bytes), shape.depth, uring_allowed() ? how : "pread/pwrite",
      file == nullptr || file->direct() ? "" : " page cache", flushed, shape.threads);
}

Result<ProbePtr> make_disk_limit(const DiskFile& file, const DiskShape& shape,
                                 std::span<std::byte> memory) {
  std::string name = disk_limit_name(shape, &file);
  if (!uring_allowed()) {
    const std::size_t count = std::min(shape.depth * shape.threads, kPoolThreadsMax);
    LARDER_TRY(check_room(file, shape, count, memory));
    std::vector<Places> workers;
    for (std::size_t i = 0; i < count; ++i) workers.emplace_back(file, shape, memory, i, count);
    return std::make_unique<PoolLimit>(std::move(name), file, shape, std::move(workers));
  }
  LARDER_TRY(check_room(file, shape, shape.threads, memory));
  std::vector<std::unique_ptr<DiskRing>> workers;
  for (std::size_t i = 0; i < shape.threads; ++i) {
    workers.push_back(
        std::make_unique<DiskRing>(file, shape, Places(file, shape, memory, i, shape.threads)));
    LARDER_TRY(workers.back()->set_up(share_of(memory, i, shape.threads)));
  }
  return std::make_unique<RingLimit>(std::move(name), shape, std::move(workers));
}

}  // namespace larder::apps
