// SPDX-License-Identifier: Apache-2.0
// NOT SPDK's header. A stand-in for tests, written by hand: of SPDK's public interface only the
// names that src/nvmf/spdk uses, so that it can be built and tested where there is no SPDK.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct spdk_env_opts {
  const char* name;
  int mem_size;  // MiB
  bool no_pci;
  bool no_huge;
  std::size_t opts_size;
};

void spdk_env_opts_init(spdk_env_opts* opts);
int spdk_env_init(const spdk_env_opts* opts);

void* spdk_dma_malloc(std::size_t size, std::size_t align, std::uint64_t* unused);
void spdk_dma_free(void* buf);

int spdk_mem_register(void* vaddr, std::size_t len);
int spdk_mem_unregister(void* vaddr, std::size_t len);

}  // extern "C"
