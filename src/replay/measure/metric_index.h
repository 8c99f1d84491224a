#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/replay/measure/metrics.h"

namespace rlreplay::measure {

/// Finds metrics by name as `find_metric` does, for whoever asks for many. The metrics must outlive
/// it where they are.
class MetricIndex {
 public:
  explicit MetricIndex(const std::vector<Metric>& metrics) {
    places_.reserve(metrics.size());
    for (const Metric& metric : metrics) places_.try_emplace(metric.name, &metric);
  }

  /// The metric of this name; null where there is none.
  [[nodiscard]] const Metric* find(const std::string& name) const {
    const auto at = places_.find(name);
    return at == places_.end() ? nullptr : at->second;
  }

 private:
  std::unordered_map<std::string_view, const Metric*> places_;
};

}  // namespace rlreplay::measure
