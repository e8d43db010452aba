// SPDX-License-Identifier: Apache-2.0
#include "node/restore_batch.h"

#include <utility>

namespace larder::node {
namespace {

// A route that changed while its record was read is looked up again; one that keeps changing is
// answered as what it was: gone.
constexpr int kTriesMax = 3;

}  // namespace

RestoreBatch::RestoreBatch(StoreCore& core, std::vector<RestoreItem> items, qos::Purpose purpose,
                           bool into_dram, Done done)
    : core_(core),
      items_(std::move(items)),
      purpose_(purpose),
      into_dram_(into_dram),
      done_(std::move(done)),
      left_(items_.size() + 1) {}

void RestoreBatch::run(StoreCore& core, std::vector<RestoreItem> items, qos::Purpose purpose,
                       bool into_dram, Done done) {
  const std::shared_ptr<RestoreBatch> batch(
      new RestoreBatch(core, std::move(items), purpose, into_dram, std::move(done)));
  for (std::size_t i = 0; i < batch->items_.size(); ++i) batch->read(i, 1);
  batch->one_less();
}

void RestoreBatch::read(std::size_t i, int tries) {
  core_.cold->restorer().restore(
      items_[i].entry, purpose_, into_dram_,
      [self = shared_from_this(), i, tries](Result<tier::RestoredRef> result) {
        self->on_read(i, tries, std::move(result));
      });
}

void RestoreBatch::on_read(std::size_t i, int tries, Result<tier::RestoredRef> result) {
  RestoreItem& item = items_[i];
  if (result) {
    item.value = std::move(*result);
    if (item.value->hot()) item.entry = item.value->hot();
    return one_less();
  }
  if (result.error().code() == Code::kNotFound) return look_again(i, tries);
  // A disk that is away, or on its way out, is no error of the request: the value is not here.
  const Code code = result.error().code();
  const bool away = code == Code::kUnavailable || code == Code::kCancelled;
  item.code = away ? Code::kNotFound : code;
  item.text = result.error().message();
  one_less();
}

void RestoreBatch::look_again(std::size_t i, int tries) {
  RestoreItem& item = items_[i];
  const std::uint64_t length = item.entry->length();
  route::EntryRef now =
      core_.routes->find({item.entry->space(), item.entry->key(), item.entry->hash()});
  // Of another length it might not fit where the caller wants it.
  if (!now || now->length() != length || tries == kTriesMax) {
    item.code = Code::kNotFound;
    return one_less();
  }
  item.entry = std::move(now);
  if (item.entry->has_hot()) return one_less();
  read(i, tries + 1);
}

void RestoreBatch::one_less() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_(std::move(items_));
}

}  // namespace larder::node
