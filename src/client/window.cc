// SPDX-License-Identifier: Apache-2.0
#include "client/window.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "env/socket.h"

namespace larder::client {
namespace {

constexpr std::uint64_t kPage = 4096;

Result<tier::SharedMapping> make_memory(std::uint64_t bytes, env::Fd& fd) {
  fd.reset(::memfd_create("larder-window", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail(Code::kExhausted, "cannot make shared memory: " + env::errno_text(errno));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail(Code::kUnsupported, "cannot seal shared memory: " + env::errno_text(errno));
  }
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    return fail(Code::kExhausted, "cannot map shared memory: " + env::errno_text(errno));
  }
  tier::SharedMapping mapping(static_cast<std::byte*>(memory), bytes);
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    return fail(Code::kExhausted, "no memory for a shared buffer of " + std::to_string(bytes) +
                                      " bytes: " + env::errno_text(errno));
  }
  return mapping;
}

}  // namespace

Result<std::unique_ptr<Window>> Window::create(const rpc::ChannelOptions& options,
                                               std::uint64_t data_bytes) {
  if (data_bytes == 0 || data_bytes > wire::kWindowBytesMax - wire::kWindowDataAt) {
    return fail(Code::kInvalidArgument, "a shared buffer has 1 byte to 64 GiB");
  }
  const std::uint64_t bytes = (wire::kWindowDataAt + data_bytes + kPage - 1) / kPage * kPage;
  env::Fd fd;
  LARDER_ASSIGN(tier::SharedMapping memory, make_memory(bytes, fd));
  new (memory.data()) wire::WindowHeader();
  LARDER_ASSIGN(rpc::Handshaken connection,
                rpc::connect_and_shake(options, wire::Purpose::kBuffer, bytes, fd.get()));
  return std::unique_ptr<Window>(new Window(std::move(memory), std::move(connection)));
}

std::uint64_t Window::consumed() const noexcept {
  return reinterpret_cast<const wire::WindowHeader*>(memory_.data())
      ->consumed.load(std::memory_order_acquire);
}

void Window::hint(std::uint32_t slot) noexcept {
  wire::TouchRing& touched = ring();
  const std::uint64_t at = touched.head.load(std::memory_order_relaxed);
  touched.slots[at % wire::kTouchSlots].store(slot, std::memory_order_relaxed);
  // Two threads may take the same place and one hint is lost: a hint is all it was.
  touched.head.store(at + 1, std::memory_order_release);
}

}  // namespace larder::client
