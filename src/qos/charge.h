// SPDX-License-Identifier: Apache-2.0
// What a transfer takes from the machine: bytes of each directional resource.
//
// The vector of a stage is for one byte moved, a weight. A slice is charged the weight times its
// length, so the charges of all slices of a request add up to exactly those of the request,
// whatever the cut. A staged transfer has two vectors, one a stage, and they are never summed: its
// halves run at different times, and a sum would hold the NIC while the accelerator copies.
//
// Everything here is pure and any thread's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "larder/status.h"
#include "larder/transfer_types.h"

namespace larder::qos {

class ChargeVector {
 public:
  constexpr ChargeVector() noexcept = default;

  constexpr std::uint64_t operator[](Resource resource) const noexcept {
    return bytes_[static_cast<std::size_t>(resource)];
  }
  // Sums and products stop at 2^64 - 1: what wrapped would look small, and be let through.
  constexpr ChargeVector& add(Resource resource, std::uint64_t bytes) noexcept {
    std::uint64_t& sum = bytes_[static_cast<std::size_t>(resource)];
    sum = bytes > kMax - sum ? kMax : sum + bytes;
    return *this;
  }
  constexpr ChargeVector& add(const ChargeVector& other) noexcept {
    other.for_each([this](Resource resource, std::uint64_t bytes) { add(resource, bytes); });
    return *this;
  }
  // A stage's weights to the charge of a slice of `bytes`.
  constexpr ChargeVector scaled(std::uint64_t bytes) const noexcept {
    ChargeVector out;
    for_each([&out, bytes](Resource resource, std::uint64_t weight) {
      out.add(resource, bytes > kMax / weight ? kMax : bytes * weight);
    });
    return out;
  }
  constexpr bool empty() const noexcept { return *this == ChargeVector(); }
  // True when both take from one resource: only then has one to wait for the other.
  constexpr bool collides_with(const ChargeVector& other) const noexcept {
    bool shared = false;
    for_each([&](Resource resource, std::uint64_t) { shared |= other[resource] != 0; });
    return shared;
  }
  // visit(Resource, bytes) for what is not zero, always in the order of the enumeration; who takes
  // several resources one by one takes them in this order, and so never deadlocks.
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < kResourceCount; ++i) {
      if (bytes_[i] != 0) visit(static_cast<Resource>(i), bytes_[i]);
    }
  }
  // "nic_tx=1048576,host_memory_bw=1048576"; "none" when empty.
  std::string to_string() const;

  constexpr bool operator==(const ChargeVector&) const noexcept = default;

 private:
  static constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  std::array<std::uint64_t, kResourceCount> bytes_{};
};

// One hop of bytes. "Device" is an accelerator's memory, "peer" the memory of another machine.
enum class Stage : std::uint8_t {
  kDeviceToHost = 0,
  kHostToDevice = 1,
  kHostToPeer = 2,
  kPeerToHost = 3,
  kHostToFile = 4,
  kFileToHost = 5,
  kHostToHost = 6,    // memcpy and shared memory
  kFileToDevice = 7,  // direct storage: host memory is not touched
  kDeviceToFile = 8,
  // A namespace of another machine, over NVMe/TCP: the drive is over there, and is charged here,
  // where the bytes are asked for.
  kHostToNamespace = 9,
  kNamespaceToHost = 10,
};
inline constexpr std::size_t kStageCount = 11;

// "device_to_host"; "unknown" for numbers that are none of these.
std::string_view stage_name(Stage stage) noexcept;

// The weights of a stage; empty for numbers that are no stage.
constexpr ChargeVector charges_of(Stage stage) noexcept {
  ChargeVector out;
  switch (stage) {
    case Stage::kDeviceToHost:
      return out.add(Resource::kAccelPcieOut, 1).add(Resource::kHostMemoryBw, 1);
    case Stage::kHostToDevice:
      return out.add(Resource::kHostMemoryBw, 1).add(Resource::kAccelPcieIn, 1);
    case Stage::kHostToPeer:
      return out.add(Resource::kHostMemoryBw, 1).add(Resource::kNicTx, 1);
    case Stage::kPeerToHost:
      return out.add(Resource::kNicRx, 1).add(Resource::kHostMemoryBw, 1);
    case Stage::kHostToFile:
      return out.add(Resource::kHostMemoryBw, 1).add(Resource::kNvmeWrite, 1);
    case Stage::kFileToHost:
      return out.add(Resource::kNvmeRead, 1).add(Resource::kHostMemoryBw, 1);
    case Stage::kHostToHost:
      // Twice: every byte is read from memory and written to memory, where the hops to a device
      // touch it once. Charged once, a memcpy would seem half as disturbing as it is.
      return out.add(Resource::kHostMemoryBw, 2);
    case Stage::kFileToDevice:
      return out.add(Resource::kNvmeRead, 1).add(Resource::kAccelPcieIn, 1);
    case Stage::kDeviceToFile:
      return out.add(Resource::kAccelPcieOut, 1).add(Resource::kNvmeWrite, 1);
    case Stage::kHostToNamespace:
      return charges_of(Stage::kHostToPeer).add(Resource::kNvmeWrite, 1);
    case Stage::kNamespaceToHost:
      return charges_of(Stage::kPeerToHost).add(Resource::kNvmeRead, 1);
  }
  return out;
}

// The stages of one request, in the order in which its bytes pass them: one, or two when it goes
// through a staging buffer.
class ChargePlan {
 public:
  constexpr explicit ChargePlan(Stage only) noexcept : stages_{only, only}, count_(1) {}
  constexpr ChargePlan(Stage first, Stage second) noexcept : stages_{first, second}, count_(2) {}

  constexpr std::span<const Stage> stages() const noexcept { return {stages_.data(), count_}; }
  // What `bytes` take in the stage; empty for a stage that the plan does not have.
  constexpr ChargeVector charges(std::size_t stage, std::uint64_t bytes) const noexcept {
    return stage < count_ ? charges_of(stages_[stage]).scaled(bytes) : ChargeVector();
  }
  // "device_to_host, host_to_peer"
  std::string to_string() const;

  constexpr bool operator==(const ChargePlan&) const noexcept = default;

 private:
  std::array<Stage, 2> stages_;
  std::uint8_t count_;
};

// Where the other end of a request is.
enum class FarSide : std::uint8_t {
  kHostMemory = 0,  // of this machine
  kPeerMemory = 1,
  kFile = 2,
};

struct Movement {
  MemoryType local = MemoryType::kUnknown;
  FarSide far_side = FarSide::kHostMemory;
  bool outbound = false;  // a write: from local memory to the far side
  bool staged = false;    // local device memory, moved through host memory
};

// kInvalidArgument: the kind of the local memory is unknown, or host memory is to be staged.
// kUnsupported: no stage does that in one hop (device memory to a peer); stage it.
Result<ChargePlan> plan_of(const Movement& movement);

}  // namespace larder::qos
