// SPDX-License-Identifier: Apache-2.0
#include "platform/cpu.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/copy_route.h"
#include "platform/done_ring.h"
#include "platform/stream_copy.h"

namespace larder::platform {
namespace {

std::uint64_t host_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::uint64_t>(pages) * kPageBytes : 0;
}

struct CpuBlock {
  void* data = nullptr;
  std::uint64_t bytes = 0;
  std::shared_ptr<Budget> budget;

  CpuBlock(void* start, std::uint64_t length, std::shared_ptr<Budget> from)
      : data(start), bytes(length), budget(std::move(from)) {}
  CpuBlock(const CpuBlock&) = delete;
  CpuBlock& operator=(const CpuBlock&) = delete;
  ~CpuBlock() {
    ::munmap(data, bytes);
    budget->give(bytes);
  }
};

class CpuCopier final : public CopyEngine {
 public:
  explicit CpuCopier(std::size_t depth) : depth_(depth), done_(depth) {}

  Result<void> submit(const Copy& copy) override {
    LARDER_TRY(check_copy(copy));
    if (done_.size() >= depth_) return fail(copier_full(depth_));
    stream_copy(copy.dst, copy.src, copy.bytes);
    done_.push({copy.tag, copy.bytes, {}});
    return {};
  }
  std::size_t poll(std::span<CopyDone> done) override { return done_.take(done); }
  std::size_t wait(std::span<CopyDone> done, env::Nanos) override { return done_.take(done); }
  Result<void> quiesce(env::Nanos) override { return {}; }
  std::size_t in_flight() const noexcept override { return 0; }
  std::size_t outstanding() const noexcept override { return done_.size(); }

 private:
  const std::size_t depth_;
  DoneRing done_;
};

}  // namespace

CpuPlatform::CpuPlatform(CpuOptions options)
    : options_(std::move(options)),
      nodes_(online_nodes(options_.root)),
      budget_(std::make_shared<Budget>(options_.memory_limit != 0 ? options_.memory_limit
                                                                  : host_bytes())) {}

Result<std::optional<Location>> CpuPlatform::locate(const void* ptr, std::uint64_t bytes) const {
  LARDER_TRY(check_range(ptr, bytes, "range"));
  Location found{MemoryType::kCpu, nodes_.front()};
  if (!single_node()) {
    void* page = const_cast<void*>(ptr);
    if (options_.page_query({&page, 1}, {&found.index, 1}) != 0) found.index = -1;
    found.index = std::max(found.index, -1);
  }
  return found;
}

Result<std::vector<Region>> CpuPlatform::probe(const void* ptr, std::uint64_t bytes) const {
  LARDER_TRY(check_range(ptr, bytes, "range"));
  if (single_node()) return std::vector<Region>{{0, bytes, {MemoryType::kCpu, nodes_.front()}}};
  return probe_nodes(ptr, bytes, options_.page_query);
}

Result<void> CpuPlatform::check_node(int index) const {
  if (index == -1 || std::binary_search(nodes_.begin(), nodes_.end(), index)) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("this host has no NUMA node {}: {} are online, up to {}", index,
                          nodes_.size(), nodes_.back()));
}

Result<Allocation> CpuPlatform::allocate(std::uint64_t bytes, int index) {
  LARDER_TRY(check_node(index));
  const Location where{MemoryType::kCpu, single_node() ? nodes_.front() : index};
  LARDER_ASSIGN(const std::uint64_t whole, allocation_bytes(bytes, budget_->limit(), where));
  if (!budget_->take(whole)) {
    return fail(Code::kExhausted,
                fmt::format("allocation of {} bytes of host memory: {} of {} are handed out", whole,
                            budget_->used(), budget_->limit()));
  }
  void* data = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    budget_->give(whole);
    return fail(Code::kExhausted, fmt::format("no address space for {} bytes of host memory: {}",
                                              whole, std::strerror(errno)));
  }
  auto block = std::make_shared<CpuBlock>(data, whole, budget_);
  if (!single_node()) prefer_node(data, whole, index);
  ::madvise(data, whole, MADV_DONTDUMP);  // a core file must not hold the users' caches
  return Allocation(static_cast<std::byte*>(data), whole, where, std::move(block));
}

Result<HostPin> CpuPlatform::pin(std::span<std::byte> host, int index) {
  LARDER_TRY(check_range(host.data(), host.size(), "range to pin"));
  LARDER_TRY(check_node(index));
  return HostPin();
}

Result<std::unique_ptr<CopyEngine>> CpuPlatform::create_copier(const CopierOptions& options) {
  LARDER_TRY(check_copier_options(options));
  return std::make_unique<CpuCopier>(options.depth);
}

}  // namespace larder::platform
