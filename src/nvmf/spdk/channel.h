// SPDX-License-Identifier: Apache-2.0
// A queue pair of SPDK's driver and the commands on it.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "nvmf/host/piece_window.h"
#include "nvmf/host/waker.h"
#include "nvmf/spdk/controller.h"
#include "nvmf/spdk/dma_memory.h"

struct spdk_nvme_cpl;
struct spdk_nvme_qpair;

namespace larder::nvmf {

enum class SpdkVerb : std::uint8_t {
  kRead,
  kWrite,
  kFlush,
  kWriteZeroes,
  kZeroAndUnmap,  // Write Zeroes that deallocates
  kUnmap,         // Dataset Management
};

struct SpdkRequest {
  SpdkVerb verb = SpdkVerb::kRead;
  bool bounce = false;  // its memory is not for DMA; then it has at most the bytes of one buffer
  std::uint64_t block = 0;
  std::uint32_t blocks = 0;
  PieceWindow data;
  std::uint64_t owner = 0;
};

struct SpdkEnded {
  SpdkRequest request;
  Status status;
  bool cut = false;  // the driver gave it up: the queue pair is lost
};

// A queue pair is for one thread at a time, says the driver. Its queue uses it; but when the
// controller is lost, the device's thread has to close those of queues that nobody polls, too,
// before it can attach again. So each call holds a mutex over the driver's, which others want only
// then. Any thread.
class SpdkChannel {
 public:
  // kExhausted: no memory for bounce buffers.
  static Result<std::shared_ptr<SpdkChannel>> create(std::uint16_t number, Waker waker,
                                                     const SpdkDeviceOptions& options);
  ~SpdkChannel();

  std::uint16_t number() const noexcept { return number_; }
  const Waker& waker() const noexcept { return waker_; }
  std::size_t bounce_bytes() const noexcept { return bounces_.part_bytes(); }

  // ---- By the device's thread. Waits for the connection; until close() the controller stays.
  // kUnavailable: no queue pair. kNotFound: no such namespace. kCancelled: it has retired.
  Result<void> open(const SpdkController& controller, std::uint32_t nsid);

  // ---- By the queue, or by the device's thread when the controller is lost. All commands have
  // ended afterwards, and nothing touches their memory.
  void close();
  // So, and it is not opened again.
  void retire();

  // ---- By the queue.
  bool is_open() const;
  // Of the controller that it is or was open on last; else nullptr.
  std::shared_ptr<std::atomic<bool>> lost() const;
  enum class Taken : std::uint8_t {
    kYes,
    kLater,  // there is no room: others have to end first
    kLost,
  };
  Taken submit(const SpdkRequest& request, env::Nanos now);
  // Lets the driver work. kUnavailable: the queue pair is lost.
  Result<void> poll();
  std::size_t take_ended(std::span<SpdkEnded> into);
  std::size_t in_flight() const;  // what take_ended() has to give included
  env::Nanos oldest() const;      // when the oldest command was sent; kNoDeadline: there is none
  // The owners of those sent before.
  std::vector<std::uint64_t> sent_before(env::Nanos time) const;

  // ---- What the queue and the device's thread tell each other. By the queue: it needs to be
  // opened, not later than `until`.
  void want(env::Nanos until);
  std::optional<Result<void>> take_news();
  // By the device's thread.
  std::optional<env::Nanos> wanted() const;
  void tell(Result<void> news);

 private:
  struct Command {
    SpdkChannel* channel = nullptr;
    bool used = false;
    std::uint32_t walked = 0;  // bytes of the list that the driver has asked for
    std::byte* bounce = nullptr;
    env::Nanos begun = 0;
    SpdkRequest request;
  };

  SpdkChannel(std::uint16_t number, Waker waker, std::uint16_t entries, BouncePool bounces);
  int send(Command& command);
  int send_range(Command& command);
  Taken refused(Command& command, int error);
  void end(Command& command, Status status, bool cut);
  void free_pair();
  static void on_ended(void* command, const spdk_nvme_cpl* completion);
  static void rewind(void* command, std::uint32_t offset);
  static int next_place(void* command, void** address, std::uint32_t* length);

  const std::uint16_t number_;
  const Waker waker_;
  mutable std::mutex mutex_;  // guards what follows, and the driver's use of it
  BouncePool bounces_;
  spdk_nvme_qpair* pair_ = nullptr;
  spdk_nvme_ns* namespace_ = nullptr;
  std::shared_ptr<std::atomic<bool>> lost_;
  bool retired_ = false;
  std::vector<Command> commands_;
  std::vector<std::uint32_t> free_;
  std::deque<SpdkEnded> ended_;  // of one poll() or close()
  std::optional<env::Nanos> wanted_until_;
  std::optional<Result<void>> news_;
};

}  // namespace larder::nvmf
