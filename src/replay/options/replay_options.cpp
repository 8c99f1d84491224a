#include "src/replay/options/replay_options.h"

#include <algorithm>
#include <charconv>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/replay/options/objective_config.h"
#include "src/replay/options/option_needs.h"

namespace rlreplay::replay {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

Effect when(bool condition) { return condition ? Effect::kBits : Effect::kNone; }

Effect effect_of_model(std::string_view name, ReplayKind kind, const RunOptions& options) {
  if (name == "rope") return Effect::kBits;
  if (name == "ref-load") {
    const bool trains = kind == ReplayKind::kTraining || kind == ReplayKind::kImportedTraining;
    return when(trains && needs_reference(options));
  }
  if (name == "model") {
    return when(kind == ReplayKind::kImportedTraining || kind == ReplayKind::kReferee);
  }
  return when(kind == ReplayKind::kImportedTraining);  // save
}

/// Whether a rate decays over the length of the run.
bool decays_over_run(const RunOptions& options) {
  return options.lr_decay_style != "constant" && !options.lr_decay_iters;
}

/// Recorded tokens were drawn; only their probabilities are computed again.
Effect effect_of_rollout(std::string_view name, ReplayKind kind, const RunOptions& options,
                         const RecordGives& gives) {
  if (name == "rollout-slots") return Effect::kSpeed;
  if (name == "rollout-temperature") return Effect::kBits;
  const bool imported = kind == ReplayKind::kImportedTraining;
  if (is_one_of(name, {"rollout-batch-size", "n-samples-per-prompt"})) {
    return when(imported && decays_over_run(options) && options.num_rollout &&
                options.global_batch_size);
  }
  if (imported && name == "rollout-top-p")
    return when(!gives.nuclei && dialect(options) == engine::Dialect::kSlime);
  return when(kind == ReplayKind::kRollout);
}

Effect effect_of_schedule(std::string_view name, ReplayKind kind, const RunOptions& options,
                          const RecordGives& gives) {
  if (kind != ReplayKind::kImportedTraining) return Effect::kNone;
  if (is_one_of(name, {"num-rollout", "steps"})) return when(decays_over_run(options));
  return when(!gives.steps || (decays_over_run(options) && options.num_rollout));
}

/// Whether the record gives all that an option goes into: advantages, or the rewards that they
/// begin with.
bool is_given(std::string_view name, const RunOptions& options, const RecordGives& gives) {
  const bool shapes =
      is_one_of(name, {"disable-rewards-normalization", "disable-grpo-std-normalization"});
  if (shapes) return gives.shaped_rewards || gives.advantages;
  if (name == "kl-loss-type") return gives.advantages && !options.use_kl_loss;
  return gives.advantages && is_one_of(name, {"normalize-advantages", "gamma", "lambd", "use-opd",
                                              "opd-kl-coef", "kl-coef"});
}

/// Whether a change of the estimator changes nothing: advantages are given, and the policy loss,
/// which it names too, stays.
bool same_policy_loss(const Option& option, const RunOptions& before, const RunOptions& after,
                      const RecordGives& gives) {
  return gives.advantages && option.name == "advantage-estimator" &&
         objective_config(before).policy_loss == objective_config(after).policy_loss;
}

Effect effect_of_machine(std::string_view name, ReplayKind kind) {
  if (name == "kernels") return when(kind != ReplayKind::kReferee);
  if (name == "seed") {
    return when(kind == ReplayKind::kImportedTraining || kind == ReplayKind::kReferee);
  }
  return Effect::kSpeed;
}

Effect effect_of_section(const Option& option, ReplayKind kind, const RunOptions& options,
                         const RecordGives& gives) {
  const bool trains = kind == ReplayKind::kTraining || kind == ReplayKind::kImportedTraining;
  switch (option.section) {
    case Section::kModel:
      return effect_of_model(option.name, kind, options);
    case Section::kPrompts:
      return Effect::kNone;
    case Section::kRollout:
      return effect_of_rollout(option.name, kind, options, gives);
    case Section::kSchedule:
      return effect_of_schedule(option.name, kind, options, gives);
    case Section::kObjective:
      return when(trains && !is_given(option.name, options, gives));
    case Section::kOptimizer:
      return when(trains);
    case Section::kMachine:
      return effect_of_machine(option.name, kind);
    case Section::kRecord:
      return Effect::kSpeed;
  }
  return Effect::kNone;
}

/// Refuses the options that only others would give an effect.
void check_needs(const std::vector<const Option*>& changed, const RunOptions& asked,
                 ReplayKind kind) {
  std::string out;
  for (const Option* option : changed) {
    if (effect_of_section(*option, kind, asked, {}) != Effect::kBits) continue;
    out += (out.empty() ? "--" : "; --") + std::string(option->name) +
           " has no effect on this replay: it needs " +
           std::string(unmet_need(*option, asked)->text);
  }
  if (!out.empty()) throw Error(ErrorCode::kUsage, out);
}

std::string list(const std::vector<const Option*>& options) {
  std::string out;
  for (const Option* option : options) {
    out += (out.empty() ? "--" : ", --") + std::string(option->name);
  }
  return out;
}

}  // namespace

std::string written(const RunOptions& options, const Option& option) {
  const auto* field = std::get_if<double RunOptions::*>(&option.field);
  if (field == nullptr) return option_text(options, option);
  const double value = options.**field;
  if (value == 0 || (value >= 1e-3 && value < 1e6)) return shortest(value);
  return shortest(value, std::chars_format::scientific);
}

Effect effect_of(const Option& option, ReplayKind kind, const RunOptions& options,
                 const RecordGives& gives) {
  const Effect effect = effect_of_section(option, kind, options, gives);
  return effect == Effect::kBits && unmet_need(option, options) != nullptr ? Effect::kNone : effect;
}

std::vector<const Option*> changed_options(const RunOptions& before, const RunOptions& after,
                                           ReplayKind kind, Effect effect,
                                           const RecordGives& gives) {
  std::vector<const Option*> out;
  for (const Option& option : option_table()) {
    if (option_text(before, option) == option_text(after, option)) continue;
    const bool same = same_policy_loss(option, before, after, gives);
    const Effect found = same ? Effect::kNone : effect_of(option, kind, after, gives);
    if (found == effect) out.push_back(&option);
  }
  return out;
}

void check_overrides(const RunOptions& recorded, const RunOptions& asked, ReplayKind kind) {
  const auto changed = changed_options(recorded, asked, kind, Effect::kNone);
  if (changed.empty()) return;
  check_needs(changed, asked, kind);
  const bool rollout = kind == ReplayKind::kRollout;
  throw Error(
      ErrorCode::kUsage,
      list(changed) + (changed.size() == 1 ? " has" : " have") + " no effect on a replay, which " +
          (rollout ? "takes prompts and weights from the record; it can override the sampling "
                     "(--rollout-temperature, --rollout-seed, ...), --rope and --kernels"
                   : "takes rollouts, weights and steps from the record; it can override options "
                     "of objective and optimizer (--lr, --eps-clip, ...), --rope, "
                     "--rollout-temperature and --kernels, and --steps A..B says which steps"));
}

std::vector<std::string> override_lines(const RunOptions& recorded, const RunOptions& asked,
                                        ReplayKind kind, const RecordGives& gives) {
  std::vector<std::string> out;
  for (const Option* option : changed_options(recorded, asked, kind, Effect::kBits, gives)) {
    out.push_back(std::string(option->name) + ": " + written(recorded, *option) + " -> " +
                  written(asked, *option));
  }
  return out;
}

std::string without_effect(const RunOptions& before, const RunOptions& asked, ReplayKind kind,
                           const RecordGives& gives) {
  return list(changed_options(before, asked, kind, Effect::kNone, gives));
}

}  // namespace rlreplay::replay
