#include "format/foreign/dump_check.h"

#include "format/foreign/no_dump.h"
#include "format/foreign/rollout_samples.h"
#include "format/foreign/training_rows.h"
#include "src/base/first_problems.h"

namespace rlreplay::foreign {
namespace {

/// What one file says of itself, by the kind of dump that it is.
void check_kind(const Tree& tree, Value root, const ProblemSink& sink) {
  if (const auto wrong = unknown_version(tree, root)) {
    return sink({"unknown-version", *wrong, ""});
  }
  switch (dump_kind(tree, root)) {
    case DumpKind::kNone:
      return sink(no_dump_problem(tree, root));
    case DumpKind::kRollout:
      return check_rollout_samples(tree, root, sink);
    case DumpKind::kTrainRank:
    case DumpKind::kTrainSamples:
      return check_training_rows(tree, root, sink);
    case DumpKind::kPolicyLoss:
      return;
  }
}

}  // namespace

std::vector<Problem> check_dump(const Tree& tree, Value root, const ProblemSink& all) {
  FirstProblems<Problem> problems;
  const ProblemSink sink = [&](const Problem& found) {
    if (all) all(found);
    problems.add(found);
  };
  check_kind(tree, root, sink);
  return std::move(problems).take();
}

}  // namespace rlreplay::foreign
