// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/store_probe.h"

namespace larder::apps {
namespace {

class LookupProbe final : public Probe {
 public:
  LookupProbe(const CaseName& name, const StoreContext& context)
      : name_(name), keys_(context.data->keys()) {}

  Result<void> prepare(const StoreContext& context) {
    const std::size_t windows = keys_.size() / name_.batch;
    if (windows == 0) {
      return fail(Code::kInvalidArgument,
                  fmt::format("the set has {} keys, the case asks for {} in one call: use a larger "
                              "--set-bytes",
                              keys_.size(), name_.batch));
    }
    workers_.resize(name_.clients);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].windows = Walk(windows, i * windows / workers_.size());
      LARDER_ASSIGN(workers_[i].client, context.session.connect(name_.path, 0));
      request_bytes_ = lookup_request_bytes(keys_.first(name_.batch));
    }
    return {};
  }

  std::string name() const override { return to_string(name_); }
  std::size_t threads() const override { return workers_.size(); }
  std::uint64_t items_per_call() const override { return name_.batch; }
  std::uint64_t bytes_per_call() const override { return request_bytes_; }

  Result<void> step(std::size_t thread) override {
    Worker& worker = workers_[thread];
    const auto asked = keys_.subspan(worker.windows.next() * name_.batch, name_.batch);
    if (name_.op == Op::kExists) {
      LARDER_ASSIGN(worker.there, worker.client->exists(asked));
      return {};
    }
    LARDER_ASSIGN(const PrefixMatch match, worker.client->match_prefix(asked));
    worker.matched = match.keys;
    return {};
  }

  // All keys are there, and every call must say so. Looked at between the timed spans.
  Result<void> settle(std::size_t thread) override {
    const Worker& worker = workers_[thread];
    const std::size_t there =
        name_.op == Op::kExists
            ? static_cast<std::size_t>(std::count(worker.there.begin(), worker.there.end(), true))
            : worker.matched;
    if (there == name_.batch) return {};
    return fail(Code::kCorrupt,
                fmt::format("{} of {} stored keys were said to be there", there, name_.batch));
  }

 private:
  struct alignas(64) Worker {
    std::unique_ptr<Client> client;
    Walk windows;
    std::vector<bool> there;
    std::size_t matched = 0;
  };
  CaseName name_;
  std::span<const std::string_view> keys_;
  std::uint64_t request_bytes_ = 0;
  std::vector<Worker> workers_;
};

}  // namespace

std::uint64_t lookup_request_bytes(std::span<const std::string_view> keys) noexcept {
  std::uint64_t bytes = 0;
  for (const std::string_view key : keys) bytes += key.size() + 2;
  return bytes;
}

std::uint64_t lookup_reply_bytes(std::size_t keys) noexcept {
  return kRawHeaderBytes + (keys + 7) / 8;
}

Result<ProbePtr> make_lookup_probe(const CaseName& name, const StoreContext& context) {
  auto probe = std::make_unique<LookupProbe>(name, context);
  LARDER_TRY(probe->prepare(context));
  return probe;
}

Result<ProbePtr> make_store_probe(const CaseName& name, const StoreContext& context) {
  if (is_lookup(name.op)) return make_lookup_probe(name, context);
  return is_put(name.op) ? make_put_probe(name, context) : make_get_probe(name, context);
}

}  // namespace larder::apps
