#include "src/bisect/changes.h"

#include <algorithm>

#include "src/bisect/search.h"

namespace rlreplay::bisect {
namespace {

class ChangesSearch {
 public:
  ChangesSearch(const std::vector<Revision>& history, const SearchPlan& plan, Sampler& sampler,
                const CandidateOf& candidate_of, const Listener& listener)
      : history_(history),
        plan_(plan),
        sampler_(sampler),
        candidate_of_(candidate_of),
        listener_(listener),
        is_run_(history.size()) {
    out_.good = history.front();
    out_.bad = history.back();
    out_.revisions = history.size() - 1;
  }

  Changes find() {
    const size_t last = history_.size() - 1;
    if (!repeats(0, Purpose::kGoodEnd) || !repeats(last, Purpose::kBadEnd)) return out_;
    between(0, last);
    out_.not_run = static_cast<size_t>(std::ranges::count(is_run_, false));
    return out_;
  }

 private:
  bool repeats(size_t end, Purpose purpose) {
    const Judgement first = measure::judge(plan_.criterion, nullptr, run(end, 0, purpose));
    const Measurement kept = run(end, 0, purpose);
    if (first.verdict == Verdict::kSkip) {
      out_.refused = "the " + std::string(to_string(purpose)) + ", " + history_[end].short_id() +
                     ", cannot be judged: " + first.reason;
      return false;
    }
    if (end == 0) measure::check_tolerance(plan_.criterion, kept);
    for (size_t i = 1; i < plan_.end_runs; ++i) {
      const Judgement again =
          measure::judge_repetition(plan_.criterion, kept, run(end, i, purpose));
      if (again.verdict == Verdict::kGood) continue;
      out_.refused = "this run is not deterministic: run again, the " +
                     std::string(to_string(purpose)) + ", " + history_[end].short_id() +
                     ", is not what it was (" + again.reason + "): leave noise out by --exclude";
      return false;
    }
    return true;
  }

  /// The n-th run of a place, told of once.
  const Measurement& run(size_t place, size_t n, Purpose purpose) {
    const Revision& revision = history_[place];
    const Candidate candidate = candidate_of_(revision);
    const bool there = n < sampler_.of(candidate).size();
    if (!there && listener_.begin) listener_.begin(revision, 1);
    if (!there) sampler_.add(candidate, Build::kAny);
    const MeasuredRun& sample = sampler_.of(candidate)[n];
    if (is_run_[place] && there) return sample.measurement;
    is_run_[place] = true;
    const Measurement& m = sample.measurement;
    const Measurement* reference =
        place == 0 && n == 0 ? nullptr : &sampler_.of(candidate_of_(history_[0]))[0].measurement;
    const Origin origin = !there          ? Origin::kRun
                          : sample.stored ? Origin::kStored
                                          : Origin::kEqualContent;
    out_.trials.push_back({revision, measure::judge(plan_.criterion, reference, m), purpose, origin,
                           m.seconds, m.date});
    if (listener_.end) listener_.end(out_.trials.back());
    if (place != 0) sampler_.drop_outputs(candidate);
    return m;
  }

  Judgement compare(size_t a, size_t b) {
    const Measurement left = run(a, 0, Purpose::kSearch), right = run(b, 0, Purpose::kSearch);
    return measure::judge_repetition(plan_.criterion, left, right);
  }

  bool can_be_judged(size_t place) {
    const Measurement& m = run(place, 0, Purpose::kSearch);
    return measure::judge_repetition(plan_.criterion, m, m).verdict == Verdict::kGood;
  }

  /// Both can be judged.
  void between(size_t a, size_t b) {
    const Judgement moved = compare(a, b);
    if (moved.verdict == Verdict::kGood) return;
    Search middle(b - a);  // the place nearest to the middle that can be judged
    for (auto place = middle.next(1); !place.empty(); place = middle.next(1)) {
      if (can_be_judged(a + place[0])) {
        between(a, a + place[0]);
        between(a + place[0], b);
        return;
      }
      middle.add(place[0], Verdict::kSkip);
    }
    const auto begin = history_.begin();
    out_.found.push_back(
        {{begin + static_cast<ptrdiff_t>(a) + 1, begin + static_cast<ptrdiff_t>(b) + 1}, moved});
  }

  const std::vector<Revision>& history_;
  const SearchPlan& plan_;
  Sampler& sampler_;
  const CandidateOf& candidate_of_;
  const Listener& listener_;
  std::vector<bool> is_run_;
  Changes out_;
};

}  // namespace

Changes find_changes(const std::vector<Revision>& history, const SearchPlan& plan, Sampler& sampler,
                     const CandidateOf& candidate_of, const Listener& listener) {
  return ChangesSearch(history, plan, sampler, candidate_of, listener).find();
}

}  // namespace rlreplay::bisect
