// SPDX-License-Identifier: Apache-2.0
// What ends the shared-memory reads of clients of a node that died.
//
// A client's mapping of a dead node's memory lives on, with every version word in it still saying
// "valid". So validity hangs on one more word, in a small file whose name follows from the node's
// socket: the next node on that socket raises it before it serves anything, and from then on every
// older mapping refuses itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "env/fd.h"
#include "larder/status.h"

namespace larder::tier {

struct FencePage {
  std::uint64_t magic = 0;
  std::atomic<std::uint64_t> epoch{0};
};
static_assert(sizeof(FencePage) == 16);

class Fence {
 public:
  // Takes the fence of the node at `socket_path` and raises its epoch by one. Held until destroyed.
  // kConflict: another live node holds it. kUnavailable: the file cannot be used.
  static Result<Fence> take(const std::string& socket_path);
  Fence(Fence&& other) noexcept;
  Fence& operator=(Fence&&) = delete;
  ~Fence();

  std::uint64_t epoch() const noexcept { return epoch_; }
  // Before anybody was told the epoch: makes it at least this. The file does not survive the
  // machine's restart, what carries epochs on disks does.
  void raise_to(std::uint64_t epoch) noexcept;
  // Opened for reading only: what clients get.
  int read_only_fd() const noexcept { return read_only_.get(); }

 private:
  Fence(env::Fd held, env::Fd read_only, FencePage* page, std::uint64_t epoch)
      : held_(std::move(held)), read_only_(std::move(read_only)), page_(page), epoch_(epoch) {}

  env::Fd held_;
  env::Fd read_only_;
  FencePage* page_;
  std::uint64_t epoch_;
};

// A client's side: maps the file read-only.
class FenceView {
 public:
  static Result<FenceView> map(int fd);
  FenceView(FenceView&& other) noexcept;
  FenceView& operator=(FenceView&&) = delete;
  ~FenceView();
  std::uint64_t epoch() const noexcept { return page_->epoch.load(std::memory_order_acquire); }

 private:
  explicit FenceView(const FencePage* page) : page_(page) {}
  const FencePage* page_;
};

// For a path that will not be served again: removes its fence, unless a live node holds it. Without
// this the file stays, so that the next node at the path counts on.
void forget_fence(const std::string& socket_path) noexcept;

// Where the fence of a socket path lies: under /dev/shm where that exists, else beside the socket.
std::string fence_path(const std::string& socket_path);

}  // namespace larder::tier
