#include "src/replay/record/recorded_step.h"

#include <algorithm>
#include <set>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

constexpr auto kColumns = std::to_array<StepColumn>({
    {"rollout_log_probs", &RecordedStep::rollout_log_probs},
    {"old_log_probs", &RecordedStep::old_log_probs},
    {"ref_log_probs", &RecordedStep::ref_log_probs},
    {"teacher_log_probs", &RecordedStep::teacher_log_probs},
    {"ref_entropy", &RecordedStep::ref_entropy},
    {"values", &RecordedStep::values},
    {"current_values", &RecordedStep::current_values},
    {"kl", &RecordedStep::kl},
    {"reverse_kl", &RecordedStep::reverse_kl},
    {"advantages", &RecordedStep::advantages},
    {"returns", &RecordedStep::returns},
    {"log_probs", &RecordedStep::log_probs},
    {"entropy", &RecordedStep::entropy},
    {"policy_kl", &RecordedStep::policy_kl},
    {"policy_loss", &RecordedStep::policy_loss},
});
static_assert(std::ranges::equal(kColumns, format::kTokenColumnFields, {}, &StepColumn::name,
                                 &format::TokenColumnField::name),
              "a column of the format that no verb reads");

bool all_have(std::span<const RecordedFields> fields, bool RecordedFields::*field) {
  return std::ranges::all_of(fields, field);
}

}  // namespace

std::vector<float> narrowed(std::span<const double> values) {
  std::vector<float> out;
  out.reserve(values.size());
  for (const double value : values) out.push_back(static_cast<float>(value));
  return out;
}

TokenColumn RecordedStep::*starting_column(const RecordedStep& step, size_t sample) {
  const auto has = [&](const TokenColumn& column) { return column && !(*column)[sample].empty(); };
  if (has(step.old_log_probs)) return &RecordedStep::old_log_probs;
  if (step.id.step == 0 && has(step.log_probs)) return &RecordedStep::log_probs;
  return nullptr;
}

std::span<const StepColumn> step_columns() { return kColumns; }

std::string_view column_name(TokenColumn RecordedStep::*column) {
  return std::ranges::find(kColumns, column, &StepColumn::column)->name;
}

bool is_whole(const TokenColumn& column, std::span<const Sample> samples) {
  if (!column) return false;
  for (size_t i = 0; i < samples.size(); ++i) {
    if ((*column)[i].size() != samples[i].loss_mask.size()) return false;
  }
  return true;
}

std::optional<double> RecordedStep::scalar(std::string_view name) const {
  return scalars.find(name);
}

std::optional<int64_t> RecordedStep::trajectories() const {
  const std::optional<double> counted = scalar("trajectories");
  // Scalars are binary64, which holds every integer below 2^53.
  if (!counted || !(*counted >= 1 && *counted < 0x1p53)) return std::nullopt;
  return static_cast<int64_t>(*counted);
}

bool RecordedRollout::has_rewards() const {
  return data && data->rewards && all_have(fields, &RecordedFields::reward);
}

bool RecordedRollout::has_groups() const {
  return data && data->group_id && all_have(fields, &RecordedFields::group);
}

std::vector<int64_t> trained_rollouts(const RecordedRun& run) {
  std::vector<int64_t> out;
  for (const StepId& step : run.steps()) {
    if (out.empty() || out.back() != step.rollout) out.push_back(step.rollout);
  }
  return out;
}

std::vector<int64_t> recorded_rollouts(const RecordedRun& run) {
  std::set<int64_t> out(run.rollouts().begin(), run.rollouts().end());
  for (const StepId& step : run.steps()) out.insert(step.rollout);
  return {out.begin(), out.end()};
}

std::vector<StepId> steps_of_rollouts(const RecordedRun& run) {
  const std::vector<int64_t> trained = trained_rollouts(run);
  std::vector<StepId> out = run.steps();
  for (const int64_t rollout : run.rollouts()) {
    if (!std::ranges::binary_search(trained, rollout)) out.push_back({rollout, 0});
  }
  std::ranges::sort(out);
  return out;
}

void check_replayable(const RecordedRun& run, const RecordedRollout& rollout) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kIncomplete, "rollout " + std::to_string(rollout.id) + " " + why,
                run.path());
  };
  if (!rollout.data) refuse("was not recorded");
  if (!rollout.data->prompt_length) refuse("has no prompt lengths: it cannot be replayed");
  if (!rollout.has_groups()) {
    refuse("does not say which samples answer one prompt: it cannot be replayed");
  }
  if (!rollout.has_rewards()) refuse("has not the rewards of all samples: it cannot be replayed");
}

int64_t longest_prompt(const RecordedRun& run, int64_t rollout) {
  int64_t out = 0;
  for (const Sample& s : replayable_samples(run, rollout)) out = std::max(out, s.prompt_length);
  return out;
}

int64_t longest_prompt(const RecordedRun& run) {
  return run.rollouts().empty() ? 0 : longest_prompt(run, run.rollouts().front());
}

}  // namespace rlreplay::replay
