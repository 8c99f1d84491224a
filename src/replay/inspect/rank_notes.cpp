#include "src/replay/inspect/rank_notes.h"

#include "format/train_ranks.h"
#include "src/replay/record/event_units.h"
#include "src/replay/record/rank_scalars.h"

namespace rlreplay::replay {
namespace {

void note_ranks(const RecordedRun& run, const StepId& step, std::vector<std::string>& notes) {
  StepScalars scalars = run.scalars(step);
  std::erase_if(scalars.differing, [](const StepScalars::OfRank& of) {
    return scalar_of(of.name) == ScalarOf::kStep;  // no two ranks may
  });
  const std::string by_rank = numbers_by_rank(scalars);
  if (!by_rank.empty()) {
    notes.push_back("scalars of step " + step.name() + " that ranks say differently: " + by_rank);
  }
  const size_t ranks = event_units(run.dump(), "train", step.group()).size();
  if (ranks > 1) {
    notes.push_back("events of step " + step.name() + " of " + std::to_string(ranks) +
                    " ranks, which a replay does not compare");
  }
}

}  // namespace

std::vector<std::string> rank_notes(const RecordedRun& run, UnreadRollouts& unread) {
  std::vector<std::string> notes;
  for (const StepId& step : run.steps()) {
    if (run.dump().find("train", step.group()).size() < 2) continue;  // nothing to tell apart
    unread.guard(step.rollout, [&] { note_ranks(run, step, notes); });
  }
  return notes;
}

}  // namespace rlreplay::replay
