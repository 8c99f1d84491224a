#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/replay/inspect/objective_replay.h"

namespace rlreplay::replay {

/// What a comparison of recorded with computed numbers gives: every bit is equal; other bits, all
/// within the tolerance; one beyond it; nothing was recorded; an input was not recorded.
enum class Verdict { kEqual, kRounding, kDifferent, kNotRecorded, kNoInput };

/// "equal", "rounding", "different", "not recorded", "not computable".
[[nodiscard]] std::string_view to_string(Verdict verdict);

/// One number or column of the objective, recorded and computed again.
struct Quantity {
  std::string name;     // "advantages"
  bool scalar = false;  // one number of the step
  Verdict verdict = Verdict::kNotRecorded;
  int64_t compared = 0;
  int64_t not_a_number = 0;  // of those compared, as recorded; one equals any other
  int64_t not_finite = 0;    // of those compared, as recorded: NaN or infinite
  int64_t not_computed = 0;  // recorded beside those compared, of samples that lack an input
  int64_t other_bits = 0;
  int64_t different = 0;                     // beyond the tolerance
  std::optional<double> max_difference = 0;  // none where one of a pair is NaN or infinite
  std::optional<uint64_t> sample;            // of the first beyond the tolerance
  std::optional<int64_t> token;              // place in the whole sample
  std::optional<double> recorded, computed;  // there; of a scalar, itself
  int64_t on_border = 0;                     // tokens that binary32 may clip or not, which decide
  std::string missing;                       // why it could not be computed
  bool refused = false;                      // `missing` says how options contradict the record

  [[nodiscard]] bool is_reproduced() const {
    return verdict == Verdict::kEqual || verdict == Verdict::kRounding;
  }
  /// Whether other options may reproduce what these do not.
  [[nodiscard]] bool is_finding() const { return verdict == Verdict::kDifferent || refused; }
};

/// What reproduces recorded numbers that the given options do not.
struct Explanation {
  std::vector<std::string> settings, reasons;  // by variant
  std::vector<std::string> parts;              // of these variants
  std::vector<std::string> quantities;         // that are reproduced then
  std::vector<std::string> left;               // of those judged with them, that differ still
  std::vector<std::string> fails_in;           // other compared steps in which it does not hold
  int64_t steps_for = 0;      // in which it reproduces what differs, and breaks none of it
  int64_t steps_against = 0;  // in which the given options reproduce what it does not
  /// How many numbers of all steps it reproduces and the given options do not, less how many these
  /// reproduce and it does not; numbers that it was not found for count too.
  int64_t mends = 0;
  bool of_losses = false;
  std::vector<std::string> judged;  // names
  std::function<void(ObjectiveSetting&)> apply;
  std::vector<Explanation> rivals;  // that reproduce as much of this step
};

/// Which alternatives the search for explanations left out for their number.
struct Untried {
  bool pairs = false;    // some two at a time
  bool triples = false;  // some three of those that help
};

/// One recorded step against its objective, computed again.
struct ObjectiveStep {
  StepId id;
  size_t samples = 0;
  int64_t tokens = 0;  // with loss mask 1
  std::vector<Quantity> quantities;
  std::vector<Explanation> explanations;
  Untried untried;
  bool policy_is_old = false;
  std::string not_finite;  // where the first NaN or infinity enters; empty without one
  int64_t unplaced = 0;    // samples that no row fits, where there are files of policy_loss_debug

  [[nodiscard]] bool reproduced() const;
  [[nodiscard]] bool compared() const;  // whether anything was recorded to compare with
};

/// What recorded objectives are judged by, and whether settings are searched that explain more.
struct ObjectiveOptions {
  ObjectiveSetting setting;
  /// The largest |a - b| / max(1, |a|) that counts as rounding; 0: every bit counts.
  double tolerance = 0;
  bool explain = true;
  std::optional<RunOptions> recorded;  // what the dump itself says: tried first
  bool policy_loss_files = false;      // the dump keeps Miles' policy_loss_debug
};

/// Judges all steps of one rollout, in order, and explains what differs where that is asked for.
[[nodiscard]] std::vector<ObjectiveStep> check_objective(const RecordedRollout& rollout,
                                                         const ObjectiveOptions& options);

/// Holds the explanations of all steps against the steps of one rollout: adds to `fails_in`.
void hold_explanations(const RecordedRollout& rollout, const ObjectiveOptions& options,
                       std::span<const ObjectiveStep> of_rollout, std::vector<ObjectiveStep>& all);

}  // namespace rlreplay::replay
