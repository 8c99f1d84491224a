#include "src/bisect/changes.h"

#include <algorithm>
#include <map>

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
        stand_ins_(history, sampler, candidate_of),
        listener_(listener),
        is_run_(history.size()) {
    out_.good = history.front();
    out_.bad = history.back();
    out_.revisions = history.size() - 1;
  }

  Changes find() {
    const size_t last = history_.size() - 1;
    stand_ins_.dismiss(history_[0]);
    stand_ins_.dismiss(history_[last]);
    if (!repeats(0, Purpose::kGoodEnd) || !repeats(last, Purpose::kBadEnd)) return out_;
    search(0, last);
    if (!out_.refused.empty()) out_.found.clear();
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
    const Revision source = stand_ins_.of(revision);
    const Candidate candidate = candidate_of_(source);
    const bool there = n < sampler_.of(candidate).size();
    if (!there && listener_.begin) listener_.begin(revision, 1);
    if (!there) sampler_.add(candidate, Build::kAny);
    const MeasuredRun& sample = sampler_.of(candidate)[n];
    if (is_run_[place] && there) return sample.measurement;
    is_run_[place] = true;
    const Measurement& m = sample.measurement;
    const Measurement* reference =
        place == 0 && n == 0 ? nullptr : &sampler_.of(candidate_of_(history_[0]))[0].measurement;
    const auto made = made_.find(key_of(candidate));
    const bool own = made != made_.end() && made->second == place && n == 0;
    const bool is_stored = sample.stored && source.id == revision.id;
    const Origin origin = !there || own ? Origin::kRun
                          : is_stored   ? Origin::kStored
                                        : Origin::kEqualContent;
    out_.trials.push_back({revision, measure::judge(plan_.criterion, reference, m), purpose, origin,
                           m.seconds, m.date});
    if (listener_.end) listener_.end(out_.trials.back());
    // Runs are told where the good end's lies.
    const bool is_good_end = key_of(candidate) == key_of(candidate_of_(history_[0]));
    if (!is_good_end) sampler_.drop_outputs(candidate);
    return m;
  }

  Judgement compare(size_t a, size_t b) {
    const Measurement left = run(a, 0, Purpose::kSearch), right = run(b, 0, Purpose::kSearch);
    return measure::judge_repetition(plan_.criterion, left, right);
  }

  /// As a search judges it: against the good end.
  bool can_be_judged(size_t place) {
    const Measurement& m = run(place, 0, Purpose::kSearch);
    const Measurement& good = sampler_.of(candidate_of_(history_[0]))[0].measurement;
    return measure::judge(plan_.criterion, &good, m).verdict != Verdict::kSkip;
  }

  /// Whether a place's own run is what that of its stand-in was; says why not.
  bool is_itself(size_t place) {
    const Revision stand_in = stand_ins_.of(history_[place]);
    if (stand_in.id == history_[place].id) return true;
    const Measurement before = run(place, 0, Purpose::kSearch);
    stand_ins_.dismiss(history_[place]);
    const Measurement own = run(place, 0, Purpose::kConfirmation);
    const Judgement same = measure::judge_repetition(plan_.criterion, before, own);
    if (same.verdict == Verdict::kGood) return true;
    out_.refused =
        too_few_paths(history_[place], stand_in, "judged", "another (" + same.reason + ")");
    return false;
  }

  /// Two places that can be judged and differ, and what is known of those between them.
  struct Row {
    size_t a, b;
    Judgement moved;
    Search middle;
  };

  void search(size_t a, size_t b) {
    std::vector<Row> rows;
    add_row(a, b, rows);
    while (!rows.empty() && out_.refused.empty()) rows = search_round(rows);
    std::ranges::sort(out_.found, {}, [this](const Change& change) {
      return std::ranges::find(history_, change.suspects.front().id, &Revision::id);
    });
  }

  void add_row(size_t a, size_t b, std::vector<Row>& rows) {
    const Judgement moved = compare(a, b);
    if (moved.verdict != Verdict::kGood) rows.push_back({a, b, moved, Search(b - a)});
  }

  /// Asks the first rows, all of them together for as many places as may be run at once.
  std::vector<Row> search_round(const std::vector<Row>& rows) {
    const size_t taken = std::min(plan_.jobs, rows.size());
    std::vector<std::vector<size_t>> places(taken);
    std::vector<size_t> all;
    for (size_t i = 0; i < taken; ++i) {
      for (const size_t place : rows[i].middle.next(plan_.jobs / taken)) {
        places[i].push_back(rows[i].a + place);
        all.push_back(rows[i].a + place);
      }
    }
    run_at_once(all);
    std::vector<Row> out;
    for (size_t i = 0; i < taken; ++i) part(rows[i], places[i], out);
    out.insert(out.end(), rows.begin() + static_cast<ptrdiff_t>(taken), rows.end());
    return out;
  }

  void run_at_once(const std::vector<size_t>& places) {
    if (plan_.jobs == 1 || places.size() < 2) return;
    std::vector<Candidate> candidates;
    for (const size_t place : places) {
      candidates.push_back(candidate_of_(stand_ins_.of(history_[place])));
      if (!sampler_.of(candidates.back()).empty()) continue;
      if (candidates.back().revision != history_[place].id) continue;
      if (listener_.begin) listener_.begin(history_[place], places.size());
      made_.try_emplace(key_of(candidates.back()), place);
    }
    sampler_.add_first(candidates);
  }

  /// Parts a row at its places that can be judged; a row without places is a change that was found.
  void part(Row row, const std::vector<size_t>& places, std::vector<Row>& rows) {
    if (places.empty()) {
      if (!is_itself(row.a) || !is_itself(row.b)) return;
      const auto begin = history_.begin();
      out_.found.push_back(
          {{begin + static_cast<ptrdiff_t>(row.a) + 1, begin + static_cast<ptrdiff_t>(row.b) + 1},
           row.moved});
      return;
    }
    size_t last = row.a;
    for (const size_t place : places) {
      if (can_be_judged(place)) {
        add_row(last, place, rows);
        last = place;
      } else {
        row.middle.add(place - row.a, Verdict::kSkip);
      }
    }
    last == row.a ? rows.push_back(row) : add_row(last, row.b, rows);
  }

  const std::vector<Revision>& history_;
  const SearchPlan& plan_;
  Sampler& sampler_;
  const CandidateOf& candidate_of_;
  StandIns stand_ins_;
  const Listener& listener_;
  std::vector<bool> is_run_;
  std::map<std::string, size_t> made_;  // by whose place a candidate was run with others at once
  Changes out_;
};

}  // namespace

Changes find_changes(const std::vector<Revision>& history, const SearchPlan& plan, Sampler& sampler,
                     const CandidateOf& candidate_of, const Listener& listener) {
  return ChangesSearch(history, plan, sampler, candidate_of, listener).find();
}

}  // namespace rlreplay::bisect
