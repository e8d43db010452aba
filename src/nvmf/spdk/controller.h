// SPDX-License-Identifier: Apache-2.0
// A controller that SPDK's driver has attached.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "nvmf/host/facts.h"
#include "nvmf/spdk/options.h"

struct spdk_nvme_ctrlr;
struct spdk_nvme_ns;

namespace larder::nvmf {

// One thread, but for `lost` and what says so. Its queue pairs are freed before it is destroyed.
class SpdkController {
 public:
  // Blocks until it is attached and identified.
  //   kConflict     this process has that subsystem attached already: the driver would hand out the
  //                 same controller again, lost or not
  //   kUnavailable  SPDK could not attach it; why is on the standard error
  //   kInvalidArgument, kUnsupported   the address; what it is
  static Result<std::unique_ptr<SpdkController>> attach(const SpdkDeviceOptions& options,
                                                        const HostIdentity& host);
  ~SpdkController();
  SpdkController(const SpdkController&) = delete;
  SpdkController& operator=(const SpdkController&) = delete;

  const ControllerFacts& facts() const noexcept { return facts_; }
  // As larder::nvmf::find_namespace().
  Result<NamespaceFacts> find_namespace(std::optional<std::uint32_t> wanted);
  std::uint16_t queues() const noexcept;  // I/O queues granted
  spdk_nvme_ctrlr* raw() const noexcept { return raw_; }
  spdk_nvme_ns* raw_namespace(std::uint32_t nsid) const noexcept;

  // Keep-alives and events. kUnavailable: it is lost.
  Result<void> attend();
  // Events since the last call; whether one of them was about namespaces.
  struct Events {
    std::uint64_t count = 0;
    bool namespaces = false;
  };
  Events take_events() noexcept;

  // The association ended early: nothing is to be expected of the other end. Any thread sets and
  // reads it; who finds it set by itself tells the others. It may outlive the controller.
  const std::shared_ptr<std::atomic<bool>>& lost() const noexcept { return lost_; }

 private:
  SpdkController() = default;
  Result<void> read_facts();

  std::string name_;  // in the list of those that this process has; empty: not there
  spdk_nvme_ctrlr* raw_ = nullptr;
  ControllerFacts facts_;
  Events events_;
  std::shared_ptr<std::atomic<bool>> lost_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace larder::nvmf
