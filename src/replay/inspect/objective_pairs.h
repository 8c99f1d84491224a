#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "src/base/same_value.h"
#include "src/replay/inspect/objective_check.h"

namespace rlreplay::replay {

/// Takes the pairs of one quantity, recorded and computed, and judges them by a tolerance.
class Pairs {
 public:
  Pairs(std::string name, double tolerance) : tolerance_(tolerance) { out_.name = std::move(name); }

  void add(double recorded, double computed, uint64_t sample, std::optional<int64_t> token) {
    ++out_.compared;
    if (std::isnan(recorded)) ++out_.not_a_number;
    if (!std::isfinite(recorded)) ++out_.not_finite;
    if (same_value(recorded, computed)) return;
    ++out_.other_bits;
    const double apart = std::abs(recorded - computed);
    out_.max_difference = std::isfinite(apart) && out_.max_difference
                              ? std::optional(std::max(*out_.max_difference, apart))
                              : std::nullopt;
    const bool rounding =
        std::isfinite(apart) && apart <= tolerance_ * std::max(1.0, std::abs(recorded));
    if (tolerance_ > 0 && rounding) return;
    if (out_.different++ > 0) return;
    out_.sample = sample;
    out_.token = token;
    out_.recorded = recorded;
    out_.computed = computed;
  }

  void leave_out(int64_t count) { out_.not_computed += count; }

  [[nodiscard]] Quantity done() {
    out_.verdict = out_.compared == 0    ? Verdict::kNoInput
                   : out_.different > 0  ? Verdict::kDifferent
                   : out_.other_bits > 0 ? Verdict::kRounding
                                         : Verdict::kEqual;
    return std::move(out_);
  }

 private:
  double tolerance_;
  Quantity out_;
};

}  // namespace rlreplay::replay
