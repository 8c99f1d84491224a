#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/engine/streamed_score.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/record/step_range.h"

/// The referee: recorded log-probabilities of training and of the rollout, each against a binary32
/// evaluation of the same tokens under given weights (docs/referee.md).
namespace rlreplay::replay {

/// Log-probabilities that lie farther apart on average are not of one model: a token is likelier or
/// less likely by a factor of e, where engines differ by hundredths.
inline constexpr double kForeignModel = 1;

/// Which samples are judged.
struct RefereeSelection {
  StepRange steps;  // in steps_of_rollouts
  std::optional<std::set<uint64_t>> samples, groups;
  std::optional<int64_t> max_tokens;  // samples by ascending id until so many; one at least
  std::optional<int64_t> version;     // only samples wholly of these weights
  std::optional<int64_t> own;         // the rollout that the dump's own weights, which judge, wrote
};

/// What is judged, and how many were left out.
struct RefereeCase {
  std::vector<Sample> samples;            // by rollout, then id
  std::vector<std::vector<float>> train;  // per sample, the response's; empty where not recorded
  std::vector<int64_t> rollouts;          // per sample
  std::optional<int64_t> version;         // of all of them, where one was chosen
  int64_t other_version = 0;
  int64_t beyond_max_tokens = 0;
};

/// The samples that are judged. Where they are of several versions and none is named, those of the
/// dump's own weights are taken. Errors: kUsage where nothing is selected, where no version can be
/// chosen, and where one is named that no sample has; kIncomplete where neither side was recorded.
[[nodiscard]] RefereeCase select_case(const RecordedRun& run, const RefereeSelection& selection);

/// Who computed the recorded log-probabilities: the trainer, or the rollout engine.
enum class Side { kTrain, kRollout };
inline constexpr std::array kSides = {Side::kTrain, Side::kRollout};

/// "train", "rollout".
[[nodiscard]] std::string name(Side side);

/// A token of a response whose loss mask is 1.
struct JudgedToken {
  size_t sample = 0;                         // of the case
  int64_t token = 0;                         // place in the whole sample
  float referee = 0;                         // log-probabilities: of the evaluation in binary32,
  float rounded = 0;                         // of the one that is rounded to bfloat16,
  std::array<std::optional<float>, 2> side;  // and of the sides
};

/// |x - referee| over tokens; pairs with a NaN or an infinity are only counted.
struct Distances {
  int64_t tokens = 0;
  int64_t nonfinite = 0;
  double max = 0, mean = 0, p50 = 0, p99 = 0;
  double bias = 0;              // the mean of x - referee
  std::optional<size_t> where;  // index of the token of max
};

/// Which side lies nearer to the evaluation; kUnknown where no token has finite numbers of both.
enum class Nearer { kTrain, kRollout, kEqual, kUnknown };

/// The word of a report for it: "train", "rollout", ...
[[nodiscard]] std::string name(Nearer nearer);

/// Tokens that are judged together: all, a sample's, those of a range of positions.
struct RefereeRow {
  int64_t tokens = 0;
  Distances noise;                               // of the rounded evaluation
  std::array<std::optional<Distances>, 2> side;  // by Side
  /// The side whose mean distance is smaller, over the tokens that both have.
  Nearer nearer = Nearer::kUnknown;
};

/// How far both sides lie from the evaluation, by all tokens, by sample and by place in a response.
struct RefereeVerdict {
  std::vector<JudgedToken> tokens;
  RefereeRow all;
  std::vector<RefereeRow> samples;  // as in the case; those without judged tokens too
  struct Positions {
    int64_t first = 0, last = 0;  // in the response
    RefereeRow row;
  };
  std::vector<Positions> positions;  // those that have tokens
  /// By side, its mean distance over that of the noise, and whether that is more than kBeyondNoise.
  std::array<std::optional<double>, 2> noise_ratio;
  std::array<bool, 2> beyond_noise{};
  /// By side, whether it fits the evaluation of the token before (-1) or after (+1), at least twice
  /// as well as that of its own.
  std::array<std::optional<int>, 2> shifted;
  /// Samples whose recorded log-probabilities are off as a whole where most samples' are not.
  std::array<std::vector<size_t>, 2> broken;
  std::vector<size_t> worst;  // tokens by descending distance of the farther side

  [[nodiscard]] bool finding() const {
    return beyond_noise[0] || beyond_noise[1] || !broken[0].empty() || !broken[1].empty();
  }
};

/// A side is beyond the noise from this on. A sound one rounds as
/// often as the noise does, but elsewhere: the factor leaves room for that (docs/referee.md).
inline constexpr double kBeyondNoise = 3;

/// A sample is off as a whole from this on: its median distance over that of the median sample.
inline constexpr double kBrokenSample = 10;

/// Judges both sides of each token with loss mask 1. `scores`: of the case's samples, both
/// evaluations. `worst`: how many tokens that list has.
[[nodiscard]] RefereeVerdict judge(const RefereeCase& given, const engine::StreamedScores& scores,
                                   size_t worst = 12);

}  // namespace rlreplay::replay
