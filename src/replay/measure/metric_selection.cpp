#include "src/replay/measure/metric_selection.h"

#include <algorithm>

#include <fnmatch.h>

#include "src/base/words.h"
#include "src/replay/measure/log_probs.h"
#include "src/replay/measure/measurement.h"

namespace rlreplay::measure {

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return pattern == name || ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kFew = 3;
  if (names.size() <= kFew) return joined(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + kFew);
  return joined(first, ", ") + " and " + std::to_string(names.size() - kFew) + " more";
}

std::string missing_metric(const Criterion& criterion, const Measurement& measurement) {
  const bool dump = measurement.evidence == Evidence::kDump;
  for (const std::string& word : criterion.metrics) {
    if (dump && (word == kWeights || word == kForwardLogpMaxDiff)) continue;
    const auto is_it = [&](const Metric& metric) {
      return criterion.literal ? word == metric.name : matches_pattern(word, metric.name);
    };
    if (std::ranges::any_of(measurement.metrics, is_it)) continue;
    return (dump ? "the dump has no " : "metrics.json has no ") + word + "; it has " +
           (measurement.metrics.empty() ? "no number" : names_of(measurement.metrics));
  }
  return {};
}

MetricSelection::Words::Words(const std::vector<std::string>& words, bool literal)
    : names(words.begin(), words.end()) {
  for (const std::string& word : words) {
    if (!literal && word.find_first_of("*?[\\") != word.npos) patterns.push_back(&word);
  }
}

bool MetricSelection::Words::have(const std::string& name) const {
  return names.contains(name) || std::ranges::any_of(patterns, [&](const std::string* pattern) {
           return matches_pattern(*pattern, name);
         });
}

MetricSelection::MetricSelection(const Criterion& criterion)
    : all_(criterion.metrics.empty()),
      chosen_(criterion.metrics, criterion.literal),
      excluded_(criterion.excluded, false) {}

bool MetricSelection::has(const std::string& name) const {
  return (all_ || chosen_.have(name)) && !excluded_.have(name);
}

}  // namespace rlreplay::measure
