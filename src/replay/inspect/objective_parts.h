#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "src/objective/wide_inputs.h"
#include "src/replay/inspect/objective_setting.h"
#include "src/replay/record/recorded_step.h"

/// What the replay of an objective is made of (objective_replay.h).
namespace rlreplay::replay {

/// A number as binary32 holds it.
[[nodiscard]] inline double rounded(double x) { return static_cast<float>(x); }

/// How far sums of many numbers in binary32 lie from the exact ones, of their size.
constexpr double kSums32 = 0x1p-19;

/// A sample without its tokens' ids, which the objective does not read.
[[nodiscard]] Sample slim(const Sample& s);

/// The rewards of all samples of the rollout, shaped by their groups.
[[nodiscard]] std::map<uint64_t, double> shaped_by_id(const RecordedRollout& rollout,
                                                      const ObjectiveSetting& setting);

/// What a sample's discounted sum is of, a number each response token; no values but of GAE.
struct SummedSample {
  std::span<const double> kl, values;
};

/// Sets those returns and advantages to NaN that a term which is not finite makes NaN in the sums
/// of slime's REINFORCE++ and of both frameworks' GAE; others stay as they are. `samples`: all of
/// the rollout, those of several ranks as if one summed them.
void spread_not_finite(const ObjectiveSetting& setting, std::span<const Sample> samples,
                       std::span<const SummedSample> of, engine::Returns& returns);

/// What the advantages of a rollout are whitened by, of the samples of its steps in a row.
struct WhitenedBatch {
  std::span<const Sample> samples;
  std::span<const int64_t> whole;               // tokens of each, prompt included
  std::span<const size_t> ends;                 // of the steps
  std::optional<engine::TokenValues> recorded;  // advantages of all samples
};

/// Whitens `values`, of the batch's samples, in the way of the setting (Whitening).
/// Errors: those of engine::whiten.
void whiten_as(const ObjectiveSetting& setting, const WhitenedBatch& batch,
               engine::TokenValues& values);

}  // namespace rlreplay::replay
