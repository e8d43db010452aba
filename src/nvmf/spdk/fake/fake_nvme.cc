// SPDX-License-Identifier: Apache-2.0
#include <spdk/nvme.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "nvmf/pdu/command.h"
#include "nvmf/pdu/properties.h"
#include "nvmf/spdk/fake/fake_spdk.h"

using namespace larder::nvmf;

struct spdk_nvme_ns {
  spdk_nvme_ctrlr* ctrlr = nullptr;
  spdk_nvme_ns_data data;
  spdk_uuid uuid;
};

struct spdk_nvme_ctrlr {
  bool failed = false;
  int references = 1;
  spdk_nvme_ctrlr_opts opts;
  spdk_nvme_ctrlr_data data;
  spdk_nvme_ns ns;
  spdk_nvme_aer_cb aer = nullptr;
  void* aer_arg = nullptr;
  std::set<spdk_nvme_qpair*> pairs;
};

namespace {

struct FakeCommand {
  FakeKind kind = FakeKind::kRead;
  std::uint64_t lba = 0;
  std::uint32_t blocks = 0;
  spdk_nvme_cmd_cb done = nullptr;
  void* arg = nullptr;
  spdk_nvme_req_reset_sgl_cb rewind = nullptr;
  spdk_nvme_req_next_sge_cb next = nullptr;
};

spdk_nvme_ctrlr* the_controller = nullptr;  // the driver has one of a name

}  // namespace

struct spdk_nvme_qpair {
  spdk_nvme_ctrlr* ctrlr = nullptr;
  std::atomic<int> users{0};
  std::deque<FakeCommand> commands;
};

namespace {

// A queue pair is for one thread at a time.
class Use {
 public:
  explicit Use(spdk_nvme_qpair& pair) : pair_(pair) {
    if (pair_.users.fetch_add(1) != 0) {
      const std::lock_guard lock(fake_spdk().mutex);
      fake_spdk().broken.emplace_back("two threads use a queue pair at once");
    }
  }
  ~Use() { pair_.users.fetch_sub(1); }

 private:
  spdk_nvme_qpair& pair_;
};

void answer(const FakeCommand& command, Status status) {
  spdk_nvme_cpl completion = {};
  completion.status_raw = static_cast<std::uint16_t>(status.bits() << 1U);
  command.done(command.arg, &completion);
}

bool lies_in(const std::map<std::byte*, std::size_t>& ranges, const std::byte* data,
             std::size_t bytes) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    return data >= range.first && data + bytes <= range.first + range.second;
  });
}

void note_place(FakeSpdk& fake, const std::byte* data, std::size_t bytes) {
  if (lies_in(fake.allocated, data, bytes)) {
    ++fake.bounced;
  } else if (lies_in(fake.registered, data, bytes)) {
    ++fake.in_place;
  } else if (fake.dma_only) {
    fake.broken.emplace_back("a payload is no memory that the driver knows");
  }
}

void move(FakeSpdk& fake, const FakeCommand& command) {
  std::byte* at = fake.memory.data() + command.lba * kFakeBlockBytes;
  std::size_t left = std::size_t{command.blocks} * kFakeBlockBytes;
  fake.largest = std::max(fake.largest, left);
  // The driver may walk the list more than once.
  for (int pass = 0; pass < 2; ++pass) {
    command.rewind(command.arg, 0);
    void* skipped = nullptr;
    std::uint32_t length = 0;
    if (pass == 0) command.next(command.arg, &skipped, &length);
  }
  while (left > 0) {
    void* address = nullptr;
    std::uint32_t length = 0;
    if (command.next(command.arg, &address, &length) != 0 || length == 0 || length > left) {
      fake.broken.emplace_back("the list of a payload does not add up");
      return;
    }
    note_place(fake, static_cast<std::byte*>(address), length);
    if (command.kind == FakeKind::kRead) {
      std::memcpy(address, at, length);
    } else {
      std::memcpy(at, address, length);
    }
    at += length;
    left -= length;
  }
}

Status carry_out(FakeSpdk& fake, const FakeCommand& command) {
  if (command.lba + command.blocks > fake.memory.size() / kFakeBlockBytes) {
    return refused(Sc::kLbaOutOfRange);
  }
  if (command.kind == FakeKind::kRead || command.kind == FakeKind::kWrite) move(fake, command);
  const bool zeroes = command.kind == FakeKind::kZero || command.kind == FakeKind::kUnmap ||
                      command.kind == FakeKind::kZeroAndUnmap;
  if (zeroes) {
    std::memset(fake.memory.data() + command.lba * kFakeBlockBytes, 0,
                std::size_t{command.blocks} * kFakeBlockBytes);
  }
  return {};
}

int submit(spdk_nvme_qpair& pair, const FakeCommand& command) {
  const Use use(pair);
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  if (pair.ctrlr->failed) return -ENXIO;
  if (fake.submit_nomem > 0 && fake.submit_nomem-- > 0) return -ENOMEM;
  if (pair.commands.size() >= fake.free_requests) return -ENOMEM;
  pair.commands.push_back(command);
  return 0;
}

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

// ---- queue pairs

spdk_nvme_qpair* spdk_nvme_ctrlr_alloc_io_qpair(spdk_nvme_ctrlr* ctrlr,
                                                const spdk_nvme_io_qpair_opts*, std::size_t) {
  auto& fake = fake_spdk();
  const std::lock_guard lock(fake.mutex);
  if (fake.pair_failures > 0 && fake.pair_failures-- > 0) return nullptr;
  if (ctrlr->failed || ctrlr->pairs.size() >= ctrlr->opts.num_io_queues) return nullptr;
  auto* const pair = new spdk_nvme_qpair();
  pair->ctrlr = ctrlr;
  ctrlr->pairs.insert(pair);
  ++fake.pairs;
  return pair;
}

int spdk_nvme_ctrlr_free_io_qpair(spdk_nvme_qpair* qpair) {
  std::deque<FakeCommand> given_up;
  {
    const Use use(*qpair);
    auto& fake = fake_spdk();
    const std::lock_guard lock(fake.mutex);
    given_up.swap(qpair->commands);
    qpair->ctrlr->pairs.erase(qpair);
    --fake.pairs;
  }
  for (const FakeCommand& command : given_up) answer(command, failed(Sc::kAbortedSqDeletion));
  delete qpair;
  return 0;
}

std::int32_t spdk_nvme_qpair_process_completions(spdk_nvme_qpair* qpair, std::uint32_t) {
  const Use use(*qpair);
  auto& fake = fake_spdk();
  std::int32_t count = 0;
  std::deque<FakeCommand> mute;
  for (;;) {
    const std::lock_guard lock(fake.mutex);
    if (qpair->ctrlr->failed || qpair->commands.empty()) break;
    const FakeCommand command = qpair->commands.front();
    qpair->commands.pop_front();
    const FakeFate fate = fake.fate ? fake.fate(command.kind) : FakeFate::kHonest;
    if (fate == FakeFate::kLost) {
      qpair->ctrlr->failed = true;
      qpair->commands.push_front(command);
      continue;
    }
    if (fate == FakeFate::kMute) {
      mute.push_back(command);
      continue;
    }
    answer(command, fate == FakeFate::kFails ? fake.status : carry_out(fake, command));
    ++count;
  }
  qpair->commands.insert(qpair->commands.begin(), mute.begin(), mute.end());
  const std::lock_guard lock(fake.mutex);
  if (!qpair->ctrlr->failed) return count;
  // Some are given up here, the rest when the queue pair is freed.
  if (!qpair->commands.empty()) {
    const FakeCommand command = qpair->commands.front();
    qpair->commands.pop_front();
    answer(command, failed(Sc::kAbortedSqDeletion));
  }
  return -ENXIO;
}

int spdk_nvme_ns_cmd_readv(spdk_nvme_ns*, spdk_nvme_qpair* qpair, std::uint64_t lba,
                           std::uint32_t lba_count, spdk_nvme_cmd_cb cb_fn, void* cb_arg,
                           std::uint32_t, spdk_nvme_req_reset_sgl_cb reset_sgl_fn,
                           spdk_nvme_req_next_sge_cb next_sge_fn) {
  return submit(*qpair,
                {FakeKind::kRead, lba, lba_count, cb_fn, cb_arg, reset_sgl_fn, next_sge_fn});
}

int spdk_nvme_ns_cmd_writev(spdk_nvme_ns*, spdk_nvme_qpair* qpair, std::uint64_t lba,
                            std::uint32_t lba_count, spdk_nvme_cmd_cb cb_fn, void* cb_arg,
                            std::uint32_t, spdk_nvme_req_reset_sgl_cb reset_sgl_fn,
                            spdk_nvme_req_next_sge_cb next_sge_fn) {
  return submit(*qpair,
                {FakeKind::kWrite, lba, lba_count, cb_fn, cb_arg, reset_sgl_fn, next_sge_fn});
}

int spdk_nvme_ns_cmd_flush(spdk_nvme_ns*, spdk_nvme_qpair* qpair, spdk_nvme_cmd_cb cb_fn,
                           void* cb_arg) {
  return submit(*qpair, {FakeKind::kFlush, 0, 0, cb_fn, cb_arg, nullptr, nullptr});
}

int spdk_nvme_ns_cmd_write_zeroes(spdk_nvme_ns*, spdk_nvme_qpair* qpair, std::uint64_t lba,
                                  std::uint32_t lba_count, spdk_nvme_cmd_cb cb_fn, void* cb_arg,
                                  std::uint32_t io_flags) {
  const bool unmap = (io_flags & SPDK_NVME_IO_FLAGS_DEALLOCATE) != 0;
  const FakeKind kind = unmap ? FakeKind::kZeroAndUnmap : FakeKind::kZero;
  return submit(*qpair, {kind, lba, lba_count, cb_fn, cb_arg, nullptr, nullptr});
}

int spdk_nvme_ns_cmd_dataset_management(spdk_nvme_ns*, spdk_nvme_qpair* qpair, std::uint32_t,
                                        const spdk_nvme_dsm_range* ranges, std::uint16_t,
                                        spdk_nvme_cmd_cb cb_fn, void* cb_arg) {
  return submit(*qpair, {FakeKind::kUnmap, ranges->starting_lba, ranges->length, cb_fn, cb_arg,
                         nullptr, nullptr});
}
