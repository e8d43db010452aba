// SPDX-License-Identifier: Apache-2.0
#include "apps/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <unordered_set>

#include "base/units.h"
#include "env/thread.h"

namespace larder::apps {

// What the workers have in common: the trace, whose requests they take in order, and the first
// failure, which ends them all.
struct Replay::Shared {
  Shared(ReplaySettings s, TraceSource& from) : settings(s), content(s.salt), source(from) {}

  const ReplaySettings settings;
  const BlockContent content;
  env::Nanos start = 0;

  std::mutex mutex;
  TraceSource& source;         // under mutex
  std::optional<Error> error;  // under mutex

  std::atomic<bool> halted{false};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> wrong_bytes{0};

  bool stopping() const noexcept {
    return halted.load(std::memory_order_relaxed) ||
           (settings.stop != nullptr && settings.stop->load(std::memory_order_relaxed) != 0);
  }
  void halt(Error why) {
    const std::scoped_lock lock(mutex);
    if (!error) error = std::move(why);
    halted = true;
  }
  bool take(TraceRequest& request);
  void wait_for(std::uint64_t timestamp_ms) const;
};

bool Replay::Shared::take(TraceRequest& request) {
  const std::scoped_lock lock(mutex);
  if (stopping()) return false;
  auto more = source.next(request);
  if (more) return *more;
  error = std::move(more).error();
  halted = true;
  return false;
}

// Sleeps in short steps, so that a stop is noticed.
void Replay::Shared::wait_for(std::uint64_t timestamp_ms) const {
  if (settings.speed <= 0) return;
  const double offset = static_cast<double>(timestamp_ms) / settings.speed * env::kMilli;
  const env::Nanos due = start + static_cast<env::Nanos>(offset);
  while (!stopping()) {
    const env::Nanos left = due - settings.clock->now();
    if (left <= 0) return;
    settings.clock->sleep(std::min(left, 100 * env::kMilli));
  }
}

class ReplayWorker {
 public:
  ReplayWorker(Replay::Shared& shared, std::unique_ptr<BlockStore> store)
      : shared_(shared), settings_(shared.settings), store_(std::move(store)) {}

  Result<void> prepare();
  void run();
  const ReplayTally& tally() const noexcept { return tally_; }

 private:
  using Op = ReplayTally::Op;
  using Keys = BlockStore::Keys;

  Result<void> play(const TraceRequest& request);
  Result<std::size_t> fetch(std::span<const std::uint64_t> ids);
  std::size_t check(std::span<const std::uint64_t> ids, const std::vector<GetResult>& answers);
  bool check_block(std::uint64_t id, const GetResult& answer, ConstBytes block);
  Result<void> store(std::span<const std::uint64_t> ids);
  void count_put(const std::vector<PutResult>& answers);
  Keys keys_of(std::span<const std::uint64_t> ids);
  template <class Call>
  auto timed(Op op, Call call);

  Replay::Shared& shared_;
  const ReplaySettings& settings_;
  std::unique_ptr<BlockStore> store_;
  MutableBytes buffer_;
  std::size_t batch_blocks_ = 1;
  std::vector<std::string> texts_;
  std::vector<std::string_view> views_;
  std::vector<std::uint64_t> batch_;
  std::unordered_set<std::uint64_t> seen_;
  ReplayTally tally_;
};

Result<void> ReplayWorker::prepare() {
  const std::uint64_t limit = std::min(settings_.batch_bytes, kReplayBatchBytesMax);
  batch_blocks_ = std::clamp<std::uint64_t>(limit / settings_.block_bytes, 1, kBatchItemsMax);
  LARDER_ASSIGN(buffer_, store_->buffer(batch_blocks_ * settings_.block_bytes));
  return {};
}

template <class Call>
auto ReplayWorker::timed(Op op, Call call) {
  const env::Nanos begin = env::monotonic_now();
  auto result = call();
  const auto took = static_cast<std::uint64_t>(env::monotonic_now() - begin);
  tally_.latency[op].record(took);
  tally_.max_ns[op] = std::max(tally_.max_ns[op], took);
  return result;
}

// The views stay valid until the next call.
ReplayWorker::Keys ReplayWorker::keys_of(std::span<const std::uint64_t> ids) {
  if (texts_.size() < ids.size()) texts_.resize(ids.size());
  views_.resize(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    texts_[i] = shared_.content.key(ids[i]);
    views_[i] = texts_[i];
  }
  return views_;
}

void ReplayWorker::run() {
  TraceRequest request;
  while (shared_.take(request)) {
    shared_.wait_for(request.timestamp_ms);
    if (shared_.stopping()) return;
    if (auto played = play(request); !played) return shared_.halt(played.error());
    shared_.requests.fetch_add(1, std::memory_order_relaxed);
  }
}

Result<void> ReplayWorker::play(const TraceRequest& request) {
  const std::span<const std::uint64_t> ids(request.ids);
  std::size_t promised = 0;
  // A call has a bound on its keys; the prefix goes on into the next call when all were there.
  for (std::size_t at = 0; at < ids.size() && promised == at;) {
    const auto part = ids.subspan(at, std::min(ids.size() - at, kBatchItemsMax));
    LARDER_ASSIGN(const std::size_t found,
                  timed(Op::kMatch, [&] { return store_->match_prefix(keys_of(part)); }));
    if (found > part.size()) {
      return fail(Code::kCorrupt,
                  fmt::format("match_prefix found {} of {} keys", found, part.size()));
    }
    promised += found;
    at += part.size();
  }
  LARDER_ASSIGN(const std::size_t hits, fetch(ids.first(promised)));
  LARDER_TRY(store(ids.subspan(hits)));
  tally_.counts.requests += 1;
  tally_.counts.blocks += ids.size();
  tally_.counts.hits += hits;
  return {};
}

// Fetches and checks; returns how many blocks from the front came back.
Result<std::size_t> ReplayWorker::fetch(std::span<const std::uint64_t> ids) {
  std::size_t hits = 0;
  for (std::size_t at = 0; at < ids.size();) {
    const auto part = ids.subspan(at, std::min(ids.size() - at, batch_blocks_));
    LARDER_ASSIGN(const auto answers, timed(Op::kGet, [&] {
                    return store_->get(keys_of(part), settings_.block_bytes, buffer_);
                  }));
    if (answers.size() != part.size()) {
      return fail(Code::kInternal,
                  fmt::format("get answered {} of {} keys", answers.size(), part.size()));
    }
    const std::size_t good = check(part, answers);
    if (hits == at) hits += good;
    at += part.size();
  }
  return hits;
}

// How many answers from the front brought their block. Every block that came is verified.
std::size_t ReplayWorker::check(std::span<const std::uint64_t> ids,
                                const std::vector<GetResult>& answers) {
  std::size_t good = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const ConstBytes block = buffer_.subspan(i * settings_.block_bytes, settings_.block_bytes);
    if (check_block(ids[i], answers[i], block) && good == i) ++good;
  }
  return good;
}

// A wrong block still counts as one that came: it is reported as wrong, not as a miss.
bool ReplayWorker::check_block(std::uint64_t id, const GetResult& answer, ConstBytes block) {
  ReplayReport& counts = tally_.counts;
  if (answer.code == Code::kNotFound) {
    ++counts.evicted_between;
    return false;
  }
  if (answer.code != Code::kOk) {
    tally_.note_error(
        fmt::format("get of block {:x}: {}: {}", id, code_name(answer.code), answer.message));
    return false;
  }
  counts.got_bytes += block.size();
  shared_.bytes.fetch_add(block.size(), std::memory_order_relaxed);
  std::uint64_t wrong = answer.size == block.size() ? shared_.content.count_wrong(id, block)
                                                    : std::max<std::uint64_t>(block.size(), 1);
  if (wrong == 0) return true;
  ++counts.wrong_blocks;
  counts.wrong_bytes += wrong;
  shared_.wrong_bytes.fetch_add(wrong, std::memory_order_relaxed);
  tally_.note(fmt::format("block {:x}: {} wrong bytes (size {} of {}, the first at {})", id, wrong,
                          answer.size, block.size(),
                          shared_.content.first_wrong(id, block).value_or(block.size())));
  return true;
}

// Stores what was missing, each id once.
Result<void> ReplayWorker::store(std::span<const std::uint64_t> ids) {
  seen_.clear();
  for (std::size_t at = 0; at < ids.size();) {
    batch_.clear();
    for (; at < ids.size() && batch_.size() < batch_blocks_; ++at) {
      if (seen_.insert(ids[at]).second) batch_.push_back(ids[at]);
    }
    if (batch_.empty()) break;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      shared_.content.fill(batch_[i], 0,
                           buffer_.subspan(i * settings_.block_bytes, settings_.block_bytes));
    }
    LARDER_ASSIGN(const auto answers, timed(Op::kPut, [&] {
                    const auto keys = keys_of(batch_);
                    return store_->put(keys, settings_.block_bytes,
                                       buffer_.first(keys.size() * settings_.block_bytes));
                  }));
    if (answers.size() != batch_.size()) {
      return fail(Code::kInternal,
                  fmt::format("put answered {} of {} keys", answers.size(), batch_.size()));
    }
    count_put(answers);
  }
  return {};
}

void ReplayWorker::count_put(const std::vector<PutResult>& answers) {
  ReplayReport& counts = tally_.counts;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const PutResult& answer = answers[i];
    if (answer.code == Code::kBackpressure) {
      ++counts.backpressure;
    } else if (answer.code != Code::kOk) {
      tally_.note_error(fmt::format("put of block {:x}: {}: {}", batch_[i], code_name(answer.code),
                                    answer.message));
    } else if (answer.already_stored) {
      ++counts.already_stored;
    } else {
      ++counts.stored;
      counts.put_bytes += settings_.block_bytes;
      shared_.bytes.fetch_add(settings_.block_bytes, std::memory_order_relaxed);
    }
  }
}

void ReplayTally::note_error(std::string message) {
  ++counts.errors;
  note(std::move(message));
}

void ReplayTally::note(std::string message) {
  if (counts.first_error.empty()) counts.first_error = std::move(message);
}

void ReplayTally::merge(const ReplayTally& other) {
  for (std::size_t op = 0; op < kOps; ++op) {
    latency[op].merge(other.latency[op]);
    max_ns[op] = std::max(max_ns[op], other.max_ns[op]);
  }
  const ReplayReport& from = other.counts;
  counts.requests += from.requests;
  counts.blocks += from.blocks;
  counts.hits += from.hits;
  counts.wrong_bytes += from.wrong_bytes;
  counts.wrong_blocks += from.wrong_blocks;
  counts.got_bytes += from.got_bytes;
  counts.put_bytes += from.put_bytes;
  counts.stored += from.stored;
  counts.already_stored += from.already_stored;
  counts.backpressure += from.backpressure;
  counts.evicted_between += from.evicted_between;
  counts.errors += from.errors;
  if (counts.first_error.empty()) counts.first_error = from.first_error;
}

namespace {

OperationReport operation(const ReplayTally& tally, ReplayTally::Op op, std::string name) {
  const auto& latency = tally.latency[op];
  const auto us = [&](double percent) {
    // Buckets are up to 1/16 wide, the maximum is exact: no percentile may pass it.
    return static_cast<double>(std::min(latency.percentile(percent), tally.max_ns[op])) / 1000;
  };
  return {std::move(name),
          latency.count(),
          us(50),
          us(90),
          us(99),
          us(99.9),
          static_cast<double>(tally.max_ns[op]) / 1000};
}

}  // namespace

Replay::Replay(ReplaySettings settings, TraceSource& source) {
  if (settings.clock == nullptr) settings.clock = &env::system_clock();
  shared_ = std::make_unique<Shared>(settings, source);
}
Replay::~Replay() = default;

ReplayProgress Replay::progress() const noexcept {
  return {shared_->requests.load(), shared_->bytes.load(), shared_->wrong_bytes.load()};
}

Result<ReplayReport> Replay::run(std::vector<std::unique_ptr<BlockStore>> stores) {
  if (stores.empty() || stores.size() > kReplayWorkersMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("--workers: {} is not within 1..{}", stores.size(), kReplayWorkersMax));
  }
  std::vector<std::unique_ptr<ReplayWorker>> workers;
  for (auto& store : stores) {
    workers.push_back(std::make_unique<ReplayWorker>(*shared_, std::move(store)));
    LARDER_TRY(workers.back()->prepare());
  }
  shared_->start = shared_->settings.clock->now();
  const env::Nanos begin = env::monotonic_now();
  {
    std::vector<std::jthread> threads;
    try {
      for (auto& worker : workers) {
        threads.emplace_back([&worker] {
          env::set_thread_name("replay");
          worker->run();
        });
      }
    } catch (const std::system_error& e) {
      shared_->halt(Error(Code::kExhausted, fmt::format("cannot start a worker thread: {}; lower "
                                                        "--workers",
                                                        e.what())));
    }
  }
  const env::Nanos end = env::monotonic_now();
  if (shared_->error) return fail(*shared_->error);
  ReplayTally total;
  for (const auto& worker : workers) total.merge(worker->tally());
  ReplayReport report = std::move(total.counts);
  report.workers = workers.size();
  report.block_bytes = shared_->settings.block_bytes;
  report.salt = shared_->settings.salt;
  report.seconds = static_cast<double>(end - begin) / env::kSecond;
  report.interrupted = shared_->stopping();
  report.operations = {operation(total, ReplayTally::kMatch, "match_prefix"),
                       operation(total, ReplayTally::kGet, "get"),
                       operation(total, ReplayTally::kPut, "put")};
  return report;
}

}  // namespace larder::apps
