#include "src/objective/check_batch.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "src/base/error.h"

namespace rlreplay::engine {
namespace {

std::string name(const Sample& s) { return "sample " + std::to_string(s.id); }

/// A column of numbers, one a response token.
struct Column {
  const char* name;
  std::span<const float> values;
  bool infinity_allowed = false, nan_allowed = false;
};

void check_length(const Sample& s, const char* column, size_t length) {
  const auto want = static_cast<size_t>(s.response_length());
  if (length == want) return;
  throw Error(ErrorCode::kUsage, name(s) + " has " + std::to_string(want) +
                                     " response tokens and " + std::to_string(length) +
                                     " values of " + column + ": the objective reads one a token");
}

void check_finite(const Sample& s, const Column& column) {
  for (size_t t = 0; t < column.values.size(); ++t) {
    const float x = column.values[t];
    if (s.is_masked(static_cast<int64_t>(t)) || std::isfinite(x)) continue;
    if (std::isnan(x) ? column.nan_allowed : column.infinity_allowed) continue;
    throw Error(ErrorCode::kCorrupt,
                std::string(column.name) + " " + (std::isnan(x) ? "nan" : std::to_string(x)) +
                    " of response token " + std::to_string(t) + " of " + name(s) +
                    " is not finite: mask the token or leave the sample out",
                name(s));
  }
}

void check_column(const Sample& s, const Column& column) {
  check_length(s, column.name, column.values.size());
  check_finite(s, column);
}

void check_sample(const ObjectiveConfig& config, const Sample& s, const SampleTargets& targets,
                  bool own_old) {
  if (s.prompt_length < 1 || s.response_length() < 0) {
    throw Error(ErrorCode::kUsage,
                name(s) + " needs a prompt of at least one token and at most all of its tokens");
  }
  check_length(s, "the loss mask", s.loss_mask.size());
  for (const uint8_t m : s.loss_mask) {
    if (m > 1) throw Error(ErrorCode::kUsage, name(s) + " has a loss mask other than 0 and 1");
  }
  const bool miles = config.dialect == Dialect::kMiles;
  check_column(s, {"the advantage", targets.advantages, miles, miles});
  if (!own_old) {
    check_column(s, {"the old log-probability", targets.old_log_probs, miles});
  }
  if (config.reads_reference()) {
    check_column(s, {"the reference log-probability", targets.ref_log_probs});
  }
  if (config.tis) check_column(s, {"the rollout log-probability", s.rollout_log_probs});
}

}  // namespace

void check_batch(const ObjectiveConfig& config, std::span<const Sample> samples,
                 std::span<const SampleTargets> targets) {
  if (samples.empty() || samples.size() != targets.size()) {
    throw Error(ErrorCode::kUsage, "a step needs samples, and targets for each of them");
  }
  const std::vector<size_t> order = by_id(samples);
  for (size_t i = 1; i < order.size(); ++i) {
    if (samples[order[i - 1]].id == samples[order[i]].id) {
      throw Error(ErrorCode::kUsage,
                  name(samples[order[i]]) + " is twice in the batch: ids decide the order of sums");
    }
  }
  const bool own_old =
      std::ranges::all_of(targets, [](const auto& t) { return t.old_log_probs.empty(); });
  for (size_t i = 0; i < samples.size(); ++i) {
    check_sample(config, samples[i], targets[i], own_old);
  }
}

void check_scores(const Sample& sample, std::span<const float> log_probs,
                  std::span<const float> entropy) {
  check_finite(sample, {"the policy's log-probability", log_probs});
  check_finite(sample, {"the policy's entropy", entropy});
}

}  // namespace rlreplay::engine
