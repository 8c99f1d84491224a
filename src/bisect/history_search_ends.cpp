#include "src/base/error.h"
#include "src/bisect/history_search.h"
#include "src/bisect/noisy_ends.h"

namespace rlreplay::bisect {

bool HistorySearch::run_ends() {
  const Revision &first = whole_.front(), &last = whole_.back();
  const size_t search = search_.left() + plan_.probes + 2;
  stand_ins_.dismiss(first);
  if (stand_ins_.kind_of(first) == stand_ins_.kind_of(last)) stand_ins_.dismiss(last);
  const Judgement good = judge_first(first, Purpose::kGoodEnd, 2 * plan_.end_runs + search);
  if (good.verdict == Verdict::kBad && !is_same_again(first, Purpose::kGoodEnd)) return false;
  if (good.verdict != Verdict::kGood) return refuse(Purpose::kGoodEnd, first, good);
  finding_.evidence = reference_->evidence;
  measure::check_tolerance(plan_.criterion, *reference_);
  const Repetition repeated = repeats(first, Purpose::kGoodEnd, plan_.end_runs + search);
  if (repeated == Repetition::kRefused) return false;
  if (sampler_.of(source_of(last)).size() < plan_.end_runs) stand_ins_.dismiss(last);
  Judgement bad = judge_first(last, Purpose::kBadEnd, plan_.end_runs + search);
  if (bad.verdict != Verdict::kBad && stand_ins_.of(last).id != last.id) {
    stand_ins_.dismiss(last);  // no end is refused by the runs of another revision
    bad = judge_first(last, Purpose::kBadEnd, plan_.end_runs + search);
  }
  if (bad.verdict == Verdict::kSkip) return refuse(Purpose::kBadEnd, last, bad);
  const Repetition also = repeats(last, Purpose::kBadEnd, search);
  if (also == Repetition::kRefused) return false;
  if (repeated == Repetition::kNoisy || also == Repetition::kNoisy) return separate_ends();
  return bad.verdict == Verdict::kBad || refuse(Purpose::kBadEnd, last, bad);
}

/// Whether an end that cannot be one is the same each time.
bool HistorySearch::is_same_again(const Revision& end, Purpose purpose) {
  return repeats(end, purpose, plan_.end_runs) == Repetition::kSame;
}

/// Runs an end again and compares the runs: where two of one revision differ, a search would follow
/// the noise. All that are known of it count.
HistorySearch::Repetition HistorySearch::repeats(const Revision& revision, Purpose purpose,
                                                 size_t left) {
  const Candidate candidate = source_of(revision);
  const size_t known = sampler_.of(candidate).size();
  const std::string end(to_string(purpose));
  for (size_t i = 1; i < std::max(plan_.end_runs, known); ++i) {
    const Measurement second =
        measure(revision, i, purpose, left + plan_.end_runs - std::min(i, plan_.end_runs));
    const Measurement first = sampler_.of(candidate)[0].measurement;
    const Judgement same = measure::judge_repetition(plan_.criterion, first, second);
    if (same.verdict == Verdict::kGood) continue;
    finding_.result = SearchResult::kCannotJudge;
    finding_.reason = "this run is not deterministic: run again, the " + end + ", " +
                      revision.short_id() + ", is not what it was (" + same.reason + ")";
    if (same.verdict == Verdict::kSkip) {
      finding_.reason = "the " + end + ", " + revision.short_id() +
                        ", ran once and cannot be judged when it is run again: " + same.reason;
    }
    finding_.sides = {"first run", "second run"};
    if (!first.dump.empty() && !second.dump.empty()) finding_.dumps = {first.dump, second.dump};
    const auto has_numbers = [](const Measurement& run) {
      return run.evidence == measure::Evidence::kMetrics ||
             run.evidence == measure::Evidence::kDump;
    };
    const bool numbers = has_numbers(first) && has_numbers(second);
    if (same.verdict == Verdict::kBad && !numbers) {
      finding_.reason += ": --stat finds a change of how often it fails";
    }
    return same.verdict == Verdict::kBad && numbers ? Repetition::kNoisy : Repetition::kRefused;
  }
  return Repetition::kSame;
}

/// Where runs of an end differ: both ends are run more often, and what tells them apart decides.
bool HistorySearch::separate_ends() {
  stand_ins_.dismiss(whole_.back());
  const size_t most = std::max(plan_.end_runs, plan_.noisy_runs);
  const auto end = [&](const Revision& revision, Purpose purpose) {
    return NoisyEnd{"the " + std::string(to_string(purpose)) + ", " + revision.short_id(),
                    std::max(most, sampler_.of(source_of(revision)).size()), [=, this](size_t n) {
                      return measure(revision, n, purpose, most - std::min(n, most));
                    }};
  };
  const auto [problem, separation] =
      bisect::separate_ends(plan_.criterion, end(whole_.front(), Purpose::kGoodEnd),
                            end(whole_.back(), Purpose::kBadEnd));
  if (!problem.empty()) {
    finding_.reason += "; and " + problem;
    return false;
  }
  finding_.noise = separation.sentence;
  if (!separation.criterion) {
    finding_.reason += "; " + separation.sentence;
    return false;
  }
  plan_.criterion = *separation.criterion;
  finding_.criterion = plan_.criterion;
  finding_.dumps = {};
  finding_.sides = Finding().sides;
  finding_.reason.clear();
  return true;
}

bool HistorySearch::refuse(Purpose end, const Revision& revision, const Judgement& judgement) {
  const std::string which =
      "the " + std::string(to_string(end)) + ", " + revision.short_id() + ", ";
  if (judgement.verdict == Verdict::kSkip) {
    finding_.result = SearchResult::kCannotJudge;
    finding_.reason = which + "cannot be judged: " + judgement.reason;
  } else {
    finding_.result = SearchResult::kNothing;
    finding_.reason = which + "is " + std::string(to_string(judgement.verdict)) + " (" +
                      judgement.reason + "): the ends do not differ as they should";
  }
  return false;
}

}  // namespace rlreplay::bisect
