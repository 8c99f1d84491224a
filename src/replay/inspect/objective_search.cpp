#include "src/replay/inspect/objective_search.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "src/base/words.h"
#include "src/replay/inspect/objective_not_finite.h"
#include "src/replay/inspect/objective_variants.h"
#include "src/replay/inspect/shared_variants.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

// All pairs of variants are tried up to this many tokens of a rollout: their number is squared.
constexpr size_t kPairTokens = 200000;
constexpr size_t kMostRivals = 8;
constexpr size_t kMostHelpful = 64;  // pairs, and triples, of the variants that help

using Variants = std::vector<ObjectiveVariant>;

bool is_share(const std::string& name) { return name.ends_with("clip_fraction"); }

/// The findings of `from` that a setting reproduces, where it breaks nothing that `from` did. A
/// setting may have fewer quantities: Miles takes a reverse KL as it is.
std::vector<std::string> mended(const std::vector<Quantity>& from,
                                const std::vector<Quantity>& now) {
  std::vector<std::string> out;
  for (const Quantity& q : from) {
    const auto other = std::ranges::find(now, q.name, &Quantity::name);
    if (other == now.end()) continue;
    if (q.is_reproduced() && !other->is_reproduced()) return {};
    if (q.is_finding() && !is_lone_share(from, q) && other->is_reproduced()) out.push_back(q.name);
  }
  return out;
}

/// What the given options cannot compute of the recorded numbers, and a setting computes otherwise.
std::vector<std::string> contradicted(const std::vector<Quantity>& from,
                                      const std::vector<Quantity>& now) {
  std::vector<std::string> out;
  for (const Quantity& q : now) {
    const auto before = std::ranges::find(from, q.name, &Quantity::name);
    const bool unknown =
        before != from.end() && before->verdict == Verdict::kNoInput && !before->refused;
    if (unknown && q.verdict == Verdict::kDifferent) out.push_back(q.name);
  }
  return out;
}

/// Whether a setting that reproduces the total loss leaves a part of it different: what is recorded
/// of the rest of the sum then contradicts what the setting gives. A part that the setting takes
/// out of the sum, by a coefficient of 0, is one.
bool leaves_part_of_loss(const std::vector<Quantity>& now, const RunOptions& given,
                         const RunOptions& options) {
  const auto differs = [&](const char* name) {
    const auto at = std::ranges::find(now, name, &Quantity::name);
    return at != now.end() && at->is_finding();
  };
  const auto has_kl = [](const RunOptions& o) { return o.use_kl_loss && o.kl_loss_coef != 0; };
  return differs("pg_loss") || ((has_kl(given) || has_kl(options)) && differs("kl")) ||
         ((given.entropy_coef != 0 || options.entropy_coef != 0) && differs("entropy"));
}

/// Why a run may have gone a variant's way, of the quantities that it reproduces.
std::string reason_of(const ObjectiveVariant& variant, const std::vector<std::string>& found) {
  std::vector<std::string> out;
  for (const std::string& name : found) {
    const auto at = variant.reasons.find(name);
    const std::string& reason = at == variant.reasons.end() ? variant.reason : at->second;
    if (!reason.empty() && std::ranges::find(out, reason) == out.end()) out.push_back(reason);
  }
  return joined(out, "; ");
}

/// Settings that reproduce findings of one step.
class Search {
 public:
  Search(const std::vector<Quantity>& from, const ObjectiveSetting& setting,
         const ObjectiveCompute& compute)
      : from_(from), setting_(setting), compute_(compute) {
    for (const Quantity& q : from) {
      if (q.is_finding() && !is_lone_share(from, q)) findings_.push_back(q.name);
    }
  }

  /// Searches a setting that reproduces all findings: one variant away, or two, or three that each
  /// help; else the one that reproduces most of them, one or two away. Without `all_pairs` only
  /// those pairs are tried whose variants each help alone. `untried` is set where it found none of
  /// all findings and left some out.
  std::optional<Explanation> run(const Variants& variants, bool all_pairs, Untried& untried) {
    if (findings_.empty()) return std::nullopt;
    for (const ObjectiveVariant& one : variants) {
      if (attempt({&one}) && best_->rivals.size() == kMostRivals) return std::move(best_);
    }
    if (is_complete()) return std::move(best_);
    std::vector<const ObjectiveVariant*> paired;
    for (const ObjectiveVariant& one : variants) {
      if (all_pairs || helpful_.contains(&one)) paired.push_back(&one);
    }
    const bool some = try_pairs(paired, all_pairs ? SIZE_MAX : kMostHelpful);
    if (is_complete()) return std::move(best_);
    const bool all = try_triples();
    if (!is_complete()) {
      untried.pairs |= !some || paired.size() < variants.size();
      untried.triples |= !all;
    }
    return std::move(best_);
  }

 private:
  /// Tries two variants at a time until two reproduce all findings; false where there are more than
  /// `most` such pairs.
  bool try_pairs(const std::vector<const ObjectiveVariant*>& of, size_t most) {
    size_t tried = 0;
    for (size_t i = 0; i < of.size(); ++i) {
      for (size_t k = i + 1; k < of.size(); ++k) {
        if (tried++ == most) return false;
        if (attempt({of[i], of[k]})) return true;
      }
    }
    return true;
  }

  /// Tries three variants at a time of those that help (see note()), until three reproduce all
  /// findings; false where there are more than `kMostHelpful` such threes.
  bool try_triples() {
    const std::vector<const ObjectiveVariant*> of(helpful_.begin(), helpful_.end());
    size_t tried = 0;
    for (size_t i = 0; i < of.size(); ++i) {
      for (size_t k = i + 1; k < of.size(); ++k) {
        for (size_t l = k + 1; l < of.size(); ++l) {
          if (tried++ == kMostHelpful) return false;
          if (attempt({of[i], of[k], of[l]})) return true;
        }
      }
    }
    return true;
  }

  /// Notes which variants help: one that alone reproduces a finding, and both of a pair that
  /// reproduces a finding which neither reproduces alone.
  void note(std::span<const ObjectiveVariant* const> changed,
            const std::vector<std::string>& found) {
    if (changed.size() == 1) alone_[changed[0]].insert(found.begin(), found.end());
    const bool gained = std::ranges::any_of(found, [&](const std::string& name) {
      return changed.size() == 1 || std::ranges::none_of(changed, [&](const auto* variant) {
               return alone_[variant].contains(name);
             });
    });
    if (gained) helpful_.insert(changed.begin(), changed.end());
  }

  bool is_complete() const { return best_ && best_->left.empty(); }

  /// Whether one of the quantities has a finite recorded number, or was refused by the options.
  /// NaNs alone, when they are reproduced, say nothing: one equals any other.
  bool has_finite(const std::vector<std::string>& found) const {
    return std::ranges::any_of(found, [&](const std::string& name) {
      const auto q = std::ranges::find(from_, name, &Quantity::name);
      return q->refused || q->not_finite < q->compared;
    });
  }

  /// Whether the record says where such a NaN is from, and no other variant has one of its own.
  bool says_nan(std::span<const ObjectiveVariant* const> changed,
                const std::vector<std::string>& found) {
    const auto has_own = [&](const ObjectiveVariant* variant) {
      return !variant->says_nan && std::ranges::any_of(found, [&](const std::string& name) {
        return alone_[variant].contains(name);
      });
    };
    return std::ranges::any_of(changed, &ObjectiveVariant::says_nan) &&
           std::ranges::none_of(changed, has_own);
  }

  bool explains_nothing(const std::vector<std::string>& found) const {
    return found.empty() ||
           (found.size() < findings_.size() && std::ranges::all_of(found, is_share));
  }

  /// Whether all findings are reproduced.
  bool attempt(std::initializer_list<const ObjectiveVariant*> changed) {
    std::vector<ObjectiveVariant> taken;
    for (const ObjectiveVariant* variant : changed) taken.push_back(*variant);
    const auto apply = [taken](ObjectiveSetting& s) {
      for (const ObjectiveVariant& variant : taken) variant.apply(s);
    };
    ObjectiveSetting other = setting_;
    apply(other);
    const std::vector<Quantity> now = compute_(other);
    std::vector<std::string> found = mended(from_, now);
    if (leaves_part_of_loss(now, setting_.options, other.options)) std::erase(found, "loss");
    if (changed.size() < 3) note(changed, found);
    if (!has_finite(found) && !says_nan(changed, found)) found.clear();
    if (changed.size() == 3 && found.size() < findings_.size()) return false;
    const std::vector<std::string> against = contradicted(from_, now);
    const bool whole = found.size() == findings_.size() && against.empty();
    if (explains_nothing(found) ||
        (best_ && !is_complete() && !whole && found.size() <= best_->quantities.size())) {
      return false;
    }
    if (is_complete() && !whole) return false;
    Explanation made;
    made.quantities = found;
    made.apply = apply;
    std::ranges::copy_if(findings_, std::back_inserter(made.left), [&](const std::string& name) {
      return std::ranges::find(found, name) == found.end();
    });
    std::ranges::copy(against, std::back_inserter(made.left));
    for (const Quantity& q : from_) made.judged.push_back(q.name);
    for (const ObjectiveVariant& variant : taken) {
      made.settings.push_back(variant.name);
      made.reasons.push_back(reason_of(variant, found));
      std::ranges::copy(variant.parts, std::back_inserter(made.parts));
    }
    if (is_complete()) {
      best_->rivals.push_back(std::move(made));
    } else {
      best_ = std::move(made);
    }
    return whole;
  }

  const std::vector<Quantity>& from_;
  const ObjectiveSetting& setting_;
  const ObjectiveCompute& compute_;
  std::vector<std::string> findings_;
  std::optional<Explanation> best_;
  std::map<const ObjectiveVariant*, std::set<std::string>> alone_;  // what each reproduces
  std::set<const ObjectiveVariant*> helpful_;
};

/// What the dump itself says comes first.
Variants with_recorded(const ObjectiveOptions& options, const Variants& others) {
  Variants out;
  if (options.recorded) out = recorded_variants(options.setting, *options.recorded);
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

/// Adds the size of the recorded groups where the options have groups of one sample, in which slime
/// divides by no deviation.
void add_group_size(const ObjectiveSetting& from, const RecordedRollout& rollout,
                    Variants& variants) {
  if (!is_slime(from) || from.options.n_samples_per_prompt != 1 || !rollout.has_groups()) return;
  std::map<uint64_t, std::set<std::pair<bool, uint64_t>>> groups;
  for (const Sample& s : rollout.samples) {
    // Trajectories of several samples slime groups by their places.
    if (!groups[s.group].insert(trajectory_of(s)).second) return;
  }
  if (groups.empty()) return;
  const size_t size = groups.begin()->second.size();
  const bool alike =
      std::ranges::all_of(groups, [=](const auto& group) { return group.second.size() == size; });
  if (!alike || size == 1) return;
  const auto samples = static_cast<int64_t>(size);
  std::string name = "--n-samples-per-prompt " + std::to_string(size);
  // Groups of one are as many as samples: who gave their number gave another one.
  const bool counted = from.options.rollout_batch_size == std::ssize(rollout.samples);
  const auto prompts = static_cast<int64_t>(groups.size());
  if (counted) name += " with --rollout-batch-size " + std::to_string(prompts);
  variants.insert(
      variants.begin(),
      {name,
       "the recorded groups are of so many; of groups of one slime divides by no deviation",
       [=](ObjectiveSetting& s) {
         s.options.n_samples_per_prompt = samples;
         if (counted) s.options.rollout_batch_size = prompts;
       },
       {"--dialect miles"}});
}

/// What explains other numbers of the step, where it is not among the variants.
void add_explained(const std::vector<Explanation>& explained, Variants& variants) {
  const auto add = [&](const Explanation& e) {
    const std::string name = joined_settings(e.settings);
    const bool known = std::ranges::count(variants, name, &ObjectiveVariant::name) > 0;
    if (known) return;
    std::vector<std::string> parts = e.parts;
    if (e.settings.size() > 1) parts.insert(parts.end(), e.settings.begin(), e.settings.end());
    variants.push_back({name, e.reasons.empty() ? "" : e.reasons.front(), e.apply, parts});
  };
  for (const Explanation& e : explained) {
    add(e);
    std::ranges::for_each(e.rivals, add);
  }
}

/// An explanation that names an estimator, with each other one that gives the same numbers.
std::vector<Explanation> with_same_estimators(const Explanation& e, const ObjectiveSetting& from) {
  ObjectiveSetting setting = from;
  e.apply(setting);
  const RunOptions& options = setting.options;
  const auto at = std::ranges::find(e.settings, kEstimatorSetting + options.advantage_estimator);
  if (at == e.settings.end()) return {};
  std::vector<Explanation> out;
  for (const std::string& name :
       e.of_losses ? same_policy_loss(options) : same_advantages(options)) {
    if (name == from.options.advantage_estimator) continue;
    Explanation& other = out.emplace_back(e);
    other.rivals.clear();
    other.settings[static_cast<size_t>(at - e.settings.begin())] = kEstimatorSetting + name;
    other.apply = [apply = e.apply, name](ObjectiveSetting& s) {
      apply(s);
      s.options.advantage_estimator = name;
    };
  }
  return out;
}

void add_same_estimators(const ObjectiveSetting& from, Explanation& found) {
  std::vector<Explanation> same = with_same_estimators(found, from);
  for (const Explanation& rival : found.rivals) {
    std::ranges::move(with_same_estimators(rival, from), std::back_inserter(same));
  }
  std::ranges::move(same, std::back_inserter(found.rivals));
}

bool tries_pairs(const RecordedRollout& rollout) {
  size_t tokens = 0;
  for (const RecordedStep& step : rollout.steps) {
    for (const Sample& s : step.samples) tokens += s.loss_mask.size();
  }
  return tokens <= kPairTokens;
}

}  // namespace

std::vector<Explanation> explain_advantages(const std::vector<Quantity>& from,
                                            const ObjectiveOptions& options,
                                            const RecordedRollout& rollout,
                                            const ObjectiveCompute& compute, Untried& untried) {
  Variants variants =
      with_recorded(options, advantage_variants(options.setting, rollout.samples.size(),
                                                first_masked_not_finite(rollout, options.setting)));
  add_group_size(options.setting, rollout, variants);
  const bool pairs = tries_pairs(rollout);
  Untried of_both;
  auto joint = Search(from, options.setting, compute).run(variants, pairs, of_both);
  if (joint) add_same_estimators(options.setting, *joint);
  if (joint && joint->left.empty()) return {*joint};
  const auto explain_part = [&](bool rewards) {
    const auto part_of = [=](std::vector<Quantity> all) {
      std::erase_if(all, [=](const Quantity& q) { return (q.name == "rewards") != rewards; });
      return all;
    };
    const std::vector<Quantity> part = part_of(from);
    const ObjectiveCompute of_part = [&](const ObjectiveSetting& other) {
      return part_of(compute(other));
    };
    return Search(part, options.setting, of_part).run(variants, pairs, untried);
  };
  std::vector<Explanation> out;
  size_t explained = 0;
  const auto take = [&](std::optional<Explanation> found, const char* reason) {
    if (!found) return;
    explained += found->quantities.size();
    add_same_estimators(options.setting, *found);
    found->reasons.emplace_back(reason);
    for (Explanation& rival : found->rivals) rival.reasons.emplace_back(reason);
    out.push_back(std::move(*found));
  };
  take(explain_part(true), "the rewards alone: what follows from them has other options");
  take(explain_part(false), "all but the rewards: these are shaped with other options");
  if (joint && joint->quantities.size() >= explained) return {*joint};
  return out;
}

std::vector<Explanation> explain_losses(const std::vector<Quantity>& from,
                                        const ObjectiveOptions& options,
                                        const RecordedRollout& rollout,
                                        const std::vector<Explanation>& of_advantages,
                                        const ObjectiveCompute& compute, Untried& untried) {
  Variants variants = with_recorded(
      options, loss_variants(options.setting, first_masked_not_finite(rollout, options.setting)));
  add_explained(of_advantages, variants);
  auto found = Search(from, options.setting, compute).run(variants, tries_pairs(rollout), untried);
  if (!found) return {};
  found->of_losses = true;
  for (Explanation& rival : found->rivals) rival.of_losses = true;
  add_same_estimators(options.setting, *found);
  return {std::move(*found)};
}

bool is_lone_share(const std::vector<Quantity>& of_step, const Quantity& q) {
  if (!is_share(q.name)) return false;
  const bool of_policy = q.name == "clip_fraction";
  return std::ranges::none_of(of_step, [&](const Quantity& other) {
    const bool loss =
        of_policy ? other.name == "pg_loss" || other.name == "loss" || other.name == "policy_loss"
                  : other.name == "value_loss";
    return loss && other.compared > 0;
  });
}

}  // namespace rlreplay::replay
