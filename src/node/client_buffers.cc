// SPDX-License-Identifier: Apache-2.0
#include "node/client_buffers.h"

#include <sys/mman.h>

#include <cerrno>

#include "env/random.h"
#include "env/socket.h"

namespace larder::node {
namespace {

constexpr std::size_t kHeaderBytes = 4096;
// Windows up to this size are touched at once, so that no put takes a fault; this happens on a
// network thread, so what is larger is touched beside it.
constexpr std::uint64_t kPopulateBytesMax = 16ULL << 20;

}  // namespace

Result<std::shared_ptr<ClientBuffer>> ClientBuffer::map(int fd, std::uint64_t bytes) {
  if (bytes <= wire::kWindowDataAt || bytes > wire::kWindowBytesMax) {
    return fail(Code::kInvalidArgument,
                "a shared buffer of " + std::to_string(bytes) + " bytes is out of bounds");
  }
  tier::MapOptions options;
  options.populate = bytes <= kPopulateBytesMax;
  LARDER_ASSIGN(tier::MappedSegment memory, tier::MappedSegment::map(fd, bytes, options));
  void* header = ::mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (header == MAP_FAILED) {
    return fail(Code::kInvalidArgument,
                "the shared buffer cannot be mapped for writing: " + env::errno_text(errno));
  }
  auto* window = static_cast<wire::WindowHeader*>(header);
  if (window->magic != wire::kWindowMagic) {
    ::munmap(header, kHeaderBytes);
    return fail(Code::kCorrupt, "the shared buffer does not begin as one");
  }
  std::shared_ptr<ClientBuffer> buffer(new ClientBuffer(std::move(memory), window));
  if (!options.populate) {
    buffer->warmer_ =
        std::make_unique<env::PageWarmer>(buffer->memory_.view(), env::PageWarmer::By::kReader);
  }
  return buffer;
}

ClientBuffer::~ClientBuffer() {
  ::munmap(header_, kHeaderBytes);
}

const std::byte* ClientBuffer::at(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (offset < wire::kWindowDataAt || offset > memory_.bytes()) return nullptr;
  if (bytes > memory_.bytes() - offset) return nullptr;
  return memory_.data() + offset;
}

void ClientBuffer::add_consumed() noexcept {
  header_->consumed.fetch_add(1, std::memory_order_release);
}

Result<std::pair<std::uint64_t, std::shared_ptr<void>>> ClientBuffers::adopt(env::Fd fd,
                                                                             std::uint64_t bytes) {
  LARDER_ASSIGN(std::shared_ptr<ClientBuffer> buffer, ClientBuffer::map(fd.get(), bytes));
  const std::lock_guard lock(mutex_);
  if (buffers_.size() >= kBuffersMax) {
    return fail(Code::kExhausted, "too many shared buffers at this node");
  }
  std::uint64_t id = 0;
  while (id == 0 || buffers_.contains(id)) id = env::random_u64();
  buffers_.emplace(id, std::move(buffer));
  std::shared_ptr<void> keeper(nullptr, [this, id](void*) {
    const std::lock_guard guard(mutex_);
    buffers_.erase(id);
  });
  return std::pair(id, std::move(keeper));
}

std::shared_ptr<ClientBuffer> ClientBuffers::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(id);
  return found == buffers_.end() ? nullptr : found->second;
}

std::size_t ClientBuffers::size() const {
  const std::lock_guard lock(mutex_);
  return buffers_.size();
}

}  // namespace larder::node
