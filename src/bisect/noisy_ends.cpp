#include "src/bisect/noisy_ends.h"

namespace rlreplay::bisect {
namespace {

using measure::Measurement;

/// Why a run has no numbers to be held against those of the first; empty where it has.
std::string problem_of(const Measurement& run, const Measurement& first, const NoisyEnd& of,
                       const NoisyEnd& good) {
  if (run.kind == measure::RunKind::kRan && run.evidence == first.evidence) return "";
  const std::string which = "a run of " + of.name + ", left ";
  if (run.kind != measure::RunKind::kRan) return which + "no numbers: " + run.problem;
  return which + to_string(run.evidence) + " (exit code " + std::to_string(run.exit_code) +
         ") where the first run of " + good.name + ", left " + to_string(first.evidence);
}

}  // namespace

NoisyEnds separate_ends(const measure::Criterion& criterion, const NoisyEnd& good,
                        const NoisyEnd& bad) {
  std::vector<Measurement> runs[2];
  for (const NoisyEnd* end : {&good, &bad}) {
    std::vector<Measurement>& of_end = runs[end == &bad];
    for (size_t n = 0; n < end->runs; ++n) {
      of_end.push_back(end->take(n));
      const std::string problem = problem_of(of_end.back(), runs[0].front(), *end, good);
      if (!problem.empty()) return {.problem = problem};
    }
  }
  return {.separation = measure::separate(criterion, runs[0], runs[1])};
}

}  // namespace rlreplay::bisect
