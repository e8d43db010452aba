// SPDX-License-Identifier: Apache-2.0
#include "env/page_warmer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "env/fd.h"
#include "env/thread.h"

namespace larder::env {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStepPages = 512;  // 2 MiB: how soon a stop is noticed
constexpr int kNice = 10;                // requests come first

void touch_by_user(std::span<const std::byte> pages) noexcept {
  // Page tables first, in one call; what the kernel does not know costs a fault a page below.
  ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), MADV_POPULATE_READ);
  for (std::size_t at = 0; at < pages.size(); at += kPage) {
    static_cast<void>(*static_cast<const volatile std::byte*>(pages.data() + at));
  }
}

// Writing needs its own first time. Exchanging a byte for itself writes, and changes nothing,
// whoever else writes there meanwhile.
void touch_for_writing(std::span<const std::byte> pages) noexcept {
  for (std::size_t at = 0; at < pages.size(); at += kPage) {
    auto* byte = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(pages.data() + at));
    const std::atomic_ref<std::uint8_t> cell(*byte);
    std::uint8_t seen = cell.load(std::memory_order_relaxed);
    while (!cell.compare_exchange_weak(seen, seen, std::memory_order_relaxed)) {
    }
  }
}

// The kernel copies one byte of each page into a pipe, which is emptied again.
void touch_by_kernel(std::span<const std::byte> pages, int pipe_in, int pipe_out) noexcept {
  std::array<iovec, kStepPages> bytes;
  std::size_t count = 0;
  for (std::size_t at = 0; at < pages.size() && count < bytes.size(); at += kPage) {
    bytes[count++] = {const_cast<std::byte*>(pages.data() + at), 1};
  }
  const ssize_t written = ::writev(pipe_in, bytes.data(), static_cast<int>(count));
  std::array<char, kStepPages> sink;
  if (written > 0) [[maybe_unused]]
    const ssize_t n = ::read(pipe_out, sink.data(), sink.size());
}

}  // namespace

PageWarmer::PageWarmer(std::span<const std::byte> range, By by)
    : range_(range), thread_([this, by] { run(by); }) {}

PageWarmer::~PageWarmer() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void PageWarmer::run(By by) {
  set_thread_name("larder-warmer");
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  std::array<int, 2> ends = {-1, -1};
  const bool kernel = by == By::kOwner && ::pipe2(ends.data(), O_CLOEXEC) == 0;
  const Fd out(ends[0]);
  const Fd in(ends[1]);
  for (std::size_t at = 0; at < range_.size(); at += kStepPages * kPage) {
    if (stopping_.load(std::memory_order_relaxed)) return;
    const auto step = range_.subspan(at, std::min(range_.size() - at, kStepPages * kPage));
    touch_by_user(step);
    if (by == By::kOwner) touch_for_writing(step);
    if (kernel) touch_by_kernel(step, in.get(), out.get());
    warmed_.store(at + step.size(), std::memory_order_relaxed);
  }
}

}  // namespace larder::env
