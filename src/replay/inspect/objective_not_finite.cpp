#include "src/replay/inspect/objective_not_finite.h"

#include <algorithm>
#include <cmath>

#include "src/base/text_table.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

/// A column, and whether a step reads it, under options.
struct ReadColumn {
  const char* name;
  TokenColumn RecordedStep::*column;
  bool (*is_read)(const RunOptions& options);
  bool is_compared = false;  // a number of the objective itself
};

bool is_miles(const RunOptions& o) { return dialect(o) == engine::Dialect::kMiles; }
bool reads_always(const RunOptions&) { return true; }
bool reads_rollout(const RunOptions& o) { return o.use_tis || o.use_rollout_logprobs; }
bool reads_old(const RunOptions& o) { return !o.use_rollout_logprobs; }
bool reads_teacher(const RunOptions& o) { return o.use_opd; }
bool reads_values(const RunOptions& o) { return o.advantage_estimator == "ppo"; }
bool reads_kl(const RunOptions& o) { return advantage_config(o).reads_kl(); }
bool reads_entropy(const RunOptions& o) { return !is_miles(o) || o.entropy_coef != 0; }

/// The columns of a step in the order in which it computes them, each with when it is read.
constexpr ReadColumn kReadColumns[] = {
    {"rollout_log_probs", &RecordedStep::rollout_log_probs, reads_rollout},
    {"old_log_probs", &RecordedStep::old_log_probs, reads_old},
    {"ref_log_probs", &RecordedStep::ref_log_probs, needs_reference},
    {"teacher_log_probs", &RecordedStep::teacher_log_probs, reads_teacher},
    {"values", &RecordedStep::values, reads_values},
    {"kl", &RecordedStep::kl, reads_kl, true},
    {"reverse_kl", &RecordedStep::reverse_kl, reads_teacher, true},
    {"returns", &RecordedStep::returns, reads_always, true},
    {"advantages", &RecordedStep::advantages, reads_always, true},
    {"log_probs", &RecordedStep::log_probs, reads_always},
    {"entropy", &RecordedStep::entropy, reads_entropy},
    {"policy_kl", &RecordedStep::policy_kl, reads_always, true},
    {"policy_loss", &RecordedStep::policy_loss, reads_always, true}};

// The largest x of which exp(x) is a binary32.
constexpr double kLargestExponent = 88.72283;

bool says_not_finite(const Quantity& q) {
  return q.not_a_number > 0 || (q.recorded && !std::isfinite(*q.recorded));
}

std::string not_finite_text(double x) { return std::isnan(x) ? "NaN" : x < 0 ? "-inf" : "inf"; }

bool is_masked(const Sample& s, size_t t) { return s.is_masked(static_cast<int64_t>(t)); }

std::string place_text(const RecordedStep& step, size_t i, size_t t) {
  const Sample& s = step.samples[i];
  return " of sample " + std::to_string(s.id) + ", token " +
         std::to_string(s.prompt_length + static_cast<int64_t>(t)) +
         (is_masked(s, t) ? ", whose loss mask is 0 (0 times it is NaN)" : "");
}

/// The first token of a column of which `test` is true.
template <class Test>
std::string find_token(const RecordedStep& step, const TokenColumn& column, const Test& test) {
  for (size_t i = 0; column && i < step.samples.size(); ++i) {
    for (size_t t = 0; t < (*column)[i].size(); ++t) {
      if (test(i, t)) return place_text(step, i, t);
    }
  }
  return {};
}

/// The first value of a column that is not finite, at a token of which `takes` is true.
template <class Takes>
std::string find_not_finite(const RecordedStep& step, const ReadColumn& named, const Takes& takes) {
  const TokenColumn& column = step.*named.column;
  double found = 0;
  const std::string at = find_token(step, column, [&](size_t i, size_t t) {
    found = (*column)[i][t];
    return !std::isfinite(found) && takes(step.samples[i], t);
  });
  return at.empty() ? at : std::string(named.name) + at + " (" + not_finite_text(found) + ")";
}

/// Where the first ratio is that binary32 cannot hold; empty without one.
std::string large_ratio(const RecordedStep& step) {
  const TokenColumn &now = step.log_probs, &old = step.old_log_probs;
  if (!now || !old) return {};
  const std::string at = find_token(step, now, [&](size_t i, size_t t) {
    return t < (*old)[i].size() && (*now)[i][t] - (*old)[i][t] > kLargestExponent;
  });
  return at.empty() ? at : "the ratio exp(log_probs - old_log_probs)" + at + ", beyond binary32";
}

/// Whether a masked token of a column that is read reaches a sum: Miles takes most as 0 before.
bool masked_counts(const ReadColumn& named, const RunOptions& o) {
  const bool sums =
      named.is_compared || o.use_tis || o.kl_coef != 0 || objective_config(o).reads_sequence();
  return !is_miles(o) || sums;
}

/// Where the first number is not finite in columns that are read, else in those that are compared.
std::string first_of_columns(const RecordedStep& step, const RunOptions& options) {
  for (const bool read : {true, false}) {
    for (const ReadColumn& named : kReadColumns) {
      if (read ? !named.is_read(options) : !named.is_compared) continue;
      const bool masked = masked_counts(named, options);
      const std::string found = find_not_finite(
          step, named, [&](const Sample& s, size_t t) { return masked || !is_masked(s, t); });
      if (!found.empty()) return found;
    }
  }
  return {};
}

}  // namespace

std::string first_not_finite(const RecordedStep& step, std::span<const Quantity> quantities,
                             const ObjectiveSetting& setting) {
  if (std::ranges::none_of(quantities, says_not_finite)) return {};
  for (size_t i = 0; step.shaped && i < step.samples.size(); ++i) {
    const double reward = (*step.shaped)[i];
    if (std::isfinite(reward)) continue;
    return "the reward of sample " + std::to_string(step.samples[i].id) + " (" +
           not_finite_text(reward) + ")";
  }
  const std::string found = first_of_columns(step, setting.options);
  if (!found.empty()) return found;
  if (const std::string ratio = large_ratio(step); !ratio.empty()) return ratio;
  const auto trained = [](const Sample& s) { return std::ranges::count(s.loss_mask, 1) > 0; };
  if (std::ranges::none_of(step.samples, trained)) {
    return "the mean over tokens: none of the step has loss mask 1, which is 0 / 0";
  }
  return "behind what is recorded: every value that the losses are computed from is finite";
}

std::string first_masked_not_finite(const RecordedRollout& rollout,
                                    const ObjectiveSetting& setting) {
  for (const bool read : {true, false}) {
    for (const RecordedStep& step : rollout.steps) {
      for (const ReadColumn& named : kReadColumns) {
        if (named.is_compared || named.is_read(setting.options) != read) continue;
        const std::string found = find_not_finite(step, named, is_masked);
        if (!found.empty()) return found;
      }
    }
  }
  return {};
}

}  // namespace rlreplay::replay
