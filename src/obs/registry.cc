// SPDX-License-Identifier: Apache-2.0
// The registry, and its two renderings. prometheus-cpp stays inside this file.
#include <fmt/format.h>
#include <prometheus/check_names.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "obs/metrics.h"

namespace larder::obs {
namespace {

constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kHelpBytesMax = 512;
constexpr unsigned kFirstBucketBits = 10;  // 1.024 us
constexpr unsigned kLastBucketBits = 36;   // 68.7 s
constexpr double kSecond = 1e9;            // ns

enum class Kind { kCounter, kGauge, kHistogram };

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return "counter";
    case Kind::kGauge:
      return "gauge";
    case Kind::kHistogram:
      return "histogram";
  }
  return "unknown";
}

// Held by shared_ptr so that a scrape can call it without the registry's lock; its own lock makes
// removal wait for a call in progress.
struct Callback {
  std::mutex mutex;
  std::function<double()> read;  // empty once removed

  std::optional<double> call() {
    const std::lock_guard lock(mutex);
    if (!read) return std::nullopt;
    try {
      return read();
    } catch (...) {
      return std::nullopt;  // one bad callback must not cost the whole scrape
    }
  }
};

struct Series {
  std::unique_ptr<Counter> counter;
  std::unique_ptr<Gauge> gauge;
  std::unique_ptr<Histogram> histogram;
  std::shared_ptr<Callback> callback;
};

struct Family {
  Kind kind = Kind::kCounter;
  std::string help;
  std::map<Labels, Series> series;
};

// What one scrape saw of one series.
struct Sample {
  Labels labels;
  std::uint64_t count = 0;                   // counters
  double level = 0;                          // gauges, and what a callback said
  std::optional<std::int64_t> whole;         // gauges that are exact
  std::unique_ptr<LatencyRecorder> latency;  // histograms
  std::shared_ptr<Callback> callback;
};

struct FamilySamples {
  std::string name;
  Kind kind = Kind::kCounter;
  std::string help;
  std::vector<Sample> samples;
};

bool is_text(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max) return false;
  if (std::any_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f;
      })) {
    return false;
  }
  try {
    nlohmann::json(std::string(text)).dump();  // throws on invalid UTF-8
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return true;
}

tl::unexpected<Error> bad(std::string_view name, std::string_view why) {
  return fail(Code::kInvalidArgument, fmt::format("metric {}: {}", base::quoted(name), why));
}

Result<void> check(std::string_view name, std::string_view help, const Labels& labels) {
  if (name.size() > kNameBytesMax || !prometheus::CheckMetricName(std::string(name))) {
    return bad(name, "a name is up to 128 of a-z A-Z 0-9 _ and starts with a letter");
  }
  if (!is_text(help, kHelpBytesMax)) return bad(name, "help is one line of up to 512 bytes");
  if (labels.size() > Registry::kLabelsMax) return bad(name, "more than 8 labels");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto& [key, value] = labels[i];
    const bool known = key != "le" && key != "quantile" && key.size() <= kNameBytesMax;
    if (!known || !prometheus::CheckLabelName(key)) {
      return bad(name, "label name " + base::quoted(key) + " is not allowed");
    }
    if (i > 0 && labels[i - 1].first == key) {
      return bad(name, "label " + base::quoted(key) + " is given twice");
    }
    if (!is_text(value, Registry::kLabelBytesMax)) {
      return bad(name, "the value of label " + key + " is not one line of up to 256 bytes UTF-8");
    }
  }
  return {};
}

prometheus::ClientMetric render(const Sample& sample, Kind kind) {
  prometheus::ClientMetric out;
  for (const auto& [key, value] : sample.labels) out.label.push_back({key, value});
  if (kind == Kind::kCounter) out.counter.value = static_cast<double>(sample.count);
  if (kind == Kind::kGauge) out.gauge.value = sample.level;
  if (kind == Kind::kHistogram) {
    const LatencyRecorder& latency = *sample.latency;
    auto& histogram = out.histogram;
    histogram.sample_count = latency.count();
    histogram.sample_sum = static_cast<double>(latency.sum_ns()) / kSecond;
    // A record of exactly 2^n ns counts one bucket up: 1 ns of 1 us at worst.
    for (unsigned bits = kFirstBucketBits; bits <= kLastBucketBits; bits += 2) {
      const double edge = static_cast<double>(1ULL << bits) / kSecond;
      histogram.bucket.push_back({latency.count_below_power(bits), edge});
    }
    histogram.bucket.push_back({latency.count(), std::numeric_limits<double>::infinity()});
  }
  return out;
}

prometheus::MetricType type_of(Kind kind) {
  if (kind == Kind::kCounter) return prometheus::MetricType::Counter;
  if (kind == Kind::kGauge) return prometheus::MetricType::Gauge;
  return prometheus::MetricType::Histogram;
}

nlohmann::json to_json(const Sample& sample, Kind kind) {
  nlohmann::json out;
  out["labels"] = nlohmann::json::object();
  for (const auto& [key, value] : sample.labels) out["labels"][key] = value;
  if (kind == Kind::kCounter) {
    out["value"] = sample.count;
  } else if (kind == Kind::kGauge && sample.whole) {
    out["value"] = *sample.whole;
  } else if (kind == Kind::kGauge) {
    out["value"] = sample.level;
  } else {
    const LatencyRecorder& latency = *sample.latency;
    out["count"] = latency.count();
    out["sum_ns"] = latency.sum_ns();
    out["p50_ns"] = latency.percentile(50);
    out["p99_ns"] = latency.percentile(99);
    out["p999_ns"] = latency.percentile(99.9);
    out["max_ns"] = latency.max_ns();
  }
  return out;
}

}  // namespace

class Registry::State final : public prometheus::Collectable {
 public:
  explicit State(std::size_t series_max) : series_max_(series_max) {}

  // The series, made if it is new. Under mutex_, which the caller holds.
  Result<Series*> obtain(Kind kind, std::string_view name, std::string_view help, Labels labels) {
    std::sort(labels.begin(), labels.end());
    LARDER_TRY(check(name, help, labels));
    const auto found = families_.find(name);
    if (found != families_.end()) {
      if (found->second.kind != kind) {
        return bad(name, fmt::format("already a {}, cannot be a {} too",
                                     kind_name(found->second.kind), kind_name(kind)));
      }
      const auto series = found->second.series.find(labels);
      if (series != found->second.series.end()) return &series->second;
    }
    if (series_ >= series_max_) {
      return fail(Code::kExhausted,
                  fmt::format("metric {}: all {} series are in use; use fewer label values",
                              base::quoted(name), series_max_));
    }
    ++series_;
    Family& family = families_[std::string(name)];
    if (family.series.empty()) {
      family.kind = kind;
      family.help = std::string(help);
    }
    return &family.series[std::move(labels)];
  }

  void remove_callback(const std::string& name, Labels labels, Callback& callback) {
    {
      const std::lock_guard lock(callback.mutex);
      callback.read = nullptr;
    }
    std::sort(labels.begin(), labels.end());
    const std::lock_guard lock(mutex_);
    const auto family = families_.find(name);
    if (family == families_.end() || family->second.series.erase(labels) == 0) return;
    --series_;
    if (family->second.series.empty()) families_.erase(family);
  }

  // Everything at about one moment. Callbacks run last, without the lock.
  std::vector<FamilySamples> read() const {
    std::vector<FamilySamples> out;
    {
      const std::lock_guard lock(mutex_);
      out.reserve(families_.size());
      for (const auto& [name, family] : families_) {
        FamilySamples& samples = out.emplace_back();
        samples.name = name;
        samples.kind = family.kind;
        samples.help = family.help;
        for (const auto& [labels, series] : family.series) {
          samples.samples.push_back(read(labels, series));
        }
      }
    }
    for (FamilySamples& family : out) {
      std::erase_if(family.samples, [](Sample& sample) { return !ask(sample); });
    }
    return out;
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> out;
    for (const FamilySamples& family : read()) {
      prometheus::MetricFamily& made = out.emplace_back();
      made.name = family.name;
      made.help = family.help;
      made.type = type_of(family.kind);
      for (const Sample& sample : family.samples) {
        made.metric.push_back(render(sample, family.kind));
      }
    }
    return out;
  }

  mutable std::mutex mutex_;
  std::size_t series_ = 0;

 private:
  static Sample read(const Labels& labels, const Series& series) {
    Sample out;
    out.labels = labels;
    out.callback = series.callback;
    if (series.counter) out.count = series.counter->value();
    if (series.gauge) {
      out.whole = series.gauge->value();
      out.level = static_cast<double>(*out.whole);
    }
    if (series.histogram) {
      out.latency = std::make_unique<LatencyRecorder>(series.histogram->snapshot());
    }
    return out;
  }

  // False when the sample has no value after all.
  static bool ask(Sample& sample) {
    if (!sample.callback) return true;
    const auto value = sample.callback->call();
    sample.level = value.value_or(0);
    sample.count = sample.level > 0 ? static_cast<std::uint64_t>(sample.level) : 0;
    return value.has_value();
  }

  const std::size_t series_max_;
  std::map<std::string, Family, std::less<>> families_;
};

Registry::Registry(std::size_t series_max) : state_(std::make_shared<State>(series_max)) {}
Registry::~Registry() = default;

Result<Counter*> Registry::counter(std::string_view name, std::string_view help, Labels labels) {
  const std::lock_guard lock(state_->mutex_);
  LARDER_ASSIGN(Series * series, state_->obtain(Kind::kCounter, name, help, std::move(labels)));
  if (series->callback) return bad(name, "already a counter with a callback under these labels");
  if (!series->counter) series->counter = std::make_unique<Counter>();
  return series->counter.get();
}

Result<Gauge*> Registry::gauge(std::string_view name, std::string_view help, Labels labels) {
  const std::lock_guard lock(state_->mutex_);
  LARDER_ASSIGN(Series * series, state_->obtain(Kind::kGauge, name, help, std::move(labels)));
  if (series->callback) return bad(name, "already a gauge with a callback under these labels");
  if (!series->gauge) series->gauge = std::make_unique<Gauge>();
  return series->gauge.get();
}

Result<Histogram*> Registry::histogram(std::string_view name, std::string_view help,
                                       Labels labels) {
  const std::lock_guard lock(state_->mutex_);
  LARDER_ASSIGN(Series * series, state_->obtain(Kind::kHistogram, name, help, std::move(labels)));
  if (!series->histogram) series->histogram = std::make_unique<Histogram>();
  return series->histogram.get();
}

Result<CallbackHandle> Registry::callback(std::string_view name, std::string_view help,
                                          std::function<double()> read, Labels labels) {
  if (!read) return bad(name, "the callback is empty");
  const std::lock_guard lock(state_->mutex_);
  const Kind kind = name.ends_with("_total") ? Kind::kCounter : Kind::kGauge;
  LARDER_ASSIGN(Series * series, state_->obtain(kind, name, help, labels));
  if (series->gauge || series->counter || series->callback) {
    return fail(Code::kAlreadyExists,
                fmt::format("metric {}: this series exists already", base::quoted(name)));
  }
  series->callback = std::make_shared<Callback>();
  series->callback->read = std::move(read);
  auto remove = [state = state_, key = std::string(name), labels = std::move(labels),
                 callback = series->callback] { state->remove_callback(key, labels, *callback); };
  return CallbackHandle(std::move(remove));
}

std::size_t Registry::series() const {
  const std::lock_guard lock(state_->mutex_);
  return state_->series_;
}

std::string Registry::text() const {
  return prometheus::TextSerializer().Serialize(state_->Collect());
}

std::string Registry::stats_json() const {
  nlohmann::json out = nlohmann::json::object();
  for (const FamilySamples& family : state_->read()) {
    nlohmann::json& made = out[family.name];
    made["type"] = kind_name(family.kind);
    made["help"] = family.help;
    made["series"] = nlohmann::json::array();
    for (const Sample& sample : family.samples) {
      made["series"].push_back(to_json(sample, family.kind));
    }
  }
  return out.dump();
}

}  // namespace larder::obs
