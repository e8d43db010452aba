// SPDX-License-Identifier: Apache-2.0
#include "nvmf/spdk/channel.h"

#include <spdk/nvme.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "env/socket.h"

namespace larder::nvmf {
namespace {

static_assert(sizeof(spdk_nvme_cpl) == sizeof(Completion));

// What the driver says of commands whose queue pair it gave up.
bool is_cut(const Status& status) noexcept {
  return status.code == Sc::kAbortedSqDeletion || status.code == Sc::kAbortRequested ||
         status.code == Sc::kHostAborted;
}

void copy_out(PieceWindow& from, std::byte* into) {
  for (std::uint32_t done = 0; done < from.bytes();) {
    iovec place;
    done += from.gather(done, from.bytes() - done, {&place, 1}).bytes;
    std::memcpy(into, place.iov_base, place.iov_len);
    into += place.iov_len;
  }
}

}  // namespace

Result<std::shared_ptr<SpdkChannel>> SpdkChannel::create(std::uint16_t number, Waker waker,
                                                         const SpdkDeviceOptions& options) {
  // Over TCP the driver sends and receives with the kernel's sockets, which take any memory.
  const bool bounces = options.transport != SpdkTransport::kTcp;
  LARDER_ASSIGN(BouncePool pool,
                BouncePool::create(bounces ? options.bounce_buffers : 0, options.bounce_bytes));
  return std::shared_ptr<SpdkChannel>(
      new SpdkChannel(number, std::move(waker), options.remote.queue_entries, std::move(pool)));
}

SpdkChannel::SpdkChannel(std::uint16_t number, Waker waker, std::uint16_t entries,
                         BouncePool bounces)
    : number_(number), waker_(std::move(waker)), bounces_(std::move(bounces)) {
  commands_.resize(entries - 1U);
  for (std::size_t i = commands_.size(); i-- > 0;) {
    commands_[i].channel = this;
    free_.push_back(static_cast<std::uint32_t>(i));
  }
}

SpdkChannel::~SpdkChannel() {
  close();
}

Result<void> SpdkChannel::open(const SpdkController& controller, std::uint32_t nsid) {
  const std::lock_guard lock(mutex_);
  if (retired_) return fail(Code::kCancelled, "the queue has gone");
  if (pair_ != nullptr) return {};
  namespace_ = controller.raw_namespace(nsid);
  if (namespace_ == nullptr) return fail(Code::kNotFound, "the namespace has gone");
  pair_ = spdk_nvme_ctrlr_alloc_io_qpair(controller.raw(), nullptr, 0);
  if (pair_ == nullptr) {
    return fail(Code::kUnavailable, "SPDK could not connect I/O queue " + std::to_string(number_));
  }
  lost_ = controller.lost();
  return {};
}

void SpdkChannel::close() {
  const std::lock_guard lock(mutex_);
  free_pair();
}

void SpdkChannel::retire() {
  const std::lock_guard lock(mutex_);
  retired_ = true;
  free_pair();
}

void SpdkChannel::free_pair() {
  if (pair_ == nullptr) return;
  // Disconnects first, then gives all commands back.
  spdk_nvme_ctrlr_free_io_qpair(pair_);
  pair_ = nullptr;
  namespace_ = nullptr;
  for (Command& command : commands_) {
    if (command.used) end(command, failed(Sc::kAbortedSqDeletion), true);
  }
}

bool SpdkChannel::is_open() const {
  const std::lock_guard lock(mutex_);
  return pair_ != nullptr;
}

std::shared_ptr<std::atomic<bool>> SpdkChannel::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

// ---- commands

SpdkChannel::Taken SpdkChannel::submit(const SpdkRequest& request, env::Nanos now) {
  const std::lock_guard lock(mutex_);
  if (pair_ == nullptr) return Taken::kLost;
  if (free_.empty()) return Taken::kLater;
  std::byte* const bounce = request.bounce ? bounces_.take() : nullptr;
  if (request.bounce && bounce == nullptr) return Taken::kLater;
  Command& command = commands_[free_.back()];
  free_.pop_back();
  command.used = true;
  command.walked = 0;
  command.bounce = bounce;
  command.begun = now;
  command.request = request;
  if (bounce != nullptr && request.verb == SpdkVerb::kWrite) {
    copy_out(command.request.data, bounce);
  }
  const int error = send(command);
  return error == 0 ? Taken::kYes : refused(command, error);
}

int SpdkChannel::send(Command& command) {
  const SpdkRequest& request = command.request;
  switch (request.verb) {
    case SpdkVerb::kRead:
      return spdk_nvme_ns_cmd_readv(namespace_, pair_, request.block, request.blocks, on_ended,
                                    &command, 0, rewind, next_place);
    case SpdkVerb::kWrite:
      return spdk_nvme_ns_cmd_writev(namespace_, pair_, request.block, request.blocks, on_ended,
                                     &command, 0, rewind, next_place);
    case SpdkVerb::kFlush:
      return spdk_nvme_ns_cmd_flush(namespace_, pair_, on_ended, &command);
    case SpdkVerb::kWriteZeroes:
      return spdk_nvme_ns_cmd_write_zeroes(namespace_, pair_, request.block, request.blocks,
                                           on_ended, &command, 0);
    case SpdkVerb::kZeroAndUnmap:
      return spdk_nvme_ns_cmd_write_zeroes(namespace_, pair_, request.block, request.blocks,
                                           on_ended, &command, SPDK_NVME_IO_FLAGS_DEALLOCATE);
    case SpdkVerb::kUnmap:
      return send_range(command);
  }
  return -EINVAL;
}

int SpdkChannel::send_range(Command& command) {
  // The driver keeps a copy of it.
  spdk_nvme_dsm_range range = {};
  range.starting_lba = command.request.block;
  range.length = command.request.blocks;
  return spdk_nvme_ns_cmd_dataset_management(namespace_, pair_, SPDK_NVME_DSM_ATTR_DEALLOCATE,
                                             &range, 1, on_ended, &command);
}

// The driver did not take it.
SpdkChannel::Taken SpdkChannel::refused(Command& command, int error) {
  const bool lost = error == -ENXIO;
  const bool alone = free_.size() + 1 == commands_.size();
  if (!lost && (error != -ENOMEM || alone)) {
    // Waiting does not help.
    end(command, larder::nvmf::refused(Sc::kInternalError), false);
    return Taken::kYes;
  }
  if (command.bounce != nullptr) bounces_.give(command.bounce);
  command.used = false;
  free_.push_back(static_cast<std::uint32_t>(&command - commands_.data()));
  return lost ? Taken::kLost : Taken::kLater;
}

void SpdkChannel::end(Command& command, Status status, bool cut) {
  if (command.bounce != nullptr) {
    if (status.ok() && command.request.verb == SpdkVerb::kRead) {
      PieceWindow& into = command.request.data;
      into.copy_in(0, {command.bounce, into.bytes()});
    }
    bounces_.give(command.bounce);
  }
  command.used = false;
  free_.push_back(static_cast<std::uint32_t>(&command - commands_.data()));
  ended_.push_back({command.request, status, cut});
}

Result<void> SpdkChannel::poll() {
  const std::lock_guard lock(mutex_);
  if (pair_ == nullptr) return fail(Code::kUnavailable, "the I/O queue is closed");
  const std::int32_t ended = spdk_nvme_qpair_process_completions(pair_, 0);
  if (ended >= 0) return {};
  return fail(Code::kUnavailable, "an I/O queue was lost: " + env::errno_text(-ended));
}

std::size_t SpdkChannel::take_ended(std::span<SpdkEnded> into) {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (; count < into.size() && !ended_.empty(); ended_.pop_front()) {
    into[count++] = ended_.front();
  }
  return count;
}

std::size_t SpdkChannel::in_flight() const {
  const std::lock_guard lock(mutex_);
  return commands_.size() - free_.size() + ended_.size();
}

env::Nanos SpdkChannel::oldest() const {
  const std::lock_guard lock(mutex_);
  env::Nanos out = block::kNoDeadline;
  for (const Command& command : commands_) {
    if (command.used) out = std::min(out, command.begun);
  }
  return out;
}

std::vector<std::uint64_t> SpdkChannel::sent_before(env::Nanos time) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> out;
  for (const Command& command : commands_) {
    if (command.used && command.begun < time) out.push_back(command.request.owner);
  }
  return out;
}

// ---- called by the driver, within our calls of it

void SpdkChannel::on_ended(void* command, const spdk_nvme_cpl* completion) {
  const Status status = std::bit_cast<Completion>(*completion).result();
  auto& ours = *static_cast<Command*>(command);
  ours.channel->end(ours, status, is_cut(status));
}

void SpdkChannel::rewind(void* command, std::uint32_t offset) {
  static_cast<Command*>(command)->walked = offset;
}

int SpdkChannel::next_place(void* command, void** address, std::uint32_t* length) {
  auto& ours = *static_cast<Command*>(command);
  PieceWindow& data = ours.request.data;
  if (ours.walked >= data.bytes()) return -EINVAL;
  const std::uint32_t left = data.bytes() - ours.walked;
  iovec place{nullptr, left};
  if (ours.bounce != nullptr) {
    place.iov_base = ours.bounce + ours.walked;
  } else {
    data.gather(ours.walked, left, {&place, 1});
  }
  *address = place.iov_base;
  *length = static_cast<std::uint32_t>(place.iov_len);
  ours.walked += *length;
  return 0;
}

// ---- news

void SpdkChannel::want(env::Nanos until) {
  const std::lock_guard lock(mutex_);
  wanted_until_ = until;
}

std::optional<Result<void>> SpdkChannel::take_news() {
  const std::lock_guard lock(mutex_);
  std::optional<Result<void>> out;
  out.swap(news_);
  return out;
}

std::optional<env::Nanos> SpdkChannel::wanted() const {
  const std::lock_guard lock(mutex_);
  return wanted_until_;
}

void SpdkChannel::tell(Result<void> news) {
  {
    const std::lock_guard lock(mutex_);
    wanted_until_.reset();
    news_ = std::move(news);
  }
  waker_.notify();
}

}  // namespace larder::nvmf
