#include "src/replay/gate/outcome.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "src/base/number_text.h"
#include "src/replay/gate/environment.h"

namespace rlreplay::gate {
namespace {

/// How far a value moved, in the tolerance's unit; nothing where the recorded one or the one of now
/// is absent, or is no finite float.
std::optional<double> distance_of(const Tolerance& tolerance, const GoldenDifference& bits) {
  if (!bits.recorded || !bits.now) return std::nullopt;
  return distance(tolerance.unit, *bits.recorded, *bits.now);
}

/// Holds a difference to a tolerance that covers its key; of several the first broken one is said.
void hold(const Tolerance& tolerance, JudgedDifference& d) {
  const std::optional<double> apart = distance_of(tolerance, d.bits);
  const bool within = apart && *apart <= tolerance.bound;
  if (d.tolerance && (within || !d.within)) return;
  d.tolerance = tolerance;
  d.distance = apart;
  d.within = within;
}

/// What several runs give of a key.
struct Given {
  std::set<std::string> values = {};
  size_t runs = 0;
};

std::map<std::string, Given> by_key(const std::vector<GoldenEntries>& runs) {
  std::map<std::string, Given> out;
  for (const GoldenEntries& run : runs) {
    for (const auto& [key, value] : run) {
      out[key].values.insert(value);
      ++out[key].runs;
    }
  }
  return out;
}

bool all_within(const std::vector<JudgedDifference>& differences) {
  return std::ranges::all_of(differences, &JudgedDifference::within);
}

std::string first_of(const std::vector<JudgedDifference>& differences) {
  const auto beyond = std::ranges::find(differences, false, &JudgedDifference::within);
  return beyond == differences.end() ? std::string() : beyond->bits.key;
}

/// Where in a run a value is made: a rollout comes before its steps, and in each what follows from
/// something comes behind it. What is of the whole or of no run of ours stands before, all alike.
std::array<int64_t, 3> time_of(std::string_view key) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"tokens", "log_probs", "reward", "mean_log_prob", "pg_loss", "entropy", "kl",
       "clip_fraction", "loss", "", "gradients", "grad_norm", "clip_scale", "lr", "optimizer",
       "weights"});  // "": numbers of other names, as of a command's dump
  constexpr std::array<int64_t, 3> kNowhere = {INT64_MIN, 0, 0};
  const bool step = key.starts_with("step ");
  if (!step && !key.starts_with("rollout ")) return kNowhere;
  key.remove_prefix(key.find(' ') + 1);
  const size_t end = std::min(key.find(' '), key.size());
  const size_t dot = step ? key.find('.') : end;
  if (dot > end) return kNowhere;
  const auto rollout = parse_number<int64_t>(key.substr(0, dot));
  const auto in_it =
      step ? parse_number<int64_t>(key.substr(dot + 1, end - dot - 1)) : std::optional<int64_t>(-1);
  if (!rollout || !in_it) return kNowhere;
  auto name = std::ranges::find(kNames, key.substr(std::min(end + 1, key.size())));
  if (name == kNames.end()) name = std::ranges::find(kNames, "");
  return {*rollout, *in_it, name - kNames.begin()};
}

}  // namespace

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kMatch:
      return "match";
    case Outcome::kLooseMatch:
      return "loose match";
    case Outcome::kEnvironmentDrift:
      return "environment drift";
    case Outcome::kCodeDrift:
      return "code drift";
    case Outcome::kRegression:
      return "regression";
    case Outcome::kUnattributed:
      return "unattributed";
    case Outcome::kVacuous:
      return "vacuous";
    case Outcome::kUnstable:
      return "unstable";
    case Outcome::kNotJudged:
      return "not judged";
  }
  return "";
}

std::vector<JudgedDifference> differences(const std::vector<Tolerance>& tolerances,
                                          const GoldenEntries& recorded, const GoldenEntries& now) {
  std::vector<JudgedDifference> out;
  for (GoldenDifference& bits : compare_golden(recorded, now)) {
    JudgedDifference d{std::move(bits)};
    for (const Tolerance& tolerance : tolerances) {
      if (covers(tolerance, d.bits.key)) hold(tolerance, d);
    }
    out.push_back(std::move(d));
  }
  std::ranges::stable_sort(out, {}, [](const JudgedDifference& d) { return time_of(d.bits.key); });
  return out;
}

GoldenVerdict judge(const Golden& golden, const Observation& now) {
  GoldenVerdict out;
  if (!now.problem.empty()) {
    out.reason = now.problem;
    return out;
  }
  out.environment = environment_difference(golden.environment, now.environment);
  if (!golden.inputs.empty()) out.inputs = environment_difference(golden.inputs, now.inputs);
  out.differences = differences(golden.tolerances, golden.values, now.values);
  const auto is_new = [](const JudgedDifference& d) { return !d.bits.recorded; };
  out.values =
      golden.values.size() + static_cast<size_t>(std::ranges::count_if(out.differences, is_new));
  const auto say = [&](Outcome outcome, std::string reason = "") {
    out.outcome = outcome;
    out.reason = std::move(reason);
    return std::move(out);
  };
  if (const std::string why = emptiness_of(golden.values); !why.empty()) {
    return say(Outcome::kVacuous, "the golden file: " + why);
  }
  if (const std::string why = emptiness_of(now.values); !why.empty()) {
    return say(Outcome::kVacuous, "the run of now: " + why);
  }
  if (now.again) {
    const auto between = differences(golden.tolerances, now.values, *now.again);
    if (!all_within(between)) {
      return say(Outcome::kUnstable, "two runs differ: " + first_of(between));
    }
  }
  const bool same = out.environment.empty();
  if (out.differences.empty()) {
    return say(golden.tolerances.empty() ? Outcome::kMatch : Outcome::kLooseMatch);
  }
  if (all_within(out.differences)) {
    return say(same ? Outcome::kCodeDrift : Outcome::kEnvironmentDrift);
  }
  return say(same ? Outcome::kRegression : Outcome::kUnattributed);
}

bool acceptable(const Golden& golden, const Observation& now) {
  return now.problem.empty() && emptiness_of(now.values).empty() && now.again &&
         all_within(differences(golden.tolerances, now.values, *now.again));
}

bool passes(Outcome outcome, bool strict) {
  switch (outcome) {
    case Outcome::kMatch:
    case Outcome::kLooseMatch:
      return true;
    case Outcome::kEnvironmentDrift:
      return !strict;
    default:
      return false;
  }
}

bool excused(Outcome outcome, const std::optional<Quarantine>& quarantine, const std::string& day) {
  switch (outcome) {
    case Outcome::kEnvironmentDrift:
    case Outcome::kCodeDrift:
    case Outcome::kRegression:
    case Outcome::kUnattributed:
    case Outcome::kUnstable:
      return holds(quarantine, day);
    default:
      return false;
  }
}

std::vector<Tolerance> tightened(std::vector<Tolerance> tolerances,
                                 const std::vector<GoldenEntries>& runs) {
  const std::map<std::string, Given> given = by_key(runs);
  for (Tolerance& tolerance : tolerances) {
    double worst = 0;
    for (const auto& [key, of_key] : given) {
      if (!covers(tolerance, key)) continue;
      // Values without a distance stay as far apart as they may.
      const auto apart =
          of_key.runs == runs.size() ? spread(tolerance.unit, of_key.values) : std::nullopt;
      worst = std::max(worst, apart.value_or(tolerance.bound));
    }
    tolerance.bound = std::min(tolerance.bound, worst);
  }
  std::erase_if(tolerances, [](const Tolerance& t) { return t.bound == 0; });
  return tolerances;
}

}  // namespace rlreplay::gate
