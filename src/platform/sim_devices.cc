// SPDX-License-Identifier: Apache-2.0
#include "platform/sim_devices.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace larder::platform {
namespace {

std::string_view type_text(MemoryType type) {
  return type == MemoryType::kCuda ? "sim-cuda" : "sim-npu";
}

Result<void> check_link(const SimLink& link, CopyDirection direction) {
  if (link.latency >= 0 && link.latency <= env::kSecond * 3600) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("latency of the simulated link '{}' is {} ns: must be 0 to one hour",
                          direction_name(direction), link.latency));
}

Result<void> check_sizes(const SimOptions& options) {
  if (!is_device_memory(options.type)) {
    return fail(Code::kInvalidArgument, "a simulated device has memory of type cuda or npu");
  }
  if (options.devices < 1 || options.devices > kSimDevicesMax) {
    return fail(Code::kInvalidArgument, fmt::format("{} simulated devices: must be 1 to {}",
                                                    options.devices, kSimDevicesMax));
  }
  if (options.device_bytes == 0 || options.device_bytes % kPageBytes != 0 ||
      options.device_bytes > kSimDeviceBytesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("simulated device of {} bytes: must be whole pages of {}, at most {}",
                            options.device_bytes, kPageBytes, kSimDeviceBytesMax));
  }
  return {};
}

Result<void> check_options(const SimOptions& options) {
  LARDER_TRY(check_sizes(options));
  if (options.clock == nullptr) return fail(Code::kInvalidArgument, "the clock is null");
  LARDER_TRY(check_link(options.in, CopyDirection::kIn));
  LARDER_TRY(check_link(options.out, CopyDirection::kOut));
  LARDER_TRY(check_link(options.within, CopyDirection::kWithin));
  return check_faults(options.faults);
}

const SimLink& link_of(const SimOptions& options, CopyDirection direction) {
  if (direction == CopyDirection::kIn) return options.in;
  return direction == CopyDirection::kOut ? options.out : options.within;
}

env::Nanos time_on(const SimLink& link, std::uint64_t bytes) {
  if (link.bytes_per_second == 0) return 0;
  constexpr double kLongest = 1e18;  // some 30 years; keeps the sum of times representable
  const double nanos = static_cast<double>(bytes) * static_cast<double>(env::kSecond) /
                       static_cast<double>(link.bytes_per_second);
  return static_cast<env::Nanos>(std::min(nanos, kLongest));
}

Error no_room(const char* what) {
  return {Code::kExhausted,
          fmt::format("no {} for a simulated device: {}", what, std::strerror(errno))};
}

}  // namespace

Result<void> check_faults(const SimFaults& faults) {
  const auto is_share = [](double p) { return p >= 0 && p <= 1; };  // false for NaN
  const double sum = faults.error + faults.late + faults.lost;
  if (is_share(faults.error) && is_share(faults.late) && is_share(faults.lost) && is_share(sum) &&
      faults.late_by >= 0 && faults.late_by <= env::kSecond * 3600) {
    return {};
  }
  return fail(Code::kInvalidArgument,
              fmt::format("simulated faults error={} late={} lost={} late_by={} ns: probabilities "
                          "are 0 to 1 and at most 1 together, the delay 0 to one hour",
                          faults.error, faults.late, faults.lost, faults.late_by));
}

Result<std::unique_ptr<SimMemory>> SimMemory::create(std::uint64_t bytes, const std::string& name) {
  std::unique_ptr<SimMemory> made(new SimMemory());
  const env::Fd fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!fd.valid()) return fail(no_room("descriptor"));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return fail(no_room("memory"));
  made->bytes_ = bytes;
  void* data =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return fail(no_room("address space"));
  made->data_ = static_cast<std::byte*>(data);
  void* shadow =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (shadow == MAP_FAILED) return fail(no_room("address space"));
  made->shadow_ = static_cast<std::byte*>(shadow);
  ::madvise(shadow, bytes, MADV_DONTDUMP);
  return made;
}

SimMemory::~SimMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  if (shadow_ != nullptr) ::munmap(shadow_, bytes_);
}

void SimMemory::clear(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (::madvise(shadow_ + offset, bytes, MADV_REMOVE) != 0) std::memset(shadow_ + offset, 0, bytes);
}

Result<std::shared_ptr<SimDevices>> SimDevices::create(const SimOptions& options) {
  LARDER_TRY(check_options(options));
  std::shared_ptr<SimDevices> made(new SimDevices(options));
  made->set_faults(options.faults);
  made->devices_.resize(static_cast<std::size_t>(options.devices));
  for (int i = 0; i < options.devices; ++i) {
    const std::string name = fmt::format("larder-{}-{}", type_text(options.type), i);
    LARDER_ASSIGN(made->devices_[static_cast<std::size_t>(i)].memory,
                  SimMemory::create(options.device_bytes, name));
  }
  return made;
}

std::string_view SimDevices::name() const noexcept {
  return type_text(options_.type);
}

Result<std::shared_ptr<SimBlock>> SimDevices::find(const void* ptr, std::uint64_t bytes) const {
  LARDER_TRY(check_range(ptr, bytes, "range"));
  const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
  const std::lock_guard lock(devices_mutex_);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const auto base = reinterpret_cast<std::uintptr_t>(devices_[i].memory->data());
    if (begin < base + devices_[i].memory->bytes() && base < begin + bytes) {
      return find_on(devices_[i], static_cast<int>(i), begin, bytes);
    }
  }
  return nullptr;
}

Result<std::shared_ptr<SimBlock>> SimDevices::find_on(const Device& device, int index,
                                                      std::uintptr_t begin,
                                                      std::uint64_t bytes) const {
  auto next = device.blocks.upper_bound(begin);
  if (next != device.blocks.begin()) {
    const auto& [base, block] = *std::prev(next);
    if (begin + bytes <= base + block->bytes) return block;
  }
  return fail(Code::kInvalidArgument,
              fmt::format("a range of {} bytes touches {} and is not within one allocation of it",
                          bytes, format_location({options_.type, index})));
}

Result<std::shared_ptr<SimBlock>> SimDevices::allocate(std::uint64_t bytes, int index) {
  const std::lock_guard lock(devices_mutex_);
  Device& device = devices_[static_cast<std::size_t>(index)];
  const auto base = reinterpret_cast<std::uintptr_t>(device.memory->data());
  std::uintptr_t at = base;  // first fit
  for (const auto& [address, block] : device.blocks) {
    if (address - at >= bytes) break;
    at = address + block->bytes;
  }
  if (base + device.memory->bytes() - at < bytes) {
    return fail(
        Code::kExhausted,
        fmt::format("allocation of {} bytes: {} has {} of {} in use, and no hole that large", bytes,
                    format_location({options_.type, index}), device.used, device.memory->bytes()));
  }
  auto block = std::make_shared<SimBlock>();
  block->data = device.memory->data() + (at - base);
  block->shadow = device.memory->shadow() + (at - base);
  block->bytes = bytes;
  block->device = index;
  device.blocks.emplace(at, block);
  device.used += bytes;
  return block;
}

void SimDevices::free(const std::shared_ptr<SimBlock>& block) noexcept {
  if (block->in_flight.load() > 0) freed_in_flight_.fetch_add(1);
  // Neither changes after create(); the range is nobody else's until it is out of the map.
  Device& device = devices_[static_cast<std::size_t>(block->device)];
  device.memory->clear(static_cast<std::uint64_t>(block->data - device.memory->data()),
                       block->bytes);
  const std::lock_guard lock(devices_mutex_);
  device.blocks.erase(reinterpret_cast<std::uintptr_t>(block->data));
  device.used -= block->bytes;
}

SimFault SimDevices::roll() {
  if (faults_.error + faults_.late + faults_.lost <= 0) return SimFault::kNone;
  const double drawn = std::uniform_real_distribution<double>(0, 1)(dice_);
  if (drawn < faults_.error) return SimFault::kError;
  if (drawn < faults_.error + faults_.late) return SimFault::kLate;
  return drawn < faults_.error + faults_.late + faults_.lost ? SimFault::kLost : SimFault::kNone;
}

SimFate SimDevices::schedule(const CopyRoute& route, std::uint64_t bytes) {
  SimFate fate;
  fate.moved = bytes;
  env::Nanos late_by = 0;
  {
    const std::lock_guard lock(dice_mutex_);
    fate.fault = roll();
    if (fate.fault == SimFault::kError) fate.moved = dice_() % bytes;
    if (fate.fault == SimFault::kLate) late_by = faults_.late_by;
  }
  const SimLink& link = link_of(options_, route.direction);
  const env::Nanos now = clock().now();
  const std::lock_guard lock(devices_mutex_);
  env::Nanos& link_free = devices_[static_cast<std::size_t>(route.device)]
                              .link_free[static_cast<std::size_t>(route.direction)];
  link_free = std::max(link_free, now) + time_on(link, bytes);
  fate.due = link_free + link.latency + late_by;
  return fate;
}

void SimDevices::set_faults(const SimFaults& faults) {
  const std::lock_guard lock(dice_mutex_);
  faults_ = faults;
  dice_.seed(faults.seed);
}

std::uint64_t SimDevices::used_bytes(int device) const {
  const std::lock_guard lock(devices_mutex_);
  if (device < 0 || device >= options_.devices) return 0;
  return devices_[static_cast<std::size_t>(device)].used;
}

}  // namespace larder::platform
