#include "src/replay/inspect/objective_check.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/base/same_value.h"

namespace rlreplay::replay {
namespace {

// Two variants at a time are tried up to this many tokens of a rollout: their number is squared.
constexpr int64_t kPairTokens = 200000;

/// Takes pairs of one quantity.
class Pairs {
 public:
  Pairs(std::string name, double tolerance) : tolerance_(tolerance) { out_.name = std::move(name); }

  void add(double recorded, double computed, uint64_t sample, std::optional<int64_t> token) {
    ++out_.compared;
    if (std::isnan(recorded)) ++out_.not_a_number;
    if (same_value(recorded, computed)) return;
    ++out_.other_bits;
    const double apart = std::abs(recorded - computed);
    if (std::isfinite(apart)) out_.max_difference = std::max(out_.max_difference, apart);
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

  Quantity done() {
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

Quantity absent(std::string name, Verdict verdict, const std::string& missing = {}) {
  Quantity out;
  out.name = std::move(name);
  out.verdict = verdict;
  out.missing = missing;
  return out;
}

int64_t unmasked(const RecordedStep& step) {
  int64_t out = 0;
  for (const Sample& s : step.samples) out += std::ranges::count(s.loss_mask, uint8_t{1});
  return out;
}

struct Check {
  const RecordedStep& step;
  double tolerance;
  bool unmasked_only = false;

  /// `computed` begins with the step's first sample at `first`.
  Quantity column(std::string name, const TokenColumn& recorded, const TokenColumn& computed,
                  size_t first, const std::string& missing) const {
    if (!recorded) return absent(std::move(name), Verdict::kNotRecorded);
    if (!computed) return absent(std::move(name), Verdict::kNoInput, missing);
    Pairs pairs(name, tolerance);
    for (size_t i = 0; i < step.samples.size(); ++i) {
      const std::vector<double>&a = (*recorded)[i], &b = (*computed)[first + i];
      if (a.size() != b.size() && !a.empty() && !b.empty()) {
        throw Error(ErrorCode::kCorrupt, name + ": sample " + std::to_string(step.samples[i].id) +
                                             " has " + std::to_string(a.size()) +
                                             " values, its objective " + std::to_string(b.size()));
      }
      if (b.empty()) pairs.leave_out(std::ssize(a));
      for (size_t t = 0; t < std::min(a.size(), b.size()); ++t) {
        if (unmasked_only && step.samples[i].loss_mask[t] == 0) continue;
        pairs.add(a[t], b[t], step.samples[i].id,
                  step.samples[i].prompt_length + static_cast<int64_t>(t));
      }
    }
    Quantity out = pairs.done();
    if (out.verdict == Verdict::kNoInput) {
      out.missing = unmasked_only && unmasked(step) == 0 ? "every token is masked" : missing;
    }
    return out;
  }

  Quantity rewards(const AdvantageValues& values, size_t first) const {
    if (!step.shaped) return absent("rewards", Verdict::kNotRecorded);
    if (!values.shaped) return absent("rewards", Verdict::kNoInput, values.missing);
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
  out.push_back(
      check.column("advantages", step.advantages, values.advantages, first, values.missing));
  return out;
}

std::vector<Quantity> loss_quantities(const RecordedStep& step, const LossValues& values,
                                      double tolerance) {
  const Check check{step, tolerance, true};
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
  if (step.scalar("value_loss") || values.value_loss) {
    const std::string missing =
        "the critic's values of this step, or the returns, are not recorded";
    out.push_back(check.scalar("value_loss", values.value_loss, missing));
    out.push_back(check.scalar("value_clip_fraction", values.value_clip_fraction, missing));
  }
  return out;
}

bool is_finding(const Quantity& q) { return q.verdict == Verdict::kDifferent; }
bool is_reproduced(const Quantity& q) {
  return q.verdict == Verdict::kEqual || q.verdict == Verdict::kRounding;
}

using Compute = std::function<std::vector<Quantity>(const ObjectiveSetting&)>;

/// The findings of `from` that a setting reproduces, where it breaks nothing that `from` did. A
/// setting may have fewer quantities: Miles takes a reverse KL as it is.
std::vector<std::string> mended(const std::vector<Quantity>& from,
                                const std::vector<Quantity>& now) {
  std::vector<std::string> out;
  for (const Quantity& q : from) {
    const auto other = std::ranges::find(now, q.name, &Quantity::name);
    if (other == now.end()) continue;
    if (is_reproduced(q) && !is_reproduced(*other)) return {};
    if (is_finding(q) && is_reproduced(*other)) out.push_back(q.name);
  }
  return out;
}

/// The first setting, one variant or two away, that reproduces all findings; else the one that
/// reproduces most of them.
std::optional<Explanation> explain(const std::vector<Quantity>& from,
                                   const ObjectiveSetting& setting,
                                   const std::vector<ObjectiveVariant>& variants, bool pairs,
                                   const Compute& compute) {
  const auto findings = static_cast<size_t>(std::ranges::count_if(from, is_finding));
  if (findings == 0) return std::nullopt;
  std::optional<Explanation> best;
  const auto attempt = [&](std::initializer_list<const ObjectiveVariant*> changed) {
    ObjectiveSetting other = setting;
    for (const ObjectiveVariant* variant : changed) variant->apply(other);
    const auto found = mended(from, compute(other));
    if (found.size() <= (best ? best->quantities.size() : 0)) return false;
    best = Explanation{{}, {}, found};
    for (const ObjectiveVariant* variant : changed) {
      best->settings.push_back(variant->name);
      best->reasons.push_back(variant->reason);
    }
    return found.size() == findings;
  };
  for (const ObjectiveVariant& one : variants) {
    if (attempt({&one})) return best;
  }
  for (size_t i = 0; pairs && i < variants.size(); ++i) {
    for (size_t k = i + 1; k < variants.size(); ++k) {
      if (attempt({&variants[i], &variants[k]})) return best;
    }
  }
  return best;
}

/// From rewards to advantages: all together, or, where that explains more, the rewards and the rest
/// apart. The rest takes the rewards that were recorded, and these may be shaped in another way.
std::vector<Explanation> explain_advantages(const std::vector<Quantity>& from,
                                            const ObjectiveSetting& setting,
                                            const std::vector<ObjectiveVariant>& variants,
                                            bool pairs, const Compute& compute) {
  const auto joint = explain(from, setting, variants, pairs, compute);
  if (joint && std::ssize(joint->quantities) == std::ranges::count_if(from, is_finding)) {
    return {*joint};
  }
  const auto explain_part = [&](bool rewards) {
    const auto part_of = [=](std::vector<Quantity> all) {
      std::erase_if(all, [=](const Quantity& q) { return (q.name == "rewards") != rewards; });
      return all;
    };
    return explain(part_of(from), setting, variants, pairs,
                   [&](const ObjectiveSetting& other) { return part_of(compute(other)); });
  };
  std::vector<Explanation> out;
  size_t explained = 0;
  const auto take = [&](std::optional<Explanation> found, const char* reason) {
    if (!found) return;
    explained += found->quantities.size();
    found->reasons.emplace_back(reason);
    out.push_back(std::move(*found));
  };
  take(explain_part(true), "the rewards alone: what follows from them has other options");
  take(explain_part(false), "all but the rewards: these are shaped with other options");
  if (joint && joint->quantities.size() >= explained) return {*joint};
  return out;
}

TokenColumn part(const TokenColumn& column, size_t first, size_t count) {
  if (!column) return std::nullopt;
  const auto begin = column->begin() + static_cast<ptrdiff_t>(first);
  return TokenColumn(std::in_place, begin, begin + static_cast<ptrdiff_t>(count));
}

/// What the dump itself says comes first.
std::vector<ObjectiveVariant> with_recorded(const ObjectiveOptions& options,
                                            const std::vector<ObjectiveVariant>& others) {
  std::vector<ObjectiveVariant> out;
  if (options.recorded) out = recorded_variants(options.setting, *options.recorded);
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

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

bool ObjectiveStep::reproduced() const { return std::ranges::none_of(quantities, is_finding); }
bool ObjectiveStep::compared() const {
  return std::ranges::any_of(quantities, [](const Quantity& q) { return q.compared > 0; });
}

std::vector<ObjectiveStep> check_objective(const RecordedRollout& rollout,
                                           const ObjectiveOptions& options) {
  const AdvantageValues values = replay_advantages(rollout, options.setting);
  std::vector<ObjectiveStep> out;
  size_t first = 0, tokens = 0;
  for (const RecordedStep& step : rollout.steps) {
    for (const Sample& s : step.samples) tokens += s.loss_mask.size();
  }
  const bool pairs = static_cast<int64_t>(tokens) <= kPairTokens;
  for (const RecordedStep& step : rollout.steps) {
    ObjectiveStep& made = out.emplace_back();
    made.id = step.id;
    made.samples = step.samples.size();
    made.tokens = unmasked(step);
    if (options.policy_loss_files) made.unplaced = without_policy_loss(step);
    const auto of_advantages = [&](const ObjectiveSetting& setting) {
      return advantage_quantities(step, replay_advantages(rollout, setting), first,
                                  options.tolerance);
    };
    const ComputedColumns computed{part(values.advantages, first, made.samples),
                                   part(values.returns, first, made.samples)};
    const auto of_losses = [&](const ObjectiveSetting& setting) {
      return loss_quantities(step, replay_losses(rollout, step, computed, setting),
                             options.tolerance);
    };
    const LossValues losses = replay_losses(rollout, step, computed, options.setting);
    made.policy_is_old = losses.policy_is_old && losses.losses;
    const auto before = advantage_quantities(step, values, first, options.tolerance);
    const auto after = loss_quantities(step, losses, options.tolerance);
    if (options.explain) {
      const size_t known = rollout.samples.size();
      const auto variants = with_recorded(options, advantage_variants(options.setting, known));
      made.explanations =
          explain_advantages(before, options.setting, variants, pairs, of_advantages);
      if (auto found =
              explain(after, options.setting,
                      with_recorded(options, loss_variants(options.setting)), pairs, of_losses)) {
        made.explanations.push_back(std::move(*found));
      }
    }
    made.quantities = before;
    made.quantities.insert(made.quantities.end(), after.begin(), after.end());
    first += made.samples;
  }
  return out;
}

}  // namespace rlreplay::replay
