// SPDX-License-Identifier: Apache-2.0
// What several tests of this folder share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "env/temp_directory.h"
#include "fileio/fault_backend.h"
#include "fileio/file_queue.h"
#include "fileio/pool_backend.h"
#include "fileio/uring_backend.h"

namespace larder::fileio {

inline constexpr env::Nanos kSoon = 30 * env::kSecond;  // a wait that fails the test

inline env::Nanos within(env::Nanos time) {
  return env::monotonic_now() + time;
}

struct BackendCase {
  std::string name;
  std::function<std::unique_ptr<IoBackend>(std::size_t depth)> make;  // nullptr: not on this host
};

inline std::unique_ptr<IoBackend> make_uring(std::size_t depth) {
  auto made = UringBackend::create({.depth = depth});
  if (!made && made.error().code() == Code::kUnsupported) return nullptr;
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? std::move(*made) : nullptr;
}

inline std::unique_ptr<IoBackend> make_pool(std::size_t depth, std::size_t threads) {
  auto made = PoolBackend::create({.depth = depth, .threads = threads});
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

inline std::unique_ptr<IoBackend> make_faulty(std::unique_ptr<IoBackend> inner,
                                              const FaultOptions& options = {}) {
  if (inner == nullptr) return nullptr;
  return std::make_unique<FaultBackend>(std::move(inner), options);
}

inline std::vector<BackendCase> all_backends() {
  return {
      {"uring", make_uring},
      {"pool", [](std::size_t depth) { return make_pool(depth, 3); }},
      {"pool_without_threads", [](std::size_t depth) { return make_pool(depth, 0); }},
      {"fault_over_pool", [](std::size_t depth) { return make_faulty(make_pool(depth, 2)); }},
      {"fault_over_uring", [](std::size_t depth) { return make_faulty(make_uring(depth)); }},
  };
}

// Memory that begins at a multiple of a page.
class PagedBuffer {
 public:
  explicit PagedBuffer(std::size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))) {}
  std::byte* data() noexcept { return memory_.get(); }
  std::span<std::byte> span() noexcept { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const noexcept { std::free(p); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

// Never the byte 0xEE: that is what buffers are poisoned with.
inline constexpr std::byte kPoison{0xEE};
inline void fill_random(std::span<std::byte> into, std::mt19937_64& random) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < into.size(); ++i) {
    word = i % 8 == 0 ? random() : word >> 8U;
    const auto byte = static_cast<std::byte>(word & 0xFFU);
    into[i] = byte == kPoison ? std::byte{0} : byte;
  }
}

inline env::TempDirectory make_directory() {
  auto made = env::TempDirectory::create("larder-fileio");
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

inline File open_file(const std::string& path, FileOptions options) {
  auto opened = File::open(path, options);
  EXPECT_TRUE(opened) << opened.error().to_string();
  return std::move(*opened);
}

inline FileOptions read_write(std::uint64_t size, Direct direct = Direct::kAuto) {
  return {.read = true, .write = true, .create = true, .size = size, .direct = direct};
}

inline std::unique_ptr<FileQueue> make_queue(std::unique_ptr<IoBackend> backend,
                                             const FileQueueOptions& options = {}) {
  auto made = FileQueue::create(std::move(backend), options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

// A backend whose completions the test writes by hand. It never touches memory.
class ScriptBackend final : public IoBackend {
 public:
  explicit ScriptBackend(std::size_t depth) : depth_(depth) {}

  std::vector<IoOp> pending;  // taken, in order
  std::vector<IoDone> ready;  // for the next polls
  bool dead = false;
  bool restless = false;  // quiesce() says false
  std::function<void()> on_wait;
  bool pins = false;  // add_buffer() says true
  unsigned pins_asked = 0;
  std::vector<std::span<std::byte>> buffers;

  // Ends pending[index] with `result`.
  void complete(std::size_t index, std::int64_t result) {
    ready.push_back({pending.at(index).tag, result});
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(index));
  }
  void complete_all() {
    while (!pending.empty()) complete(0, pending.front().bytes);
  }

  std::string_view name() const noexcept override { return "script"; }
  std::size_t depth() const noexcept override { return depth_; }
  std::size_t in_flight() const noexcept override { return pending.size(); }
  Result<std::size_t> submit(std::span<const IoOp> ops) override {
    const std::size_t count = std::min(ops.size(), depth_ - pending.size());
    pending.insert(pending.end(), ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(count));
    if (dead) return fail(Code::kUnavailable, "scripted death");
    return count;
  }
  Result<void> start() override { return {}; }
  Result<std::size_t> poll(std::span<IoDone> into) override {
    if (dead) return fail(Code::kUnavailable, "scripted death");
    const std::size_t count = std::min(into.size(), ready.size());
    std::copy_n(ready.begin(), count, into.begin());
    ready.erase(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  Result<std::size_t> wait(std::span<IoDone> into, env::Nanos) override {
    if (on_wait) on_wait();
    return poll(into);
  }
  void wake() noexcept override {}
  bool quiesce(env::Nanos) noexcept override { return !restless; }
  bool add_buffer(std::span<std::byte> memory) noexcept override {
    ++pins_asked;
    if (pins) buffers.push_back(memory);
    return pins;
  }
  void remove_buffer(std::span<std::byte> memory) noexcept override {
    std::erase_if(buffers, [&](std::span<std::byte> one) {
      return one.data() == memory.data() && one.size() == memory.size();
    });
  }

 private:
  std::size_t depth_;
};

}  // namespace larder::fileio
