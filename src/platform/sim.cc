// SPDX-License-Identifier: Apache-2.0
#include "platform/sim.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "platform/copy_route.h"
#include "platform/sim_copier.h"
#include "platform/sim_devices.h"

namespace larder::platform {
namespace {

// The block that holds the range, or an error: what peek and poke may touch.
Result<std::byte*> reach_exactly(const SimDevices& devices, const void* ptr, std::uint64_t bytes) {
  LARDER_ASSIGN(const std::shared_ptr<SimBlock> block, devices.find(ptr, bytes));
  if (block == nullptr) {
    return fail(Code::kInvalidArgument, fmt::format("not memory of {}", devices.name()));
  }
  return block->shadow + (static_cast<const std::byte*>(ptr) - block->data);
}

}  // namespace

SimPlatform::SimPlatform(std::shared_ptr<SimDevices> devices) : devices_(std::move(devices)) {}
SimPlatform::~SimPlatform() = default;

Result<std::unique_ptr<SimPlatform>> SimPlatform::create(const SimOptions& options) {
  LARDER_ASSIGN(std::shared_ptr<SimDevices> devices, SimDevices::create(options));
  return std::unique_ptr<SimPlatform>(new SimPlatform(std::move(devices)));
}

MemoryType SimPlatform::type() const noexcept {
  return devices_->options().type;
}
std::string_view SimPlatform::name() const noexcept {
  return devices_->name();
}
int SimPlatform::device_count() const noexcept {
  return devices_->options().devices;
}

Result<std::optional<Location>> SimPlatform::locate(const void* ptr, std::uint64_t bytes) const {
  LARDER_ASSIGN(const std::shared_ptr<SimBlock> block, devices_->find(ptr, bytes));
  if (block == nullptr) return std::nullopt;
  return Location{type(), block->device};
}

Result<std::vector<Region>> SimPlatform::probe(const void* ptr, std::uint64_t bytes) const {
  LARDER_ASSIGN(const std::optional<Location> found, locate(ptr, bytes));
  if (!found) return fail(Code::kInvalidArgument, fmt::format("not memory of {}", name()));
  return std::vector<Region>{{0, bytes, *found}};
}

Result<Allocation> SimPlatform::allocate(std::uint64_t bytes, int index) {
  LARDER_TRY(check_index(index, device_count(), name()));
  const Location where{type(), index};
  LARDER_ASSIGN(const std::uint64_t whole,
                allocation_bytes(bytes, devices_->options().device_bytes, where));
  LARDER_ASSIGN(std::shared_ptr<SimBlock> block, devices_->allocate(whole, index));
  std::byte* data = block->data;
  std::shared_ptr<void> owner(
      data, [devices = devices_, block = std::move(block)](void*) { devices->free(block); });
  return Allocation(data, whole, where, std::move(owner));
}

Result<HostPin> SimPlatform::pin(std::span<std::byte> host, int index) {
  LARDER_TRY(check_range(host.data(), host.size(), "range to pin"));
  LARDER_TRY(check_index(index, device_count(), name()));
  return HostPin();
}

Result<std::unique_ptr<CopyEngine>> SimPlatform::create_copier(const CopierOptions& options) {
  LARDER_TRY(check_copier_options(options));
  return std::make_unique<SimCopier>(devices_, options.depth);
}

Result<void> SimPlatform::peek(const void* device_ptr, std::span<std::byte> into) const {
  LARDER_ASSIGN(const std::byte* from, reach_exactly(*devices_, device_ptr, into.size()));
  std::memcpy(into.data(), from, into.size());
  return {};
}

Result<void> SimPlatform::poke(void* device_ptr, std::span<const std::byte> from) {
  LARDER_ASSIGN(std::byte * into, reach_exactly(*devices_, device_ptr, from.size()));
  std::memcpy(into, from.data(), from.size());
  return {};
}

Result<void> SimPlatform::set_faults(const SimFaults& faults) {
  LARDER_TRY(check_faults(faults));
  devices_->set_faults(faults);
  return {};
}

std::uint64_t SimPlatform::used_bytes(int index) const {
  return devices_->used_bytes(index);
}
std::uint64_t SimPlatform::freed_in_flight() const noexcept {
  return devices_->freed_in_flight();
}

}  // namespace larder::platform
