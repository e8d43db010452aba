// SPDX-License-Identifier: Apache-2.0
// A remote NVMe namespace as a block device, through SPDK's driver, over NVMe/TCP or NVMe/RDMA: for
// those who have SPDK, its huge pages and cores to poll with. NvmeDevice needs none of these.
//
// All that NvmeDevice says (nvmf/host/device.h) of associations, of attaching again, of flushes and
// of writes that are sent again holds here; the association is SPDK's controller. What differs:
//
//   - SPDK is polled. wait() polls for a while, then looks every 50 microseconds.
//   - Over RDMA memory has to be known to SPDK. What add_buffer() was given is used in place, its
//     whole 2 MiB pages that is, if they are huge pages; everything else is copied through a few
//     buffers of the queue. Over TCP any memory is used in place, and add_buffer() has no use.
//   - SPDK has one controller of a subsystem in a process, so there is one device of it, and none
//     before the last queue of the former has gone.
//   - SPDK's attaching cannot be stopped: an operation that waits for it may wait longer than
//     reattach_timeout, by one attempt.
//   - SPDK says no reasons. An address that does not answer, a host that is not let in and a
//     subsystem that is not there are all kUnavailable; its own lines on the standard error tell.
#pragma once

#include "block/block_device.h"
#include "nvmf/host/facts.h"
#include "nvmf/host/stats.h"
#include "nvmf/spdk/options.h"

namespace larder::nvmf {

class SpdkState;

// Any thread.
class SpdkDevice final : public block::BlockDevice {
 public:
  // Starts SPDK's environment if this is the first, attaches the controller and looks at the
  // namespace. Blocks, and may take several times connect_timeout.
  //   kInvalidArgument   the options; a URL without an NQN, or of a discovery service
  //   kUnavailable       SPDK does not start, or did not attach it
  //   kNotFound          no such namespace
  //   kUnsupported       metadata, protection information, block sizes
  //   kConflict          not the expected_id; this process has this subsystem open
  //   kExhausted         no descriptors; the target grants no queue
  static Result<std::shared_ptr<SpdkDevice>> open(const SpdkDeviceOptions& options);

  bool add_buffer(std::span<std::byte> memory) override;
  void remove_buffer(std::span<std::byte> memory) override;

  NvmeStats nvme_stats() const;
  std::uint32_t nsid() const noexcept;

 private:
  explicit SpdkDevice(std::shared_ptr<SpdkState> state);
  Result<std::unique_ptr<block::BlockQueue>> make_queue(std::size_t depth) override;

  std::shared_ptr<SpdkState> state_;
};

}  // namespace larder::nvmf
