// SPDX-License-Identifier: Apache-2.0
// Host memory: everything in this process's address space that no device platform knows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "platform/budget.h"
#include "platform/numa.h"
#include "platform/platform.h"

namespace larder::platform {

struct CpuOptions {
  std::uint64_t memory_limit = 0;  // bytes of all allocations at a time; 0: the host's memory
  // For tests: another host.
  std::string root;  // holds sys/
  PageQuery page_query = query_page_nodes;
};

// Copies are done, on the caller's thread, when submit() returns. A host with one node is cpu:0
// throughout, and nobody is asked.
class CpuPlatform final : public Platform {
 public:
  explicit CpuPlatform(CpuOptions options = {});

  MemoryType type() const noexcept override { return MemoryType::kCpu; }
  std::string_view name() const noexcept override { return "cpu"; }
  int device_count() const noexcept override { return nodes_.back() + 1; }
  Result<std::optional<Location>> locate(const void* ptr, std::uint64_t bytes) const override;
  Result<std::vector<Region>> probe(const void* ptr, std::uint64_t bytes) const override;
  // Not touched yet: pages come when they are written first. The node is a preference.
  Result<Allocation> allocate(std::uint64_t bytes, int index) override;
  // Nothing to pin for.
  Result<HostPin> pin(std::span<std::byte> host, int index) override;
  Result<std::unique_ptr<CopyEngine>> create_copier(const CopierOptions& options) override;

  std::uint64_t used_bytes() const noexcept { return budget_->used(); }

 private:
  bool single_node() const noexcept { return nodes_.size() == 1; }
  Result<void> check_node(int index) const;

  const CpuOptions options_;
  const std::vector<int> nodes_;  // online, ascending; at least one
  const std::shared_ptr<Budget> budget_;
};

}  // namespace larder::platform
