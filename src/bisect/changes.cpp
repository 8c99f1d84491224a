#include "src/bisect/changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "src/base/error.h"
#include "src/bisect/noisy_ends.h"
#include "src/bisect/search.h"

namespace rlreplay::bisect {
namespace {

/// Halves every stretch whose ends differ until it holds one revision. What cannot be judged inside
/// of one stays in it: a difference that was found is never dropped.
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
    try {
      if (!run_ends()) return out_;
      search(0, history_.size() - 1);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kLimit) throw;
      out_.cut = out_.refused.empty();
      if (out_.cut) out_.refused = error.what();
    }
    if (!out_.refused.empty() && !out_.cut) out_.found.clear();
    std::ranges::sort(out_.found, {}, [this](const Change& change) {
      return std::ranges::find(history_, change.suspects.front().id, &Revision::id);
    });
    out_.not_run = static_cast<size_t>(std::ranges::count(is_run_, false));
    return out_;
  }

 private:
  static constexpr size_t kGreyRuns = 3;  // how often what is neither good nor bad is run

  struct End {
    size_t place;
    Purpose purpose;
  };

  /// Runs both ends. Where runs of one differ, what tells the ends apart decides; false, with the
  /// reason, where nothing does.
  bool run_ends() {
    const End ends[] = {{0, Purpose::kGoodEnd}, {history_.size() - 1, Purpose::kBadEnd}};
    for (const End& end : ends) stand_ins_.dismiss(history_[end.place]);
    std::string noise;
    for (const End& end : ends) {
      const auto differs = repeats(end);
      if (!differs) return false;
      if (noise.empty()) noise = *differs;
    }
    return noise.empty() || separate_ends(ends, noise);
  }

  std::string name_of(const End& end) const {
    return "the " + std::string(to_string(end.purpose)) + ", " + history_[end.place].short_id();
  }

  /// All runs of an end that are known, or as many as the plan asks for.
  std::vector<Measurement> runs_of(const End& end, size_t fewest) {
    const size_t known = sampler_.of(candidate_of_(history_[end.place])).size();
    std::vector<Measurement> runs;
    for (size_t n = 0; n < std::max(fewest, known); ++n) {
      runs.push_back(run(end.place, n, end.purpose));
    }
    return runs;
  }

  /// In what the numbers of an end's runs differ, empty where they do not; nothing, with the
  /// reason, where the end is none.
  std::optional<std::string> repeats(const End& end) {
    const Measurement first = run(end.place, 0, end.purpose);
    const Judgement judgement = measure::judge(plan_.criterion, nullptr, first);
    if (judgement.verdict == Verdict::kSkip) {
      out_.refused = name_of(end) + ", cannot be judged: " + judgement.reason;
      return std::nullopt;
    }
    if (end.place == 0) measure::check_tolerance(plan_.criterion, first);
    for (const Measurement& again : runs_of(end, plan_.end_runs)) {
      const Judgement same = measure::judge_repetition(plan_.criterion, first, again);
      if (same.verdict == Verdict::kGood) continue;
      const std::string noise = "this run is not deterministic: run again, " + name_of(end) +
                                ", is not what it was (" + same.reason + ")";
      if (same.verdict == Verdict::kBad && has_numbers(first) && has_numbers(again)) return noise;
      out_.refused = same.verdict == Verdict::kBad
                         ? noise + ": --stat finds one change of how often it fails"
                         : name_of(end) + ", ran once and cannot be judged when it is run again: " +
                               same.reason;
      return std::nullopt;
    }
    return "";
  }

  static bool has_numbers(const Measurement& run) {
    return run.kind == measure::RunKind::kRan && run.evidence != measure::Evidence::kExitCode &&
           run.evidence != measure::Evidence::kNone;
  }

  bool separate_ends(std::span<const End, 2> ends, const std::string& noise) {
    const auto noisy = [&](const End& end) {
      const size_t known = sampler_.of(candidate_of_(history_[end.place])).size();
      return NoisyEnd{name_of(end), std::max({plan_.end_runs, plan_.noisy_runs, known}),
                      [=, this](size_t n) { return run(end.place, n, end.purpose); }};
    };
    const auto [problem, separation] =
        bisect::separate_ends(plan_.criterion, noisy(ends[0]), noisy(ends[1]));
    if (!problem.empty()) {
      out_.refused = noise + "; and " + problem;
      return false;
    }
    out_.noise = separation.sentence;
    if (!separation.criterion) {
      out_.refused = noise + "; " + separation.sentence + "; --exclude leaves out what is noise";
      return false;
    }
    plan_.criterion = *separation.criterion;
    return true;
  }

  /// The n-th run of a place, told of once.
  const Measurement& run(size_t place, size_t n, Purpose purpose) {
    const Revision& revision = history_[place];
    const Revision source = stand_ins_.of(revision);
    const Candidate candidate = candidate_of_(source);
    const bool there = n < sampler_.of(candidate).size();
    if (!there && listener_.begin) listener_.begin(revision, 1);
    while (sampler_.of(candidate).size() <= n) {
      static_cast<void>(sampler_.add(candidate, Build::kAny));
    }
    is_run_[place] = true;
    const MeasuredRun& sample = sampler_.of(candidate)[n];
    if (!noted_.emplace(revision.id + " " + source.id, n).second) return sample.measurement;
    const auto made = made_.find(key_of(candidate));
    const bool own = made != made_.end() && made->second == place && n == 0;
    const bool is_stored = sample.stored && source.id == revision.id;
    note(place, n, sample, purpose,
         !there || own ? Origin::kRun
         : is_stored   ? Origin::kStored
                       : Origin::kEqualContent);
    sampler_.drop_outputs_unless(candidate, candidate_of_(history_[0]));
    return sample.measurement;
  }

  void note(size_t place, size_t n, const MeasuredRun& sample, Purpose purpose, Origin origin) {
    const Measurement& m = sample.measurement;
    const Measurement* reference =
        place == 0 && n == 0 ? nullptr : &sampler_.of(candidate_of_(history_[0]))[0].measurement;
    out_.trials.push_back({history_[place], measure::judge(plan_.criterion, reference, m), purpose,
                           origin, m.seconds, m.date});
    if (listener_.end) listener_.end(out_.trials.back());
  }

  /// The run by which a place is compared.
  const Measurement& telling_run(size_t place) {
    const auto told = telling_.find(place);
    return run(place, told == telling_.end() ? 0 : told->second, Purpose::kSearch);
  }

  Judgement compare(size_t a, size_t b) {
    const Measurement left = telling_run(a), right = telling_run(b);
    return measure::judge_repetition(plan_.criterion, left, right);
  }

  /// As a search judges it: against the good end, and a few times where noise may be all; what a
  /// run of another leaves open, by its own.
  bool can_be_judged(size_t place) {
    if (stand_ins_.of(history_[place]).id != history_[place].id) {
      const Judgement lent = judge(place, 0);
      if (!lent.grey) return lent.verdict != Verdict::kSkip;
      stand_ins_.dismiss(history_[place]);
    }
    for (size_t n = 0; n < kGreyRuns; ++n) {
      const Judgement own = judge(place, n);
      if (!own.grey) return own.verdict != Verdict::kSkip;
    }
    return false;
  }

  /// Its n-th run tells of the place from now on.
  Judgement judge(size_t place, size_t n) {
    const Measurement& m = run(place, n, Purpose::kSearch);
    telling_[place] = n;
    return judge_by_good_end(m);
  }

  Judgement judge_by_good_end(const Measurement& m) {
    const Measurement& good = sampler_.of(candidate_of_(history_[0]))[0].measurement;
    return measure::judge(plan_.criterion, &good, m);
  }

  /// Whether a place's own run says what that of its stand-in did; says why not.
  bool is_itself(size_t place) {
    const Revision stand_in = stand_ins_.of(history_[place]);
    if (stand_in.id == history_[place].id) return true;
    const Measurement before = telling_run(place);
    const Judgement lent = judge_by_good_end(before);
    stand_ins_.dismiss(history_[place]);
    lent_.emplace(place, stand_in);
    telling_.erase(place);
    run(place, 0, Purpose::kConfirmation);
    const bool judged = can_be_judged(place);
    const Measurement itself = telling_run(place);
    const Judgement own = judge_by_good_end(itself);
    if (!judged || own.verdict != lent.verdict) {
      const std::string found = std::string(to_string(own.verdict)) + " (" + own.reason + ")";
      out_.refused =
          too_few_paths(history_[place], stand_in, std::string(to_string(lent.verdict)), found);
      return false;
    }
    const Judgement same = measure::judge_repetition(plan_.criterion, before, itself);
    if (same.verdict == Verdict::kGood || same.grey) return true;
    out_.refused =
        too_few_paths(history_[place], stand_in, "judged", "another (" + same.reason + ")");
    return false;
  }

  /// How two places differ by their own runs; nothing, with the reason, where those of stand-ins
  /// alone did.
  std::optional<Judgement> own_difference(size_t a, size_t b) {
    if (!is_itself(a) || !is_itself(b)) return std::nullopt;
    const auto moved = difference(a, b);
    if (moved) return moved;
    const auto at = lent_.contains(b) ? lent_.find(b) : lent_.find(a);
    if (at == lent_.end()) return std::nullopt;
    const std::string other = history_[at->first == a ? b : a].short_id();
    out_.refused = too_few_paths(history_[at->first], at->second, "told apart from " + other,
                                 "not (" + compare(a, b).reason + ")");
    return std::nullopt;
  }

  /// Two places that can be judged and differ, and what is known of those between them.
  struct Row {
    size_t a, b;
    Judgement moved;
    Search middle;
  };

  void search(size_t a, size_t b) {
    std::vector<Row> rows;
    if (const auto moved = difference(a, b)) rows.push_back({a, b, *moved, Search(b - a)});
    while (!rows.empty() && out_.refused.empty()) rows = search_round(rows);
  }

  /// How two places differ; nothing where they agree, or where noise may be all: that is no change.
  std::optional<Judgement> difference(size_t a, size_t b) {
    Judgement moved = compare(a, b);
    if (moved.verdict == Verdict::kGood || moved.grey) return std::nullopt;
    return moved;
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
      const auto moved = own_difference(row.a, row.b);
      if (!moved) return;
      const auto begin = history_.begin();
      out_.found.push_back(
          {{begin + static_cast<ptrdiff_t>(row.a) + 1, begin + static_cast<ptrdiff_t>(row.b) + 1},
           *moved});
      return;
    }
    std::vector<size_t> judged = {row.a};
    for (const size_t place : places) {
      if (can_be_judged(place)) {
        judged.push_back(place);
      } else {
        row.middle.add(place - row.a, Verdict::kSkip);
      }
    }
    judged.push_back(row.b);
    judged.size() == 2 ? rows.push_back(row) : add_parts(row, judged, rows);
  }

  /// Adds each part between judged places that follow each other and differ. A stretch of them
  /// whose ends differ though none differs from the next is parted where one differs from an end,
  /// and else not at all: each step may be noise, the whole way is none.
  void add_parts(const Row& row, std::span<const size_t> judged, std::vector<Row>& rows) {
    for (size_t begin = 0, end = 0; begin + 1 < judged.size(); begin = end) {
      end = begin + 1;
      if (const auto moved = difference(judged[begin], judged[end])) {
        rows.push_back({judged[begin], judged[end], *moved, Search(judged[end] - judged[begin])});
        continue;
      }
      while (end + 1 < judged.size() && !difference(judged[end], judged[end + 1])) ++end;
      add_stretch(row, judged.subspan(begin, end - begin + 1), rows);
    }
  }

  void add_stretch(const Row& row, std::span<const size_t> judged, std::vector<Row>& rows) {
    const size_t a = judged.front(), b = judged.back();
    const bool whole = a == row.a && b == row.b;
    const auto moved = whole ? row.moved : difference(a, b);
    if (!moved) return;
    Row undivided = whole ? row : Row{a, b, *moved, Search(b - a)};
    for (size_t i = 1; i + 1 < judged.size(); ++i) {
      if (difference(a, judged[i]) || difference(judged[i], b)) {
        add_stretch(row, judged.first(i + 1), rows);
        add_stretch(row, judged.subspan(i), rows);
        return;
      }
      undivided.middle.add(judged[i] - a, Verdict::kSkip);
    }
    rows.push_back(undivided);
  }

  const std::vector<Revision>& history_;
  SearchPlan plan_;  // its criterion is what noise makes of the one that was asked for
  Sampler& sampler_;
  const CandidateOf& candidate_of_;
  StandIns stand_ins_;
  const Listener& listener_;
  std::vector<bool> is_run_;
  std::set<std::pair<std::string, size_t>> noted_;  // revisions and number of a measurement
  std::map<size_t, size_t> telling_;                // of places, the number of the run that tells
  std::map<size_t, Revision> lent_;  // of places that were run themselves, who was run before them
  std::map<std::string, size_t> made_;  // by whose place a candidate was run with others at once
  Changes out_;
};

}  // namespace

Changes find_changes(const std::vector<Revision>& history, const SearchPlan& plan, Sampler& sampler,
                     const CandidateOf& candidate_of, const Listener& listener) {
  return ChangesSearch(history, plan, sampler, candidate_of, listener).find();
}

}  // namespace rlreplay::bisect
