#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "src/replay/measure/judgement.h"

namespace rlreplay::measure {

inline constexpr const char* kWeights = "weights";  // the digests of a dump, as --metric names them

/// Whether a name fits a pattern of the shell: `grad_*`.
[[nodiscard]] bool matches_pattern(const std::string& pattern, const std::string& name);

/// `loss, reward, entropy and 4 more`
[[nodiscard]] std::string first_names(const std::vector<std::string>& names);

/// The first of what a criterion names that a run left no number of, and what it has: `metrics.json
/// has no foo; it has loss`. Empty where nothing is missing.
[[nodiscard]] std::string missing_metric(const Criterion& criterion,
                                         const Measurement& measurement);

/// Which recorded numbers count by a criterion, for whoever asks of many. The criterion must
/// outlive it where it is.
class MetricSelection {
 public:
  explicit MetricSelection(const Criterion& criterion);
  explicit MetricSelection(const Criterion&&) = delete;

  [[nodiscard]] bool has(const std::string& name) const;

 private:
  /// Names as they stand, and what of them may be a pattern.
  struct Words {
    Words(const std::vector<std::string>& words, bool literal);
    [[nodiscard]] bool have(const std::string& name) const;

    std::unordered_set<std::string_view> names;
    std::vector<const std::string*> patterns;
  };

  bool all_;  // but for those that are excluded
  Words chosen_, excluded_;
};

}  // namespace rlreplay::measure
