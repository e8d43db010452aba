// SPDX-License-Identifier: Apache-2.0
// A remote NVMe namespace as a block device, over NVMe/TCP, from an ordinary process: no kernel
// module, no huge pages, no root.
//
// Each BlockQueue is an I/O queue on a connection of its own, which the queue's thread drives: it
// sends in submit order when it starts, polls or waits, and receives data straight into the
// caller's memory. A thread of the device keeps the association: keep-alives, events, new
// connections.
//
// A command that takes longer than io_timeout, a connection that breaks, a controller that breaks a
// rule, or a keep-alive without an answer: the association is over. Its connections are closed
// first, then their operations end or go on: nothing touches memory of an operation that ended.
//
// Reattach::kOnce: operations that were in flight then wait up to reattach_timeout for a new
// association, of the same namespace (identity, block size, no smaller, no worse guarantees, and
// what the Witness asks for; else the device fails, and says what changed), and are sent once more;
// those that come later wait, too. An operation whose own command was too late, or that is hit
// twice, ends with kUnavailable.
//
//   - Flushes. Writes that had ended and were not flushed before an association was lost may be
//     gone, if the controller has a volatile cache (Geometry::volatile_cache): the target itself
//     may have been gone. The next flush then fails, and the device with it, as after any failed
//     flush. Without a volatile cache there is nothing to lose.
//   - Writes that are sent again. The controller may still carry out a write of the lost
//     association after the host has given it up (Base 2.1 calls it communication loss, and has no
//     cure without per-command fencing). A caller that overwrites a block right after its
//     retried write ended can be overtaken by the lost one. The record store writes a place once
//     and verifies what it reads; others should set Reattach::kNever.
//
// A queue that is destroyed with operations in flight waits up to five seconds for them, then
// closes its connection, and the association with it.
#pragma once

#include "block/block_device.h"
#include "nvmf/host/facts.h"
#include "nvmf/host/options.h"
#include "nvmf/host/stats.h"

namespace larder::nvmf {

class NvmeState;

// Any thread.
class NvmeDevice final : public block::BlockDevice {
 public:
  // Connects, enables the controller and identifies the namespace, within connect_timeout.
  //   kInvalidArgument   the options; a URL without an NQN, or of a discovery service
  //   kNotFound          no such subsystem or namespace
  //   kPermissionDenied  the target does not let this host in
  //   kUnavailable, kDeadlineExceeded   no answer there
  //   kUnsupported       metadata, protection information, block sizes, digests, versions
  //   kConflict          not the expected_id
  //   kExhausted         no descriptors; the target grants no queue
  //   kCorrupt           it is no NVMe/TCP target, or a broken one
  static Result<std::shared_ptr<NvmeDevice>> open(const NvmeDeviceOptions& options);

  bool add_buffer(std::span<std::byte>) override { return false; }
  void remove_buffer(std::span<std::byte>) override {}
  void set_witness(block::Witness witness) override;

  NvmeStats nvme_stats() const;
  std::uint32_t nsid() const noexcept;
  // What the controller said of itself when the device was opened.
  const ControllerFacts& controller() const noexcept;

 private:
  explicit NvmeDevice(std::shared_ptr<NvmeState> state);
  Result<std::unique_ptr<block::BlockQueue>> make_queue(std::size_t depth) override;

  std::shared_ptr<NvmeState> state_;
};

}  // namespace larder::nvmf
