// SPDX-License-Identifier: Apache-2.0
#include <spdk/env.h>

#include <cerrno>
#include <cstdlib>

#include "nvmf/spdk/fake/fake_spdk.h"

using larder::nvmf::fake_spdk;

namespace {

constexpr std::size_t kPage = 2U << 20U;

bool whole(const void* vaddr, std::size_t len) {
  return reinterpret_cast<std::uintptr_t>(vaddr) % kPage == 0 && len % kPage == 0 && len > 0;
}

}  // namespace

void spdk_env_opts_init(spdk_env_opts* opts) {
  const std::size_t size = opts->opts_size;
  *opts = {};
  opts->opts_size = size;
  opts->mem_size = -1;
}

int spdk_env_init(const spdk_env_opts* opts) {
  static int calls = 0;
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  if (++calls > 1) fake.broken.emplace_back("the environment was started twice");
  if (opts->opts_size != sizeof(*opts)) fake.broken.emplace_back("opts_size is wrong");
  return 0;
}

void* spdk_dma_malloc(std::size_t size, std::size_t align, std::uint64_t*) {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  auto* const out = static_cast<std::byte*>(std::aligned_alloc(align, size));
  if (out != nullptr) fake.allocated[out] = size;
  return out;
}

void spdk_dma_free(void* buf) {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  if (fake.allocated.erase(static_cast<std::byte*>(buf)) == 0) {
    fake.broken.emplace_back("memory was freed that is not SPDK's");
    return;
  }
  std::free(buf);
}

int spdk_mem_register(void* vaddr, std::size_t len) {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  if (!whole(vaddr, len)) {
    fake.broken.emplace_back("registered memory is of no whole pages");
    return -EINVAL;
  }
  auto* const begin = static_cast<std::byte*>(vaddr);
  for (const auto& [data, bytes] : fake.registered) {
    if (begin < data + bytes && data < begin + len) return -EBUSY;
  }
  fake.registered[begin] = len;
  return 0;
}

int spdk_mem_unregister(void* vaddr, std::size_t len) {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  const auto found = fake.registered.find(static_cast<std::byte*>(vaddr));
  if (found == fake.registered.end() || found->second != len) {
    fake.broken.emplace_back("unregistered memory was not registered so");
    return -EINVAL;
  }
  fake.registered.erase(found);
  return 0;
}
