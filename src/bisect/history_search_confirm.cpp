#include <algorithm>

#include "src/bisect/history_search.h"

namespace rlreplay::bisect {

using measure::judge;

/// Runs the two sides of the finding until each was run often enough: what a build left behind or a
/// run that is not repeatable must not name a culprit.
bool HistorySearch::confirm() {
  const size_t fewest = plan_.side_runs;
  const auto missing = [&](const Revision& revision) {
    return fewest - std::min(fewest, sampler_.of(candidate_of_(revision)).size());
  };
  const size_t parents = missing(parent());
  if (!confirms(culprit(), Verdict::kBad, finding_.culprit_runs, parents + plan_.probes)) {
    return false;
  }
  if (!confirms(parent(), Verdict::kGood, finding_.parent_runs, plan_.probes)) return false;
  finding_.confirmed = !open_;
  finding_.result = SearchResult::kFound;
  return true;
}

/// Runs a side itself as often as is missing; false, with the reason, where it is not always the
/// same, or noise may be all that its own runs are.
bool HistorySearch::confirms(const Revision& revision, Verdict expected, size_t& runs,
                             size_t left_after) {
  const Revision stand_in = stand_ins_.of(revision);
  stand_ins_.dismiss(revision);
  const Candidate candidate = candidate_of_(revision);
  const auto is_grey = [&](const MeasuredRun& s) {
    return judge(plan_.criterion, reference(), s.measurement).grey;
  };
  const auto counts = [&] {
    std::vector<MeasuredRun> counted = sampler_.of(candidate);
    std::erase_if(counted, [&](const MeasuredRun& s) {
      return (plan_.confirm_again && s.stored) || is_grey(s);
    });
    return counted;
  };
  const size_t begun = sampler_.of(candidate).size();
  for (auto all = counts();
       all.size() < plan_.side_runs || (plan_.side_runs > 1 && count_builds(all) < 2);
       all = counts()) {
    if (sampler_.of(candidate).size() > begun + kGreyRuns * plan_.side_runs) break;
    const size_t left = plan_.side_runs - std::min(plan_.side_runs, all.size());
    measure(revision, sampler_.of(candidate).size(), Purpose::kConfirmation,
            std::max<size_t>(left, 1) + left_after, Build::kFresh);
  }
  runs = 0;
  Judgement grey;
  for (size_t i = 0; i < sampler_.of(candidate).size(); ++i) {
    const Judgement again =
        judge(plan_.criterion, reference(), measure(revision, i, Purpose::kConfirmation, 1));
    if (again.grey) {
      grey = again;
      continue;
    }
    ++runs;
    if (again.verdict != expected) return blame_noise(revision, stand_in, expected, again);
  }
  return runs > 0 || blame_noise(revision, stand_in, expected, grey);
}

bool HistorySearch::blame_noise(const Revision& revision, const Revision& stand_in,
                                Verdict expected, const Judgement& again) {
  finding_.result = SearchResult::kCannotJudge;
  const std::string found = std::string(to_string(again.verdict)) + " (" + again.reason + ")";
  if (stand_in.id != revision.id) {
    finding_.reason = too_few_paths(revision, stand_in, std::string(to_string(expected)), found);
    return false;
  }
  finding_.reason = revision.short_id() + " was " + std::string(to_string(expected)) +
                    " at first and is " + std::string(to_string(again.verdict)) +
                    " when it is run again (" + again.reason +
                    "): its run is not repeatable, so no revision can be blamed";
  return false;
}

}  // namespace rlreplay::bisect
