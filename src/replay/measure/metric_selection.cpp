#include "src/replay/measure/metric_selection.h"

#include <algorithm>

#include <fnmatch.h>

namespace rlreplay::measure {

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return pattern == name || ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
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
