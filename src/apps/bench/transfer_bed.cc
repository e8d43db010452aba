// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transfer_bed.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/page_pattern.h"
#include "base/units.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kLocalBytesMin = 64ULL << 20;  // twice a large last-level cache
constexpr std::uint64_t kBedBytesMax = 8ULL << 30;
constexpr std::size_t kPlacesMin = 4;
constexpr std::chrono::seconds kPatience{60};

std::uint64_t bytes_at_once(const TransferCase& name) noexcept {
  return name.threads * std::max(name.batch, kPlacesMin) * name.bytes;
}

// One transport each: left to itself, the engine would map what the tcp cases want to be sent.
std::string transport_for(TransferTarget target) {
  return on_file(target) ? "io_uring" : std::string(target_text(target));
}

Result<SegmentId> open_peer_segment(TransferEngine& engine, const std::string& address) {
  auto segment = engine.open_segment(address);
  if (segment || segment.error().code() != Code::kInvalidArgument) return segment;
  return fail(Code::kUnsupported, segment.error().message());
}

}  // namespace

Result<BedSizes> bed_sizes(const TransferCase& name, std::uint64_t set_bytes) {
  const std::uint64_t needed = bytes_at_once(name);
  if (needed > kBedBytesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("its batches need {} of memory at each end; {} is the most",
                            base::human_bytes(needed), base::human_bytes(kBedBytesMax)));
  }
  return BedSizes{std::max(kLocalBytesMin, needed), std::max(set_bytes, needed)};
}

Result<void> check_file_room(const TransferCase& name, std::uint64_t file_bytes) {
  if (file_bytes >= bytes_at_once(name)) return {};
  return fail(Code::kInvalidArgument, fmt::format("its batches need --file-bytes {} or more",
                                                  base::format_size(bytes_at_once(name))));
}

Result<std::span<std::byte>> TransferBed::allocate(std::uint64_t bytes, std::uint64_t seed) const {
  LARDER_ASSIGN(void* const memory, engine_->allocate_memory(bytes));
  const std::span<std::byte> all(static_cast<std::byte*>(memory), bytes);
  fill_pages(all, seed, 0);
  return all;
}

Result<std::unique_ptr<TransferBed>> TransferBed::open(const TransferCase& name,
                                                       const BenchOptions& options,
                                                       const DiskFile* file) {
  std::unique_ptr<TransferBed> bed(new TransferBed());
  LARDER_ASSIGN(const BedSizes sizes, bed_sizes(name, options.set_bytes));
  TransferConfig config;
  config.transports = {transport_for(name.target)};
  if (name.target == TransferTarget::kStaging) {
    config.transports.push_back("memcpy");  // fills the device's memory, and shows it
    config.platforms = {"cpu", "sim-npu"};
  }
  LARDER_ASSIGN(bed->engine_, TransferEngine::create(config));
  switch (name.target) {
    case TransferTarget::kMemcpy:
      LARDER_TRY(bed->open_local(options, sizes.target));
      break;
    case TransferTarget::kShm:
    case TransferTarget::kTcp:
      LARDER_TRY(bed->open_peer(name, options, sizes.target));
      break;
    case TransferTarget::kFile:
    case TransferTarget::kStaging:
      LARDER_TRY(check_file_room(name, file->bytes()));
      LARDER_TRY(bed->open_file(*file));
      break;
  }
  if (name.target == TransferTarget::kStaging) {
    LARDER_TRY(bed->open_device(options, sizes.local));
  } else {
    LARDER_ASSIGN(bed->local_, bed->allocate(sizes.local, ~options.seed));
  }
  if (name.target == TransferTarget::kShm && options.limits) {
    LARDER_ASSIGN(bed->beside_, bed->allocate(sizes.target, options.seed));
  }
  if (options.verify) {
    LARDER_ASSIGN(bed->scratch_, bed->allocate(name.threads * name.bytes * 2, ~options.seed));
  }
  return bed;
}

// What the limits use is also what its memory is filled from.
Result<void> TransferBed::open_device(const BenchOptions& options, std::uint64_t bytes) {
  LARDER_ASSIGN(host_, Mapping::private_memory(bytes, "thp"));
  beside_ = host_.bytes();
  fill_pages(beside_, ~options.seed, 0);
  const MemoryRange range{beside_.data(), bytes, "*"};
  LARDER_TRY(engine_->register_memory({&range, 1}));
  LARDER_ASSIGN(void* const memory, engine_->allocate_memory(bytes, "npu:0"));
  local_ = {static_cast<std::byte*>(memory), bytes};
  on_device_ = true;
  return copy(Opcode::kRead, local_.data(), beside_.data(), bytes);
}

Result<void> TransferBed::copy(Opcode op, std::byte* device, std::byte* host,
                               std::uint64_t bytes) const {
  TransferRequest request;
  request.opcode = op;
  request.local = device;
  request.target_offset = reinterpret_cast<std::uintptr_t>(host);
  request.length = bytes;
  LARDER_ASSIGN(const BatchId batch, engine_->allocate_batch(1));
  LARDER_ASSIGN(const auto taken, engine_->submit(batch, {&request, 1}));
  if (taken[0].code != Code::kOk) return fail(taken[0].code, taken[0].message);
  LARDER_TRY(engine_->wait(batch, kPatience));
  LARDER_ASSIGN(const TaskStatus status, engine_->poll(batch, 0));
  LARDER_TRY(engine_->free_batch(batch));
  return status.outcome == Outcome::kCompleted ? Result<void>{} : fail(status.code, status.message);
}

Result<void> TransferBed::open_local(const BenchOptions& options, std::uint64_t bytes) {
  LARDER_ASSIGN(beside_, allocate(bytes, options.seed));
  target_ = kLocalSegment;
  target_begin_ = reinterpret_cast<std::uintptr_t>(beside_.data());
  target_bytes_ = bytes;
  return {};
}

Result<void> TransferBed::open_file(const DiskFile& file) {
  LARDER_ASSIGN(target_, engine_->open_segment("file://" + file.path()));
  target_bytes_ = file.bytes();
  return {};
}

Result<void> TransferBed::open_peer(const TransferCase& name, const BenchOptions& options,
                                    std::uint64_t bytes) {
  PeerOptions peer;
  peer.bytes = bytes;
  peer.seed = options.seed;
  if (name.target == TransferTarget::kShm) {
    LARDER_ASSIGN(auto directory, env::TempDirectory::create("larder-bench"));
    directory_.emplace(std::move(directory));
    peer.listen = "unix:" + directory_->file("peer.sock");
  }
  LARDER_ASSIGN(peer_, TransferPeer::start(peer));
  const PeerOffer& offer = peer_->offer();
  LARDER_ASSIGN(target_, open_peer_segment(*engine_, offer.address));
  LARDER_ASSIGN(const SegmentInfo info, engine_->segment_info(target_));
  const bool listed =
      std::any_of(info.buffers.begin(), info.buffers.end(), [&](const SegmentInfo::Buffer& have) {
        return have.address <= offer.memory && have.bytes >= offer.bytes &&
               offer.memory - have.address <= have.bytes - offer.bytes;
      });
  if (!listed) return fail(Code::kInternal, "the peer's segment does not list its own memory");
  target_begin_ = offer.memory;
  target_bytes_ = offer.bytes;
  return {};
}

}  // namespace larder::apps
