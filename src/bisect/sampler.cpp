#include "src/bisect/sampler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/error.h"
#include "src/base/json_value.h"

namespace rlreplay::bisect {
namespace {

const void* place_of(const measure::Metric& metric) { return metric.values.place(); }

}  // namespace

std::string key_of(const Candidate& candidate) {
  std::string key = candidate.content;
  for (const auto& [name, value] : candidate.settings) {
    key += " " + json_quoted(name) + "=" + json_quoted(value);
  }
  return key;
}

size_t count_builds(const std::vector<MeasuredRun>& samples) {
  std::set<std::string> builds;
  for (const MeasuredRun& sample : samples) builds.insert(sample.measurement.build);
  return builds.size();
}

Sampler::Sampler(measure::Executor& executor, MeasurementStore* store,
                 std::function<void(const Measurement&)> drop)
    : executor_(executor), store_(store), drop_(std::move(drop)) {}

std::vector<MeasuredRun>& Sampler::samples(const Candidate& candidate) {
  const auto [at, is_new] = samples_.try_emplace(key_of(candidate));
  if (is_new && store_ != nullptr) {
    for (Measurement& measurement : store_->load(candidate)) {
      share(measurement);
      at->second.push_back({std::move(measurement), true});
    }
  }
  return at->second;
}

const std::vector<MeasuredRun>& Sampler::of(const Candidate& candidate) {
  return samples(candidate);
}

const MeasuredRun& Sampler::add(const Candidate& candidate, Build build) {
  if (runs_ >= most_) {
    throw Error(ErrorCode::kLimit,
                "the runs that --max-runs allows, " + std::to_string(most_) + ", are spent");
  }
  static_cast<void>(samples(candidate));  // those that are stored, before there is one more
  return keep(candidate, executor_.measure(candidate, build));
}

/// Most runs leave what another has left: numbers are held once.
void Sampler::share(Measurement& measurement) {
  for (const auto& others : distinct_) measure::share_values(measurement.metrics, others);
  const auto known = std::ranges::any_of(distinct_, [&](const auto& others) {
    return std::ranges::equal(others, measurement.metrics, {}, place_of, place_of);
  });
  if (!known && !measurement.metrics.empty()) distinct_.push_back(measurement.metrics);
}

size_t Sampler::bytes() const {
  std::vector<const std::vector<measure::Metric>*> all;
  for (const auto& [key, runs] : samples_) {
    for (const MeasuredRun& run : runs) all.push_back(&run.measurement.metrics);
  }
  return measure::bytes_of(all);
}

const MeasuredRun& Sampler::keep(const Candidate& candidate, Measurement measurement) {
  ++runs_;
  share(measurement);
  // What git lacks today it may have tomorrow.
  const bool lasts = measurement.kind != measure::RunKind::kNoCheckout;
  if (store_ != nullptr && lasts) store_->save(candidate, measurement);
  return samples(candidate).emplace_back(MeasuredRun{std::move(measurement), false});
}

void Sampler::add_first(std::span<const Candidate> candidates) {
  std::vector<Candidate> missing;
  std::set<std::string> keys;
  for (const Candidate& candidate : candidates) {
    if (runs_ + missing.size() == most_) break;
    if (samples(candidate).empty() && keys.insert(key_of(candidate)).second) {
      missing.push_back(candidate);
    }
  }
  executor_.measure_all(missing, [&](size_t i, Measurement m) { keep(missing[i], std::move(m)); });
}

void Sampler::drop_outputs(const Candidate& candidate) {
  if (!drop_) return;
  for (const MeasuredRun& sample : samples(candidate)) drop_(sample.measurement);
}

void Sampler::drop_outputs_unless(const Candidate& candidate, const Candidate& good) {
  if (key_of(candidate) != key_of(good)) drop_outputs(candidate);
}

}  // namespace rlreplay::bisect
