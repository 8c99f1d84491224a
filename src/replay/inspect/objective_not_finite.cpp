#include "src/replay/inspect/objective_not_finite.h"

#include <algorithm>
#include <cmath>

#include "src/base/text_table.h"

namespace rlreplay::replay {
namespace {

struct ComputedColumn {
  const char* name;
  TokenColumn RecordedStep::*column;
};

/// In the order in which a step computes them.
constexpr ComputedColumn kComputed[] = {{"rollout_log_probs", &RecordedStep::rollout_log_probs},
                                        {"old_log_probs", &RecordedStep::old_log_probs},
                                        {"ref_log_probs", &RecordedStep::ref_log_probs},
                                        {"teacher_log_probs", &RecordedStep::teacher_log_probs},
                                        {"values", &RecordedStep::values},
                                        {"kl", &RecordedStep::kl},
                                        {"reverse_kl", &RecordedStep::reverse_kl},
                                        {"returns", &RecordedStep::returns},
                                        {"advantages", &RecordedStep::advantages},
                                        {"log_probs", &RecordedStep::log_probs},
                                        {"entropy", &RecordedStep::entropy},
                                        {"policy_kl", &RecordedStep::policy_kl},
                                        {"policy_loss", &RecordedStep::policy_loss}};

// The largest x of which exp(x) is a binary32.
constexpr double kLargestExponent = 88.72283;

bool says_not_finite(const Quantity& q) {
  return q.not_a_number > 0 || (q.recorded && !std::isfinite(*q.recorded));
}

std::string not_finite_text(double x) { return std::isnan(x) ? "NaN" : x < 0 ? "-inf" : "inf"; }

std::string place_text(const RecordedStep& step, size_t i, size_t t) {
  const Sample& s = step.samples[i];
  const bool masked = t < s.loss_mask.size() && s.loss_mask[t] == 0;
  return " of sample " + std::to_string(s.id) + ", token " +
         std::to_string(s.prompt_length + static_cast<int64_t>(t)) +
         (masked ? ", whose loss mask is 0 (0 times it is NaN)" : "");
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

/// Of a ratio that binary32 cannot hold.
std::string large_ratio(const RecordedStep& step) {
  const TokenColumn &now = step.log_probs, &old = step.old_log_probs;
  if (!now || !old) return {};
  const std::string at = find_token(step, now, [&](size_t i, size_t t) {
    return t < (*old)[i].size() && (*now)[i][t] - (*old)[i][t] > kLargestExponent;
  });
  return at.empty() ? at : "the ratio exp(log_probs - old_log_probs)" + at + ", beyond binary32";
}

}  // namespace

std::string first_not_finite(const RecordedStep& step, std::span<const Quantity> quantities) {
  if (std::ranges::none_of(quantities, says_not_finite)) return {};
  for (size_t i = 0; step.shaped && i < step.samples.size(); ++i) {
    const double reward = (*step.shaped)[i];
    if (std::isfinite(reward)) continue;
    return "the reward of sample " + std::to_string(step.samples[i].id) + " (" +
           not_finite_text(reward) + ")";
  }
  for (const ComputedColumn& named : kComputed) {
    const TokenColumn& column = step.*named.column;
    double found = 0;
    const std::string at = find_token(step, column, [&](size_t i, size_t t) {
      found = (*column)[i][t];
      return !std::isfinite(found);
    });
    if (!at.empty()) return std::string(named.name) + at + " (" + not_finite_text(found) + ")";
  }
  if (const std::string ratio = large_ratio(step); !ratio.empty()) return ratio;
  const auto trained = [](const Sample& s) { return std::ranges::count(s.loss_mask, 1) > 0; };
  if (std::ranges::none_of(step.samples, trained)) {
    return "the mean over tokens: none of the step has loss mask 1, which is 0 / 0";
  }
  return "behind what is recorded: every value that the losses are computed from is finite";
}

std::string first_masked_not_finite(const RecordedRollout& rollout) {
  constexpr ComputedColumn kRead[] = {{"rollout_log_probs", &RecordedStep::rollout_log_probs},
                                      {"old_log_probs", &RecordedStep::old_log_probs},
                                      {"log_probs", &RecordedStep::log_probs}};
  for (const RecordedStep& step : rollout.steps) {
    for (const ComputedColumn& named : kRead) {
      const TokenColumn& column = step.*named.column;
      double found = 0;
      const std::string at = find_token(step, column, [&](size_t i, size_t t) {
        found = (*column)[i][t];
        const std::vector<uint8_t>& mask = step.samples[i].loss_mask;
        return t < mask.size() && mask[t] == 0 && !std::isfinite(found);
      });
      if (!at.empty()) return std::string(named.name) + at + " (" + not_finite_text(found) + ")";
    }
  }
  return {};
}

}  // namespace rlreplay::replay
