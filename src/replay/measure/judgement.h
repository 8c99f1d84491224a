#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/objective/log_prob_difference.h"
#include "src/replay/measure/metrics.h"

namespace rlreplay::measure {

struct Measurement;

/// What is said of one run; a run that nothing can be said of is skipped.
enum class Verdict { kGood, kBad, kSkip };

[[nodiscard]] std::string_view to_string(Verdict verdict);

/// What decides between good and bad.
struct Criterion {
  /// Patterns of names: `weights`, `forward_logp_max_diff` or numbers that are recorded. Without
  /// one: the weights of a dump (of one that holds none, as frameworks leave them, all of its
  /// content), every number of metrics.json, or else the exit code.
  std::vector<std::string> metrics = {};
  /// How far a number may lie from the good end's.
  double tolerance = 0;
  /// Exit codes that mean bad though they tell of a crash; 128 and a signal.
  std::vector<int> bad_exits = {};
  /// Patterns of names that do not count.
  std::vector<std::string> excluded = {};
  /// The distance from the good end's beyond which a noisy number is bad; between `tolerance` and
  /// it nothing is said. Absent: `tolerance` itself.
  std::optional<double> bad_from = {};
  /// Whether `metrics` are names of numbers as runs have recorded them, and no patterns.
  bool literal = false;

  [[nodiscard]] bool names(std::string_view metric) const;
  /// Whether it needs the log-probabilities of a dump.
  [[nodiscard]] bool needs_log_probs() const;
};

/// The first number that differs.
struct Difference {
  std::string metric;
  std::optional<size_t> step;
  std::string step_name;  // as reports call it
  MetricValue good, bad;
  size_t different = 0;  // how many numbers differ
  size_t compared = 0;
  std::optional<LogProbDifference> log_probs = {};  // of that step, where these decide

  /// `loss at step 3: 0.25 where the reference has 0.5 (1 of 20 numbers differ)`
  std::string describe() const;
};

/// What is said of a measurement, and why.
struct Judgement {
  Verdict verdict = Verdict::kSkip;
  std::string reason;
  std::optional<Difference> difference = {};
  bool grey = false;  // skipped, since noise may be all that it is
};

/// Compares the metrics of the reference that count.
[[nodiscard]] Judgement judge_metrics(const Criterion& criterion,
                                      const std::vector<Metric>& reference,
                                      const std::vector<Metric>& metrics);

/// Why metrics can be no reference: what decides is no finite number anywhere, or nothing was
/// trained (grad_norm is 0 at every step). Empty where they can.
[[nodiscard]] std::string emptiness_of(const Criterion& criterion,
                                       const std::vector<Metric>& metrics);

/// Whether a second run of one candidate left what the first one did: good if so.
[[nodiscard]] Judgement judge_repetition(const Criterion& criterion, const Measurement& first,
                                         const Measurement& second);

/// Judges a run against that of the good end. The good end itself has no reference: it is good if
/// it can be one.
[[nodiscard]] Judgement judge(const Criterion& criterion, const Measurement* reference,
                              const Measurement& measurement);

/// Sees that a tolerance has something to be of.
/// Errors: kUsage for a tolerance where what is compared is equal or not: digests and exit codes.
void check_tolerance(const Criterion& criterion, const Measurement& reference);

}  // namespace rlreplay::measure
