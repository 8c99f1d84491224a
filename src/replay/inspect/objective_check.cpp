#include "src/replay/inspect/objective_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "src/base/error.h"
#include "src/base/same_value.h"
#include "src/replay/inspect/objective_choice.h"
#include "src/replay/inspect/objective_not_finite.h"
#include "src/replay/inspect/objective_pairs.h"
#include "src/replay/inspect/objective_parts.h"
#include "src/replay/inspect/objective_search.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

Quantity absent(std::string name, Verdict verdict, const std::string& missing = {}) {
  Quantity out;
  out.name = std::move(name);
  out.verdict = verdict;
  out.missing = missing;
  return out;
}

/// A column that is its own input.
Quantity taken(const Quantity& column) {
  Quantity out;
  out.name = column.name;
  out.verdict = Verdict::kEqual;
  out.compared = column.compared;
  out.not_a_number = column.not_a_number;
  out.not_finite = column.not_finite;
  out.not_computed = column.not_computed;
  return out;
}

int64_t unmasked(const RecordedStep& step) {
  int64_t out = 0;
  for (const Sample& s : step.samples) out += std::ranges::count(s.loss_mask, uint8_t{1});
  return out;
}

/// Whether a column was stored in binary64, which it is where binary32 does not hold it.
bool is_wide(const std::vector<std::vector<double>>& column) {
  return std::ranges::any_of(column, [](const std::vector<double>& sample) {
    return std::ranges::any_of(sample, [](double x) { return !same_value(x, rounded(x)); });
  });
}

/// Recorded numbers of a step against computed ones. Columns of tokens are compared in binary32,
/// unless the record holds a number that only binary64 has.
struct Check {
  const RecordedStep& step;
  double tolerance;

  /// `computed` begins with the step's first sample at `first`.
  Quantity column(std::string name, const TokenColumn& recorded, const TokenColumn& computed,
                  size_t first, const std::string& missing) const {
    if (!recorded) return absent(std::move(name), Verdict::kNotRecorded);
    if (!computed) return absent(std::move(name), Verdict::kNoInput, missing);
    Pairs pairs(name, tolerance);
    const bool wide = is_wide(*recorded);
    for (size_t i = 0; i < step.samples.size(); ++i) {
      const std::vector<double>&a = (*recorded)[i], &b = (*computed)[first + i];
      if (a.size() != b.size() && !a.empty() && !b.empty()) {
        throw Error(ErrorCode::kCorrupt, name + ": sample " + std::to_string(step.samples[i].id) +
                                             " has " + std::to_string(a.size()) +
                                             " values, its objective " + std::to_string(b.size()));
      }
      if (b.empty()) pairs.leave_out(std::ssize(a));
      for (size_t t = 0; t < std::min(a.size(), b.size()); ++t) {
        pairs.add(a[t], wide ? b[t] : rounded(b[t]), step.samples[i].id,
                  step.samples[i].prompt_length + static_cast<int64_t>(t));
      }
    }
    Quantity out = pairs.done();
    if (out.verdict == Verdict::kNoInput) out.missing = missing;
    return out;
  }

  Quantity rewards(const AdvantageValues& values, size_t first) const {
    if (!step.shaped) return absent("rewards", Verdict::kNotRecorded);
    if (!values.shaped) {
      Quantity out = absent("rewards", Verdict::kNoInput, values.missing_rewards);
      out.refused = values.refuses_rewards;
      return out;
    }
    Pairs pairs("rewards", tolerance);
    for (size_t i = 0; i < step.samples.size(); ++i) {
      pairs.add((*step.shaped)[i], (*values.shaped)[first + i], step.samples[i].id, std::nullopt);
    }
    return pairs.done();
  }

  Quantity scalar(const char* name, std::optional<double> computed,
                  const std::string& missing) const {
    const std::optional<double> recorded = step.scalar(name);
    const std::string by_rank = numbers_by_rank(step.scalars, name);
    Quantity out;
    if (!by_rank.empty()) {
      out = absent(name, Verdict::kNoInput,
                   "ranks recorded other numbers, none the step's: " + by_rank);
    } else if (recorded && computed) {
      Pairs pairs(name, tolerance);
      pairs.add(*recorded, *computed, 0, std::nullopt);
      out = pairs.done();
      out.sample.reset();
    } else {
      out = absent(name, recorded ? Verdict::kNoInput : Verdict::kNotRecorded,
                   computed ? "" : missing);
    }
    out.scalar = true;
    out.recorded = recorded;
    out.computed = computed;
    return out;
  }
};

std::vector<Quantity> advantage_quantities(const RecordedStep& step, const AdvantageValues& values,
                                           size_t first, double tolerance) {
  const Check check{step, tolerance};
  std::vector<Quantity> out = {
      check.rewards(values, first),
      check.column("reward_kl", step.kl, values.kl, first, values.missing),
      check.column("returns", step.returns, values.returns, first, values.missing)};
  if (step.reverse_kl && values.reverse_kl) {
    out.push_back(check.column("reverse_kl", step.reverse_kl, values.reverse_kl, first, {}));
  }
  Quantity advantages =
      check.column("advantages", step.advantages, values.advantages, first, values.missing);
  if (advantages.verdict == Verdict::kDifferent && values.own_advantages) {
    Quantity own = check.column("advantages", step.advantages, values.own_advantages, first, {});
    if (own.different < advantages.different) advantages = std::move(own);
  }
  out.push_back(std::move(advantages));
  return out;
}

/// A share that lies between those with none and with all of the tokens at the clip's bounds is the
/// rounding's, which decides them.
void judge_border(const ClipBorder& border, double tolerance, Quantity& share) {
  if (share.verdict != Verdict::kDifferent || border.tokens == 0 || tolerance == 0) return;
  if (*share.recorded < border.none - tolerance || *share.recorded > border.all + tolerance) return;
  share.verdict = Verdict::kRounding;
  share.different = 0;
  share.on_border = border.tokens;
}

std::vector<Quantity> loss_quantities(const RecordedStep& step, const LossValues& values,
                                      double tolerance) {
  const Check check{step, tolerance};
  std::vector<Quantity> out = {
      check.column("policy_kl", step.policy_kl, values.policy_kl, 0, values.missing),
      check.column("policy_loss", step.policy_loss, values.policy_loss, 0, values.missing)};
  const auto scalar = [&](const char* name, double engine::Losses::*of, bool known = true) {
    const auto computed =
        values.losses && known ? std::optional(*values.losses.*of) : std::optional<double>();
    out.push_back(check.scalar(name, computed,
                               known ? values.missing : "the entropy of tokens is not recorded"));
  };
  scalar("pg_loss", &engine::Losses::policy);
  scalar("kl", &engine::Losses::kl);
  scalar("entropy", &engine::Losses::entropy, values.has_entropy);
  scalar("loss", &engine::Losses::total, values.has_total);
  scalar("clip_fraction", &engine::Losses::clip_fraction);
  judge_border(values.clip_border, tolerance, out.back());
  if (step.scalar("value_loss") || values.value_loss) {
    const std::string missing =
        "the critic's values of this step, or the returns, are not recorded";
    out.push_back(check.scalar("value_loss", values.value_loss, missing));
    out.push_back(check.scalar("value_clip_fraction", values.value_clip_fraction, missing));
    judge_border(values.value_clip_border, tolerance, out.back());
  }
  return out;
}

/// The column of `count` samples from `first` on, rounded to binary32 as a trainer keeps it.
TokenColumn part(const TokenColumn& column, size_t first, size_t count) {
  if (!column) return std::nullopt;
  const auto begin = column->begin() + static_cast<ptrdiff_t>(first);
  TokenColumn out(std::in_place, begin, begin + static_cast<ptrdiff_t>(count));
  for (std::vector<double>& sample : *out) std::ranges::transform(sample, sample.begin(), rounded);
  return out;
}

/// The quantities of a rollout's steps under a setting.
class StepQuantities {
 public:
  StepQuantities(const RecordedRollout& rollout, const ObjectiveOptions& options)
      : rollout_(rollout), options_(options), values_(replay_advantages(rollout, options.setting)) {
    for (const RecordedStep& step : rollout.steps) {
      first_.push_back(first_.empty() ? 0 : first_.back() + last_size_);
      last_size_ = step.samples.size();
    }
  }

  /// A recorded reverse KL that is not the recorded teacher's is false where the advantages are of
  /// the teacher's. Miles takes one that its rollout computed as it is: there the advantages have
  /// to say which it was.
  std::vector<Quantity> advantages(size_t i, const ObjectiveSetting& setting) const {
    const AdvantageValues values = replay_advantages(rollout_, setting);
    std::vector<Quantity> out = quantities_of(i, values);
    const std::vector<size_t> joined = charged_together(i, setting, values);
    if (joined.empty()) return out;
    ObjectiveSetting of_teacher = setting;
    of_teacher.own_reverse_kl = true;
    const AdvantageValues other = replay_advantages(rollout_, of_teacher);
    const int64_t as_recorded = differing(joined, values), as_computed = differing(joined, other);
    if (as_computed < as_recorded) return quantities_of(i, other);
    const auto reverse = std::ranges::find(out, "reverse_kl", &Quantity::name);
    if (dialect(setting.options) == engine::Dialect::kSlime || reverse == out.end() ||
        reverse->verdict != Verdict::kDifferent) {
      return out;
    }
    if (as_recorded < as_computed) {
      *reverse = taken(*reverse);
    } else {
      *reverse = absent("reverse_kl", Verdict::kNoInput,
                        "it is not the recorded teacher's; Miles takes one that its rollout "
                        "computed as it is, and no advantage says whether it did");
    }
    return out;
  }

  LossValues loss_values(size_t i, const ObjectiveSetting& setting) const {
    const RecordedStep& step = rollout_.steps[i];
    const size_t count = step.samples.size();
    const ComputedColumns computed{part(values_.advantages, first_[i], count),
                                   part(values_.returns, first_[i], count)};
    return replay_losses(rollout_, step, computed, setting);
  }

  std::vector<Quantity> losses(size_t i, const ObjectiveSetting& setting) const {
    return loss_quantities(rollout_.steps[i], loss_values(i, setting), options_.tolerance);
  }

 private:
  std::vector<Quantity> quantities_of(size_t i, const AdvantageValues& values) const {
    return advantage_quantities(rollout_.steps[i], values, first_[i], options_.tolerance);
  }

  /// The steps whose advantages a false reverse KL of one changes, `i` among them: all of the
  /// rollout where they are whitened together. None where no reverse KL of them is another than the
  /// recorded teacher's.
  std::vector<size_t> charged_together(size_t i, const ObjectiveSetting& setting,
                                       const AdvantageValues& values) const {
    std::vector<size_t> out = {i};
    if (setting.options.normalize_advantages && setting.whitening != Whitening::kStep) {
      out.resize(rollout_.steps.size());
      std::iota(out.begin(), out.end(), size_t{0});
    }
    const bool is_false =
        values.reverse_kl && std::ranges::any_of(out, [&](size_t k) {
          const RecordedStep& step = rollout_.steps[k];
          return Check{step, options_.tolerance}
                     .column("reverse_kl", step.reverse_kl, values.reverse_kl, first_[k], {})
                     .verdict == Verdict::kDifferent;
        });
    if (!is_false) out.clear();
    return out;
  }

  /// How many numbers of the columns that follow from a reverse KL differ in these steps.
  int64_t differing(const std::vector<size_t>& steps, const AdvantageValues& values) const {
    int64_t out = 0;
    for (const size_t k : steps) {
      for (const Quantity& q : quantities_of(k, values)) {
        if (q.name == "returns" || q.name == "advantages") out += q.different;
      }
    }
    return out;
  }

  const RecordedRollout& rollout_;
  const ObjectiveOptions& options_;
  AdvantageValues values_;     // under the given setting
  std::vector<size_t> first_;  // of each step, its first sample's place in the rollout
  size_t last_size_ = 0;
};

int64_t without_policy_loss(const RecordedStep& step) {
  int64_t out = 0;
  for (size_t i = 0; i < step.samples.size(); ++i) {
    const bool there = step.policy_loss && !(*step.policy_loss)[i].empty();
    if (!there && step.samples[i].response_length() > 0) ++out;
  }
  return out;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kEqual:
      return "equal";
    case Verdict::kRounding:
      return "rounding";
    case Verdict::kDifferent:
      return "different";
    case Verdict::kNotRecorded:
      return "not recorded";
    case Verdict::kNoInput:
      return "not computable";
  }
  return "?";
}

bool ObjectiveStep::reproduced() const {
  return std::ranges::find(quantities, Verdict::kDifferent, &Quantity::verdict) == quantities.end();
}
bool ObjectiveStep::compared() const {
  return std::ranges::any_of(quantities, [](const Quantity& q) { return q.compared > 0; });
}

std::vector<ObjectiveStep> check_objective(const RecordedRollout& rollout,
                                           const ObjectiveOptions& options) {
  const StepQuantities quantities(rollout, options);
  std::vector<ObjectiveStep> out;
  for (size_t i = 0; i < rollout.steps.size(); ++i) {
    const RecordedStep& step = rollout.steps[i];
    ObjectiveStep& made = out.emplace_back();
    made.id = step.id;
    made.samples = step.samples.size();
    made.tokens = unmasked(step);
    if (options.policy_loss_files) made.unplaced = without_policy_loss(step);
    const LossValues losses = quantities.loss_values(i, options.setting);
    made.policy_is_old = losses.policy_is_old && losses.losses;
    const auto before = quantities.advantages(i, options.setting);
    const auto after = loss_quantities(step, losses, options.tolerance);
    made.quantities = before;
    made.quantities.insert(made.quantities.end(), after.begin(), after.end());
    made.not_finite = first_not_finite(step, made.quantities, options.setting);
    if (!options.explain) continue;
    made.explanations = explain_advantages(
        before, options, rollout,
        [&](const auto& other) { return quantities.advantages(i, other); }, made.untried);
    std::vector<Explanation> of_losses = explain_losses(
        after, options, rollout, made.explanations,
        [&](const auto& other) { return quantities.losses(i, other); }, made.untried);
    const auto compete = [&](const Explanation& found) {
      ObjectiveSetting other = options.setting;
      found.apply(other);
      add_rival(found, before, quantities.advantages(i, other), made.explanations);
    };
    for (const Explanation& found : of_losses) {
      compete(found);
      std::ranges::for_each(found.rivals, compete);
    }
    std::ranges::move(of_losses, std::back_inserter(made.explanations));
  }
  return out;
}

void hold_explanations(const RecordedRollout& rollout, const ObjectiveOptions& options,
                       std::span<const ObjectiveStep> of_rollout, std::vector<ObjectiveStep>& all) {
  const StepQuantities quantities(rollout, options);
  for (const ObjectiveStep& step : of_rollout) {
    const auto place = std::ranges::find(rollout.steps, step.id, &RecordedStep::id);
    const auto i = static_cast<size_t>(place - rollout.steps.begin());
    std::map<std::vector<std::string>, std::vector<Quantity>> computed;
    for_each_explanation(all, [&](Explanation& explanation) {
      const auto [at, fresh] = computed.try_emplace(explanation.settings);
      if (fresh) {
        ObjectiveSetting setting = options.setting;
        explanation.apply(setting);
        at->second = quantities.advantages(i, setting);
        std::ranges::move(quantities.losses(i, setting), std::back_inserter(at->second));
      }
      count_evidence(step.quantities, at->second, explanation);
      if (holds(explanation, step.quantities, at->second)) return;
      explanation.fails_in.push_back(step.id.name());
    });
  }
}

}  // namespace rlreplay::replay
