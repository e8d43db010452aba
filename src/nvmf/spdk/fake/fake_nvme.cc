// SPDX-License-Identifier: Apache-2.0
// The controller, and what tests see of it.
#include "nvmf/spdk/fake/fake_nvme.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "nvmf/pdu/command.h"
#include "nvmf/pdu/properties.h"

using namespace larder::nvmf;

namespace {

spdk_nvme_ctrlr* the_controller = nullptr;  // the driver has one of a name

void read_self(spdk_nvme_ctrlr& ctrlr) {
  auto& fake = fake_spdk();
  std::memcpy(&ctrlr.data, &fake.controller, sizeof(ctrlr.data));
  std::memcpy(&ctrlr.ns.data, &fake.ns, sizeof(ctrlr.ns.data));
  std::memcpy(&ctrlr.ns.uuid, fake.uuid.data(), sizeof(ctrlr.ns.uuid));
}

}  // namespace

// ---- what tests see

FakeSpdk& larder::nvmf::fake_spdk() {
  static FakeSpdk it;
  return it;
}

void FakeSpdk::cut() {
  const std::lock_guard lock(mutex);
  if (the_controller != nullptr) the_controller->failed = true;
}

std::string FakeSpdk::leftovers() {
  const std::lock_guard lock(mutex);
  std::string out;
  for (const std::string& rule : broken) out += rule + "; ";
  if (controllers != 0) out += std::to_string(controllers) + " controllers; ";
  if (pairs != 0) out += std::to_string(pairs) + " queue pairs; ";
  if (!allocated.empty()) out += std::to_string(allocated.size()) + " buffers; ";
  if (!registered.empty()) out += std::to_string(registered.size()) + " registrations; ";
  return out;
}

void larder::nvmf::reset_fake_spdk() {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  fake.memory.assign(kFakeNamespaceBlocks * kFakeBlockBytes, std::byte{0});
  fake.controller = {};
  put_field(fake.controller.serial, "stand-in", ' ');
  put_field(fake.controller.model, "stand-in", ' ');
  fake.controller.mdts = 5;  // 128 KiB
  fake.controller.cntrltype = 1;
  fake.controller.oncs = kOncsDsm | kOncsWriteZeroes;
  fake.controller.sgls = kSglsAny;
  fake.controller.nn = 1;
  fake.ns = {};
  fake.ns.nsze = fake.ns.ncap = kFakeNamespaceBlocks;
  fake.ns.formats[0].lbads = 12;
  fake.ns.dlfeat = 1U | 1U << 3U;
  fake.uuid = {1};
  fake.active = true;
  fake.csi = 0;
  fake.queues_granted = 16;
  fake.connect_failures = fake.pair_failures = fake.submit_nomem = 0;
  fake.fate = {};
  fake.status = {};
  fake.events = 0;
  fake.dma_only = false;
  fake.largest = fake.bounced = fake.in_place = 0;
  fake.free_requests = 64;
  fake.broken.clear();
}

// ---- the driver

int spdk_nvme_transport_id_parse(spdk_nvme_transport_id* trid, const char* str) {
  const std::string text(str);
  if (text.size() >= sizeof(trid->text) || !text.starts_with("trtype:")) return -EINVAL;
  std::memcpy(trid->text, text.c_str(), text.size() + 1);
  return 0;
}

void spdk_nvme_ctrlr_get_default_ctrlr_opts(spdk_nvme_ctrlr_opts* opts, std::size_t) {
  *opts = {};
  opts->num_io_queues = 1024;
  opts->io_queue_size = 256;
}

spdk_nvme_ctrlr* spdk_nvme_connect(const spdk_nvme_transport_id* trid,
                                   const spdk_nvme_ctrlr_opts* opts, std::size_t) {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  fake.transport_id = trid->text;
  fake.host_nqn = opts->hostnqn;
  if (fake.connect_failures > 0 && fake.connect_failures-- > 0) return nullptr;
  if (the_controller != nullptr) {  // lost or not
    ++the_controller->references;
    return the_controller;
  }
  auto* const ctrlr = new spdk_nvme_ctrlr();
  ctrlr->opts = *opts;
  ctrlr->opts.num_io_queues = std::min(opts->num_io_queues, fake.queues_granted);
  ctrlr->ns.ctrlr = ctrlr;
  read_self(*ctrlr);
  ++fake.controllers;
  the_controller = ctrlr;
  return ctrlr;
}

int spdk_nvme_detach(spdk_nvme_ctrlr* ctrlr) {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  if (--ctrlr->references > 0) return 0;
  if (!ctrlr->pairs.empty()) fake.broken.emplace_back("detached before its queue pairs were freed");
  --fake.controllers;
  the_controller = nullptr;
  delete ctrlr;
  return 0;
}

void spdk_nvme_ctrlr_fail(spdk_nvme_ctrlr* ctrlr) {
  const std::lock_guard lock(fake_spdk().mutex);
  ctrlr->failed = true;
}

bool spdk_nvme_ctrlr_is_failed(spdk_nvme_ctrlr* ctrlr) {
  const std::lock_guard lock(fake_spdk().mutex);
  return ctrlr->failed;
}

const spdk_nvme_ctrlr_opts* spdk_nvme_ctrlr_get_opts(spdk_nvme_ctrlr* ctrlr) {
  return &ctrlr->opts;
}

const spdk_nvme_ctrlr_data* spdk_nvme_ctrlr_get_data(spdk_nvme_ctrlr* ctrlr) {
  return &ctrlr->data;
}

spdk_nvme_cap_register spdk_nvme_ctrlr_get_regs_cap(spdk_nvme_ctrlr*) {
  return {Cap::make(128, 1000).bits};
}

void spdk_nvme_ctrlr_register_aer_callback(spdk_nvme_ctrlr* ctrlr, spdk_nvme_aer_cb aer_cb_fn,
                                           void* aer_cb_arg) {
  ctrlr->aer = aer_cb_fn;
  ctrlr->aer_arg = aer_cb_arg;
}

std::int32_t spdk_nvme_ctrlr_process_admin_completions(spdk_nvme_ctrlr* ctrlr) {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  if (ctrlr->failed) return -ENXIO;
  if (fake.events == 0) return 0;
  --fake.events;
  read_self(*ctrlr);
  spdk_nvme_cpl completion = {};
  completion.cdw0 = kEventNotice | std::uint32_t{kNoticeNamespaceChanged} << 8U;
  ctrlr->aer(ctrlr->aer_arg, &completion);
  return 1;
}

std::uint32_t spdk_nvme_ctrlr_get_first_active_ns(spdk_nvme_ctrlr*) {
  const std::lock_guard lock(fake_spdk().mutex);
  return fake_spdk().active ? 1 : 0;
}

std::uint32_t spdk_nvme_ctrlr_get_next_active_ns(spdk_nvme_ctrlr*, std::uint32_t) {
  return 0;
}

spdk_nvme_ns* spdk_nvme_ctrlr_get_ns(spdk_nvme_ctrlr* ctrlr, std::uint32_t nsid) {
  return nsid == 1 ? &ctrlr->ns : nullptr;
}

bool spdk_nvme_ns_is_active(spdk_nvme_ns*) {
  const std::lock_guard lock(fake_spdk().mutex);
  return fake_spdk().active;
}

const spdk_nvme_ns_data* spdk_nvme_ns_get_data(spdk_nvme_ns* ns) {
  return &ns->data;
}

const spdk_uuid* spdk_nvme_ns_get_uuid(const spdk_nvme_ns* ns) {
  return &ns->uuid;
}

spdk_nvme_csi spdk_nvme_ns_get_csi(const spdk_nvme_ns*) {
  return fake_spdk().csi == 0 ? SPDK_NVME_CSI_NVM : SPDK_NVME_CSI_ZNS;
}
