// SPDX-License-Identifier: Apache-2.0
// NOT SPDK's header. A stand-in for tests, written by hand: of SPDK's public interface only the
// names that src/nvmf/spdk uses, so that it can be built and tested where there is no SPDK. The
// structs have the members that are used and no others; those of the specification are opaque.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct spdk_nvme_ctrlr;
struct spdk_nvme_ns;
struct spdk_nvme_qpair;
struct spdk_nvme_io_qpair_opts;

struct spdk_uuid {
  std::uint8_t bytes[16];
};
struct spdk_nvme_ctrlr_data {
  std::uint8_t bytes[4096];
};
struct spdk_nvme_ns_data {
  std::uint8_t bytes[4096];
};
struct spdk_nvme_cpl {
  std::uint32_t cdw0;
  std::uint32_t cdw1;
  std::uint16_t sqhd;
  std::uint16_t sqid;
  std::uint16_t cid;
  std::uint16_t status_raw;
};
union spdk_nvme_cap_register {
  std::uint64_t raw;
};
enum spdk_nvme_csi { SPDK_NVME_CSI_NVM = 0, SPDK_NVME_CSI_ZNS = 2 };

struct spdk_nvme_transport_id {
  char text[1024];
};
struct spdk_nvme_ctrlr_opts {
  std::uint32_t num_io_queues;
  std::uint32_t keep_alive_timeout_ms;
  std::uint32_t io_queue_size;
  std::uint32_t io_queue_requests;
  char hostnqn[224];
  std::uint8_t extended_host_id[16];
  std::uint32_t admin_timeout_ms;
  bool header_digest;
  bool data_digest;
  std::uint64_t fabrics_connect_timeout_us;
};
struct spdk_nvme_dsm_range {
  std::uint32_t attributes;
  std::uint32_t length;
  std::uint64_t starting_lba;
};

#define SPDK_NVME_IO_FLAGS_DEALLOCATE (1U << 25)
#define SPDK_NVME_DSM_ATTR_DEALLOCATE 0x4U

typedef void (*spdk_nvme_cmd_cb)(void*, const spdk_nvme_cpl*);
typedef void (*spdk_nvme_aer_cb)(void*, const spdk_nvme_cpl*);
typedef void (*spdk_nvme_req_reset_sgl_cb)(void*, std::uint32_t offset);
typedef int (*spdk_nvme_req_next_sge_cb)(void*, void** address, std::uint32_t* length);

int spdk_nvme_transport_id_parse(spdk_nvme_transport_id* trid, const char* str);
void spdk_nvme_ctrlr_get_default_ctrlr_opts(spdk_nvme_ctrlr_opts* opts, std::size_t opts_size);
spdk_nvme_ctrlr* spdk_nvme_connect(const spdk_nvme_transport_id* trid,
                                   const spdk_nvme_ctrlr_opts* opts, std::size_t opts_size);
int spdk_nvme_detach(spdk_nvme_ctrlr* ctrlr);
void spdk_nvme_ctrlr_fail(spdk_nvme_ctrlr* ctrlr);
bool spdk_nvme_ctrlr_is_failed(spdk_nvme_ctrlr* ctrlr);
const spdk_nvme_ctrlr_opts* spdk_nvme_ctrlr_get_opts(spdk_nvme_ctrlr* ctrlr);
const spdk_nvme_ctrlr_data* spdk_nvme_ctrlr_get_data(spdk_nvme_ctrlr* ctrlr);
spdk_nvme_cap_register spdk_nvme_ctrlr_get_regs_cap(spdk_nvme_ctrlr* ctrlr);
void spdk_nvme_ctrlr_register_aer_callback(spdk_nvme_ctrlr* ctrlr, spdk_nvme_aer_cb aer_cb_fn,
                                           void* aer_cb_arg);
std::int32_t spdk_nvme_ctrlr_process_admin_completions(spdk_nvme_ctrlr* ctrlr);

std::uint32_t spdk_nvme_ctrlr_get_first_active_ns(spdk_nvme_ctrlr* ctrlr);
std::uint32_t spdk_nvme_ctrlr_get_next_active_ns(spdk_nvme_ctrlr* ctrlr, std::uint32_t prev);
spdk_nvme_ns* spdk_nvme_ctrlr_get_ns(spdk_nvme_ctrlr* ctrlr, std::uint32_t nsid);
bool spdk_nvme_ns_is_active(spdk_nvme_ns* ns);
const spdk_nvme_ns_data* spdk_nvme_ns_get_data(spdk_nvme_ns* ns);
const spdk_uuid* spdk_nvme_ns_get_uuid(const spdk_nvme_ns* ns);
spdk_nvme_csi spdk_nvme_ns_get_csi(const spdk_nvme_ns* ns);

spdk_nvme_qpair* spdk_nvme_ctrlr_alloc_io_qpair(spdk_nvme_ctrlr* ctrlr,
                                                const spdk_nvme_io_qpair_opts* opts,
                                                std::size_t opts_size);
int spdk_nvme_ctrlr_free_io_qpair(spdk_nvme_qpair* qpair);
std::int32_t spdk_nvme_qpair_process_completions(spdk_nvme_qpair* qpair, std::uint32_t max);

int spdk_nvme_ns_cmd_readv(spdk_nvme_ns* ns, spdk_nvme_qpair* qpair, std::uint64_t lba,
                           std::uint32_t lba_count, spdk_nvme_cmd_cb cb_fn, void* cb_arg,
                           std::uint32_t io_flags, spdk_nvme_req_reset_sgl_cb reset_sgl_fn,
                           spdk_nvme_req_next_sge_cb next_sge_fn);
int spdk_nvme_ns_cmd_writev(spdk_nvme_ns* ns, spdk_nvme_qpair* qpair, std::uint64_t lba,
                            std::uint32_t lba_count, spdk_nvme_cmd_cb cb_fn, void* cb_arg,
                            std::uint32_t io_flags, spdk_nvme_req_reset_sgl_cb reset_sgl_fn,
                            spdk_nvme_req_next_sge_cb next_sge_fn);
int spdk_nvme_ns_cmd_flush(spdk_nvme_ns* ns, spdk_nvme_qpair* qpair, spdk_nvme_cmd_cb cb_fn,
                           void* cb_arg);
int spdk_nvme_ns_cmd_write_zeroes(spdk_nvme_ns* ns, spdk_nvme_qpair* qpair, std::uint64_t lba,
                                  std::uint32_t lba_count, spdk_nvme_cmd_cb cb_fn, void* cb_arg,
                                  std::uint32_t io_flags);
int spdk_nvme_ns_cmd_dataset_management(spdk_nvme_ns* ns, spdk_nvme_qpair* qpair,
                                        std::uint32_t type, const spdk_nvme_dsm_range* ranges,
                                        std::uint16_t num_ranges, spdk_nvme_cmd_cb cb_fn,
                                        void* cb_arg);

}  // extern "C"
