// SPDX-License-Identifier: Apache-2.0
// pread and pwrite by a few threads: what is left where io_uring is forbidden.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fileio/io_backend.h"

namespace larder::fileio {

struct PoolOptions {
  std::size_t depth = 64;   // 1..kDepthMax
  std::size_t threads = 8;  // 0..kThreadsMax; 0: poll() and wait() do the work themselves, in order
};

// It pins no buffers: pread and pwrite have no use for that.
class PoolBackend final : public IoBackend {
 public:
  static constexpr std::size_t kDepthMax = 65536;
  static constexpr std::size_t kThreadsMax = 256;

  // kInvalidArgument: the options. kExhausted: no thread could be started.
  static Result<std::unique_ptr<PoolBackend>> create(const PoolOptions& options);
  // Drops what has not begun and waits for what has.
  ~PoolBackend() override;

  std::string_view name() const noexcept override { return "pool"; }
  std::size_t depth() const noexcept override { return options_.depth; }
  std::size_t in_flight() const noexcept override { return in_flight_; }
  Result<std::size_t> submit(std::span<const IoOp> ops) override;
  Result<void> start() override { return {}; }
  Result<std::size_t> poll(std::span<IoDone> into) override;
  Result<std::size_t> wait(std::span<IoDone> into, env::Nanos deadline) override;
  void wake() noexcept override;
  bool quiesce(env::Nanos deadline) noexcept override;
  bool add_buffer(std::span<std::byte>) noexcept override { return false; }
  void remove_buffer(std::span<std::byte>) noexcept override {}

 private:
  // First in, first out, in memory that is there from the start.
  template <class T>
  class Fifo {
   public:
    explicit Fifo(std::size_t capacity) : items_(capacity) {}
    bool empty() const noexcept { return count_ == 0; }
    std::size_t size() const noexcept { return count_; }
    void clear() noexcept { count_ = 0; }
    void push(const T& item) noexcept { items_[(first_ + count_++) % items_.size()] = item; }
    T pop() noexcept {
      const T item = items_[first_];
      first_ = (first_ + 1) % items_.size();
      --count_;
      return item;
    }

   private:
    std::vector<T> items_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
  };

  explicit PoolBackend(const PoolOptions& options);
  void run();
  void run_here(std::size_t count);
  std::size_t take_done(std::span<IoDone> into);

  const PoolOptions options_;
  std::size_t in_flight_ = 0;  // of the using thread alone
  std::mutex mutex_;           // guards what follows; never held during I/O
  std::condition_variable work_;
  std::condition_variable changed_;  // a completion or a wake
  Fifo<IoOp> queue_;
  Fifo<IoDone> done_;
  bool woken_ = false;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace larder::fileio
