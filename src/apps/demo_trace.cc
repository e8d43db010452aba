// SPDX-License-Identifier: Apache-2.0
#include "apps/demo_trace.h"

#include <algorithm>
#include <cmath>

#include "apps/replay/models.h"

namespace larder::apps {
namespace {

// SplitMix64: a few lines that give the same numbers with every compiler and library.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  std::uint64_t below(std::uint64_t end) noexcept { return next() % end; }
  double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

struct Conversation {
  std::vector<std::uint64_t> history;
  std::uint64_t turns_left = 0;
};

class Chat {
 public:
  explicit Chat(const DemoTraceOptions& options) : options_(options), dice_(options.seed) {
    for (std::uint32_t i = 0; i < options_.system_prompts; ++i) {
      auto& prompt = prompts_.emplace_back();
      for (std::uint32_t block = 0; block < 4 + 2 * i; ++block) prompt.push_back(next_id_++);
    }
    for (std::uint32_t i = 0; i < options_.open_conversations; ++i) open_.push_back(begin());
  }

  TraceRequest turn() {
    // The front is who spoke last; a square favours it without starving the rest.
    const double draw = dice_.unit();
    const auto at = static_cast<std::size_t>(draw * draw * static_cast<double>(open_.size()));
    std::rotate(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(at),
                open_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    Conversation& now = open_.front();
    for (std::uint64_t left = 1 + dice_.below(3); left > 0; --left) {
      now.history.push_back(next_id_++);
    }
    TraceRequest request;
    clock_ms_ += -std::log(1.0 - dice_.unit()) * options_.mean_gap_ms;
    request.timestamp_ms = static_cast<std::uint64_t>(clock_ms_);
    request.input_length = now.history.size() * kTraceBlockTokens;
    request.output_length = 32 + dice_.below(480);
    request.ids = now.history;
    if (--now.turns_left == 0) now = begin();
    return request;
  }

 private:
  Conversation begin() {
    std::size_t prompt = 0;  // each prompt is half as popular as the one before
    while (prompt + 1 < prompts_.size() && dice_.below(2) == 1) ++prompt;
    return {prompts_[prompt], 1 + dice_.below(options_.turns_max)};
  }

  const DemoTraceOptions options_;
  Dice dice_;
  std::uint64_t next_id_ = 0;
  double clock_ms_ = 0;
  std::vector<std::vector<std::uint64_t>> prompts_;
  std::vector<Conversation> open_;
};

}  // namespace

std::vector<TraceRequest> make_demo_trace(const DemoTraceOptions& options) {
  std::vector<TraceRequest> requests;
  if (options.open_conversations == 0 || options.system_prompts == 0 || options.turns_max == 0) {
    return requests;
  }
  Chat chat(options);
  requests.reserve(options.requests);
  for (std::uint32_t i = 0; i < options.requests; ++i) requests.push_back(chat.turn());
  return requests;
}

}  // namespace larder::apps
