// SPDX-License-Identifier: Apache-2.0
#include "nvmf/spdk/environment.h"

#include <pthread.h>
#include <sched.h>
#include <spdk/env.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "env/socket.h"
#include "obs/log.h"

namespace larder::nvmf {
namespace {

// SPDK keeps all this once for a process, whoever asks; so it is here, too.
struct Process {
  std::mutex mutex;                                                      // guards what follows
  std::optional<Result<void>> started;                                   // how that went
  std::map<std::pair<std::byte*, std::size_t>, std::size_t> registered;  // how often
};

Process& process() {
  static Process it;
  return it;
}

// Releases from 24 on want to be told how long the struct is; those before have no such field.
template <class Options>
void tell_size(Options& options) {
  if constexpr (requires { options.opts_size; }) options.opts_size = sizeof(options);
}

Result<void> initialize(const SpdkEnvironmentOptions& wanted) {
  spdk_env_opts options = {};
  tell_size(options);
  spdk_env_opts_init(&options);
  options.name = "larder";
  options.no_pci = true;  // local disks are used through the kernel
  options.mem_size =
      static_cast<int>(std::clamp<std::uint64_t>(wanted.memory_bytes >> 20U, 16, 1U << 20U));
  options.no_huge = !wanted.huge_pages;
  // DPDK binds the thread that starts it to one core, and threads made by it later as well.
  cpu_set_t cores;
  const bool known = ::pthread_getaffinity_np(::pthread_self(), sizeof(cores), &cores) == 0;
  const int error = spdk_env_init(&options);
  if (known) ::pthread_setaffinity_np(::pthread_self(), sizeof(cores), &cores);
  if (error == 0) return {};
  return fail(Code::kUnavailable,
              "SPDK does not start (" + env::errno_text(-error) +
                  "); it needs huge pages and the right to them: see the lines that it has "
                  "written, and /proc/sys/vm/nr_hugepages");
}

std::span<std::byte> whole_pages(std::span<std::byte> memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = (begin + kSpdkPageBytes - 1) / kSpdkPageBytes * kSpdkPageBytes;
  const std::uintptr_t last = (begin + memory.size()) / kSpdkPageBytes * kSpdkPageBytes;
  if (first >= last) return {};
  return memory.subspan(first - begin, last - first);
}

}  // namespace

Result<void> start_spdk(const SpdkEnvironmentOptions& options) {
  Process& it = process();
  const std::lock_guard lock(it.mutex);
  if (!it.started) it.started = initialize(options);
  return *it.started;
}

std::span<std::byte> register_memory(std::span<std::byte> memory) {
  const std::span<std::byte> pages = whole_pages(memory);
  if (pages.empty()) return {};
  Process& it = process();
  const std::lock_guard lock(it.mutex);
  std::size_t& times = it.registered[{pages.data(), pages.size()}];
  const int error = times > 0 ? 0 : spdk_mem_register(pages.data(), pages.size());
  if (error == 0) {
    ++times;
    return pages;
  }
  it.registered.erase({pages.data(), pages.size()});
  obs::log(obs::Level::kInfo, "spdk_memory_not_registered",
           {{"bytes", pages.size()}, {"error", env::errno_text(-error)}});
  return {};
}

void unregister_memory(std::span<std::byte> registered) {
  Process& it = process();
  const std::lock_guard lock(it.mutex);
  const auto found = it.registered.find({registered.data(), registered.size()});
  if (found == it.registered.end() || --found->second > 0) return;
  spdk_mem_unregister(registered.data(), registered.size());
  it.registered.erase(found);
}

void SpdkMemoryFree::operator()(std::byte* memory) const noexcept {
  spdk_dma_free(memory);
}

Result<SpdkMemory> allocate_memory(std::size_t bytes, std::size_t alignment) {
  SpdkMemory out(static_cast<std::byte*>(spdk_dma_malloc(bytes, alignment, nullptr)));
  if (out != nullptr) return out;
  return fail(Code::kExhausted,
              "SPDK has no " + std::to_string(bytes) + " bytes for a buffer; give it more memory");
}

}  // namespace larder::nvmf
