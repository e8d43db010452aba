// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/write_lane.h"

#include <algorithm>
#include <array>
#include <utility>

#include "block/block_types.h"
#include "env/thread.h"

namespace larder::tier {
namespace {

// Pieces of writes in flight while somebody waits for a read: enough that writes go on, few enough
// that a read queues behind 2 MiB at most.
constexpr std::size_t kWindowBesideReads = 2;
constexpr env::Nanos kLookAtReadsEvery = env::kMilli;

}  // namespace

Result<std::unique_ptr<WriteLane>> WriteLane::start(extent::RecordStore& store, WriteSource& source,
                                                    const extent::WriterOptions& options,
                                                    qos::Purpose purpose) {
  LARDER_ASSIGN(auto writer, extent::RecordWriter::create(store, options));
  std::unique_ptr<WriteLane> lane(new WriteLane(store, source, std::move(writer)));
  lane->purpose_ = purpose;
  lane->depth_ = options.depth;
  lane->records_max_ = options.records_max;
  lane->bytes_max_ = options.bytes_max;
  lane->thread_ = std::thread([raw = lane.get()] { raw->run(); });
  return lane;
}

void WriteLane::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (writer_) writer_->wake();
  if (thread_.joinable()) thread_.join();
  writer_.reset();  // the store can be closed then
}

void WriteLane::wake() noexcept {
  const std::lock_guard lock(mutex_);
  if (!stopping_) writer_->wake();
}

void WriteLane::release(extent::RecordId id, Released done) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      inbox_.push_back({id, std::move(done)});
      writer_->wake();
      return;
    }
  }
  done(fail(Code::kCancelled, "the disk is being closed"));
}

void WriteLane::run() {
  env::set_thread_name("larder-write");
  while (step()) {
  }
}

// False: the end.
bool WriteLane::step() {
  const bool stopping = take_releases();
  env::Nanos again = block::kNoDeadline;
  if (!stopping) again = take_writes();
  if (stopping && writer_->idle() && releases_.empty()) return false;
  const bool reads = source_.reads_waiting();
  writer_->set_window(reads ? std::min(depth_, kWindowBesideReads) : depth_);
  if (reads || stopping) again = std::min(again, env::monotonic_now() + kLookAtReadsEvery);
  std::array<extent::WriteDone, 32> done;
  const std::size_t count = writer_->wait(done, again);
  for (std::size_t i = 0; i < count; ++i) finish(done[i]);
  under_way_.store(writes_.size(), std::memory_order_relaxed);
  // A release whose record stays pinned by somebody who outlives the lane is not waited for.
  if (stopping && writer_->idle()) {
    for (auto& [id, waiting] : std::exchange(releases_, {})) {
      for (const Released& tell : waiting) {
        tell(fail(Code::kCancelled, "the disk is being closed"));
      }
    }
  }
  return true;
}

bool WriteLane::take_releases() {
  while (true) {
    Release release;
    {
      const std::lock_guard lock(mutex_);
      if (inbox_.empty()) return stopping_;
      release = std::move(inbox_.front());
      inbox_.pop_front();
    }
    begin_release(std::move(release));
  }
}

void WriteLane::begin_release(Release release) {
  const std::uint64_t id = release.id.pack();
  if (const auto known = releases_.find(id); known != releases_.end()) {
    known->second.push_back(std::move(release.done));
    return;
  }
  if (const auto failed = failed_releases_.find(id); failed != failed_releases_.end()) {
    return release.done(fail(failed->second));
  }
  const std::uint64_t tag = next_tag_++;
  const Result<void> taken = writer_->release(release.id, tag);
  if (!taken) {
    // Not there: it has been given up before, and that is durable.
    const bool gone = taken.error().code() == Code::kNotFound;
    release.done(gone ? Result<void>{} : taken);
    return;
  }
  releases_[id].push_back(std::move(release.done));
  releases_by_tag_[tag] = id;
}

env::Nanos WriteLane::take_writes() {
  env::Nanos again = block::kNoDeadline;
  while (writes_.size() < records_max_ && write_bytes_ < bytes_max_) {
    std::optional<WriteJob> job = source_.next_write(env::monotonic_now(), again);
    if (!job) return again;
    const std::uint64_t tag = next_tag_++;
    const Result<void> taken =
        writer_->put(std::move(job->space), job->payload, job->manifest, tag, purpose_);
    if (!taken) {
      source_.on_written(std::move(*job), fail(taken.error()));
      return again;
    }
    write_bytes_ += job->payload.size();
    writes_.emplace(tag, std::move(*job));
    under_way_.store(writes_.size(), std::memory_order_relaxed);
  }
  return block::kNoDeadline;  // something that ends makes room
}

void WriteLane::finish(extent::WriteDone& done) {
  if (!done.is_release) {
    auto found = writes_.extract(done.tag);
    write_bytes_ -= found.mapped().payload.size();
    source_.on_written(std::move(found.mapped()),
                       done.result ? Result<extent::RecordId>(done.id) : fail(done.result.error()));
    return;
  }
  const auto tag = releases_by_tag_.extract(done.tag);
  if (!tag) return;
  auto waiting = releases_.extract(tag.mapped());
  if (!waiting) return;
  if (!done.result) failed_releases_.emplace(tag.mapped(), done.result.error());
  for (const Released& tell : waiting.mapped()) tell(done.result);
}

}  // namespace larder::tier
