// SPDX-License-Identifier: Apache-2.0
// Queue pairs and their commands.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "nvmf/pdu/command.h"
#include "nvmf/pdu/properties.h"
#include "nvmf/spdk/fake/fake_nvme.h"

using namespace larder::nvmf;

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

}  // namespace

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
