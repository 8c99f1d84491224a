#pragma once

#include <string>
#include <vector>

namespace rlreplay::measure {

/// A number, or a text: a digest, or an integer that binary64 would round.
struct MetricValue {
  double number = 0;
  std::string text = {};  // empty for what is a binary64 number

  /// Neither a text nor a finite number.
  [[nodiscard]] bool nonfinite() const;
  std::string describe() const;
};

/// Whether two values are the same, or finite numbers at most `tolerance` apart. NaN agrees with
/// NaN alone, an infinity with itself, a text with the same text, and -0 is not +0.
[[nodiscard]] bool agree(const MetricValue& a, const MetricValue& b, double tolerance);

/// A named value, or a value a step.
struct Metric {
  std::string name;
  bool per_step = false;
  std::vector<MetricValue> values;
  std::vector<std::string> step_names = {};  // where steps are not merely counted
};

/// The metric of this name; null where there is none.
[[nodiscard]] const Metric* find_metric(const std::vector<Metric>& metrics,
                                        const std::string& name);

/// `grad_norm, loss`
std::string names_of(const std::vector<Metric>& metrics);

/// Reads a metrics.json, sorted by name: {"loss": [0.5, 0.25], "reward": 1}. A number may also be a
/// text, `0x1.8p-1` or `nan`; NaN and Infinity may stand bare, as Python's json writes them. Any
/// other text is compared as it stands. Of a metrics.jsonl each line is such an object, a step.
/// Errors: kIncomplete when there is no such file, kCorrupt.
[[nodiscard]] std::vector<Metric> read_metrics(const std::string& path);

}  // namespace rlreplay::measure
