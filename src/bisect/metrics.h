#pragma once

#include <string>
#include <vector>

namespace rlreplay::bisect {

/// A named number, or a number a step.
struct Metric {
  std::string name;
  bool per_step = false;
  std::vector<double> values;
  std::vector<std::string> step_names = {};  // where steps are not merely counted
};

const Metric* find_metric(const std::vector<Metric>& metrics, const std::string& name);

/// `grad_norm, loss`
std::string names_of(const std::vector<Metric>& metrics);

/// Reads a metrics.json, sorted by name: {"loss": [0.5, 0.25], "reward": 1}. A number may also be a
/// text, `0x1.8p-1` or `nan`; NaN and Infinity may stand bare, as Python's json writes them.
/// Errors: kIncomplete when there is no such file, kCorrupt.
std::vector<Metric> read_metrics(const std::string& path);

}  // namespace rlreplay::bisect
