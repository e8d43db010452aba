// SPDX-License-Identifier: Apache-2.0
#include "block/fault_device.h"

#include <utility>

#include "block/fault_medium.h"

namespace larder::block {
namespace {

class FaultQueue final : public BlockQueue {
 public:
  FaultQueue(std::shared_ptr<DeviceBooks> books, std::shared_ptr<FaultMedium> medium,
             std::size_t depth)
      : BlockQueue(std::move(books), depth), medium_(std::move(medium)) {}
  ~FaultQueue() override { medium_->leave(lane_); }

  Result<void> enter() { return medium_->enter(lane_); }
  void start() override {}
  void wake() noexcept override { medium_->wake(lane_); }
  bool quiesce(env::Nanos deadline) override { return medium_->quiesce(lane_, deadline); }

 protected:
  Result<void> take(const BlockOp& op) override {
    medium_->take(lane_, op);
    return {};
  }
  std::size_t collect(std::span<BlockDone> into) override { return medium_->collect(lane_, into); }
  std::size_t collect_by(std::span<BlockDone> into, env::Nanos deadline) override {
    return medium_->collect_by(lane_, into, deadline);
  }

 private:
  std::shared_ptr<FaultMedium> medium_;
  FaultMedium::Lane lane_;
};

}  // namespace

Result<std::shared_ptr<FaultDevice>> FaultDevice::create(std::shared_ptr<BlockDevice> inner,
                                                         const FaultOptions& options) {
  if (inner == nullptr) return fail(Code::kInvalidArgument, "a fault device needs a device");
  LARDER_ASSIGN(auto below, inner->open_queue(1));
  Geometry geometry = inner->geometry();
  geometry.volatile_cache = true;
  if (geometry.discard_bytes == 0) geometry.discard_bytes = geometry.block_bytes;
  geometry.discard_zeroes = true;  // it writes zeros
  if (geometry.zeroes_max == 0) geometry.zeroes_max = geometry.bytes();
  auto books = std::make_shared<DeviceBooks>(
      geometry, Identity{"fault", inner->identity().name, inner->identity().id}, options.health);
  auto medium = std::make_shared<FaultMedium>(books, std::move(below), options);
  return std::shared_ptr<FaultDevice>(
      new FaultDevice(std::move(books), std::move(inner), std::move(medium)));
}

FaultDevice::FaultDevice(std::shared_ptr<DeviceBooks> books, std::shared_ptr<BlockDevice> inner,
                         std::shared_ptr<FaultMedium> medium)
    : BlockDevice(std::move(books)), inner_(std::move(inner)), medium_(std::move(medium)) {}

FaultDevice::~FaultDevice() = default;

Result<std::unique_ptr<BlockQueue>> FaultDevice::make_queue(std::size_t depth) {
  auto queue = std::make_unique<FaultQueue>(books(), medium_, depth);
  LARDER_TRY(queue->enter());
  return std::unique_ptr<BlockQueue>(std::move(queue));
}

void FaultDevice::set_witness(Witness witness) {
  inner_->set_witness(std::move(witness));
}

bool FaultDevice::add_buffer(std::span<std::byte> memory) {
  return inner_->add_buffer(memory);
}
void FaultDevice::remove_buffer(std::span<std::byte> memory) {
  inner_->remove_buffer(memory);
}
Result<void> FaultDevice::cut_power(CutKind kind) {
  return medium_->cut_power(kind);
}
void FaultDevice::stall() {
  medium_->stall(true);
}
void FaultDevice::resume() {
  medium_->stall(false);
}
void FaultDevice::set_bad(std::uint64_t offset, std::uint64_t bytes) {
  medium_->set_bad(offset, bytes);
}
void FaultDevice::set_full(bool full) {
  medium_->set_full(full);
}
Result<void> FaultDevice::flip_bit(std::uint64_t byte, unsigned bit) {
  return medium_->flip_bit(byte, bit);
}
FaultCounts FaultDevice::counts() const {
  return medium_->counts();
}

}  // namespace larder::block
