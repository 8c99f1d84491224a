#include "src/bisect/history_search.h"

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"

namespace rlreplay::bisect {

using measure::judge;

std::string_view to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::kGoodEnd:
      return "good end";
    case Purpose::kBadEnd:
      return "bad end";
    case Purpose::kSearch:
      return "search";
    case Purpose::kProbe:
      return "probe";
    case Purpose::kConfirmation:
      return "confirmation";
  }
  return "search";
}

HistorySearch::HistorySearch(std::vector<Revision> history, SearchPlan plan, Sampler& sampler,
                             CandidateOf candidate_of, Merged merged, Listener listener)
    : whole_(history),
      history_(std::move(history)),
      plan_(std::move(plan)),
      sampler_(sampler),
      candidate_of_(std::move(candidate_of)),
      stand_ins_(whole_, sampler_, candidate_of_),
      merged_(std::move(merged)),
      listener_(std::move(listener)),
      search_(history_.size() - 1) {
  finding_.good = whole_.front();
  finding_.bad = whole_.back();
  finding_.history = whole_;
  finding_.revisions = whole_.size() - 1;
}

Finding HistorySearch::find() {
  bool begun = false;
  try {
    if (!run_ends()) return finding_;
    begun = true;
    search_between();
    descend();
    if (confirm()) probe();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kLimit) throw;
    finding_.result = SearchResult::kCannotJudge;
    finding_.reason = error.what();
    finding_.cut = true;
    finding_.confirmed = false;
  }
  if (begun) finish();
  return finding_;
}

void HistorySearch::search_between() {
  for (size_t place = 1; place + 1 < history_.size(); ++place) {
    const auto known = plan_.known.find(history_[place].id);
    if (known != plan_.known.end()) search_.add(place, known->second);
  }
  while (true) {
    const std::vector<size_t> places = search_.next(plan_.jobs);
    if (places.empty()) return;
    const size_t left = search_.left() + plan_.probes + 2;
    std::vector<Revision> asked = {parent(), culprit()};
    for (const size_t place : places) asked.push_back(history_[place]);
    run_at_once({asked.begin() + 2, asked.end()}, left);
    for (const size_t place : places) {
      const Revision& revision = history_[place];
      const bool decided = place < search_.good() || place > search_.bad();
      if (decided) {
        measure(revision, 0, Purpose::kSearch, left);
      } else {
        search_.add(place, judge_first(revision, Purpose::kSearch, left).verdict);
      }
    }
    for (const Revision& revision : asked) drop_unless_side(revision);
  }
}

/// The first run of each of several revisions, at once; whoever asks for them finds them made.
void HistorySearch::run_at_once(const std::vector<Revision>& revisions, size_t left) {
  if (plan_.jobs == 1 || revisions.size() < 2) return;
  std::vector<Candidate> candidates;
  for (const Revision& revision : revisions) {
    candidates.push_back(source_of(revision));
    const bool there = !sampler_.of(candidates.back()).empty();
    const bool own = candidates.back().revision == revision.id;
    if (!there && own && listener_.begin) listener_.begin(revision, left);
  }
  sampler_.add_first(candidates);
}

/// While the culprit is a merge of which a branch is good where it leaves the history and bad where
/// it was merged, the search goes on in that branch.
void HistorySearch::descend() {
  while (merged_.branches && search_.bad() == search_.good() + 1) {
    const Revision merge = culprit();
    const auto branches = merged_.branches(merge);
    if (branches.empty()) return;
    const bool entered = std::ranges::any_of(
        branches, [&](const std::vector<Revision>& branch) { return enter(merge, branch); });
    if (!entered) return;
  }
}

bool HistorySearch::enter(const Revision& merge, std::vector<Revision> branch) {
  const auto judged = [&](const Revision& revision) {
    if (revision.id.empty()) return Verdict::kSkip;
    stand_ins_.dismiss(revision);  // by what it is a merge is entered or named
    return judge_first(revision, Purpose::kSearch,
                       Search(branch.size() - 1).left() + plan_.probes + 2)
        .verdict;
  };
  const auto note = [&](const Revision& revision, Verdict verdict, const std::string& what) {
    finding_.merge_note = "the culprit is a merge; " + what + ", " +
                          (revision.id.empty() ? "no commit" : revision.short_id()) + ", is " +
                          std::string(to_string(verdict));
  };
  const Verdict tip = judged(branch.back());
  if (tip == Verdict::kGood) {
    if (!open_) note(branch.back(), tip, "what it merged");
    return false;
  }
  const Verdict fork = tip == Verdict::kBad ? judged(branch.front()) : Verdict::kSkip;
  if (fork != Verdict::kGood) {
    open_ = true;
    if (tip == Verdict::kBad) {
      note(branch.front(), fork, "what it merged is bad, and where the branch begins");
    } else {
      note(branch.back(), tip, "what it merged");
    }
    return false;
  }
  open_ = false;
  finding_.merge_note.clear();
  finding_.merges.push_back(merge);
  entered_.insert(entered_.end(), branch.begin() + 1, branch.end());
  history_ = std::move(branch);
  search_ = Search(history_.size() - 1);
  search_between();
  return true;
}

/// Places that nothing was known of, in the middle of the longest rows of such: where the run
/// changed there and back again, the answer is one of several.
void HistorySearch::probe() {
  const auto place_of = [&](const Revision& revision) {
    const auto at = std::ranges::find(whole_, revision.id, &Revision::id);
    return static_cast<size_t>(at - whole_.begin());
  };
  const bool descended = !finding_.merges.empty();
  const size_t bad = place_of(descended ? finding_.merges.front() : culprit());
  const size_t good = descended ? bad - 1 : place_of(parent());
  auto places = unjudged_within(0, bad, plan_.probes - plan_.probes / 2);
  const auto behind = unjudged_within(bad, whole_.size() - 1, plan_.probes - places.size());
  places.insert(places.end(), behind.begin(), behind.end());
  run_at_once(places, places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    static_cast<void>(judge_first(places[i], Purpose::kProbe, places.size() - i));
    drop_unless_side(places[i]);
  }
  note_contradictions(good, bad);
}

/// Chooses probes between two places: at most `most`, each in the middle of the longest row of
/// revisions that were not judged.
std::vector<Revision> HistorySearch::unjudged_within(size_t begin, size_t end, size_t most) const {
  std::vector<Revision> out;
  std::set<std::string> chosen;
  const auto is_known = [&](const Revision& revision) {
    return is_judged(revision) || chosen.contains(stand_ins_.kind_of(revision));
  };
  while (out.size() < most) {
    size_t best = 0, longest = 0;
    for (size_t from = begin + 1; from < end;) {
      size_t to = from;
      while (to < end && !is_known(whole_[to])) ++to;
      if (to - from > longest) {
        longest = to - from;
        best = from + longest / 2;
      }
      from = to + 1;
    }
    if (longest == 0) break;
    out.push_back(whole_[best]);
    chosen.insert(stand_ins_.kind_of(whole_[best]));
  }
  return out;
}

/// Bad revisions before `good`, and good ones behind `bad`.
void HistorySearch::note_contradictions(size_t good, size_t bad) {
  std::map<std::string, const Trial*> last;  // of several runs the last decides
  for (const Trial& trial : finding_.trials) last[trial.revision.id] = &trial;
  for (size_t place = 1; place + 1 < whole_.size(); ++place) {
    const auto trial = last.find(whole_[place].id);
    if (trial == last.end()) continue;
    const Verdict verdict = trial->second->judgement.verdict;
    if ((place < good && verdict == Verdict::kBad) || (place > bad && verdict == Verdict::kGood)) {
      finding_.contradictions.push_back(*trial->second);
    }
  }
}

/// Lists all that the culprit may be: what the bad side contains, and none of what was good before.
/// One revision whose parents are all good is it.
std::vector<Revision> HistorySearch::suspects() const {
  std::vector<Revision> out(history_.begin() + static_cast<ptrdiff_t>(search_.good()) + 1,
                            history_.begin() + static_cast<ptrdiff_t>(search_.bad()) + 1);
  if (!merged_.contents || (out.size() == 1 && !open_)) return out;
  std::vector<Revision> good = {parent()};
  for (const Trial& trial : finding_.trials) {
    const bool merged = std::ranges::find(whole_, trial.revision.id, &Revision::id) == whole_.end();
    if (merged && trial.judgement.verdict == Verdict::kGood) good.push_back(trial.revision);
  }
  auto all = merged_.contents(culprit(), good);
  return all.empty() ? out : all;
}

/// Fills in what is known when nothing is asked any more.
void HistorySearch::finish() {
  finding_.suspects = suspects();
  finding_.parent = parent();
  const auto& last = sampler_.of(source_of(culprit()));
  if (!last.empty()) {
    finding_.culprit = judge(plan_.criterion, reference(), last.back().measurement);
    finding_.metrics = {reference_->metrics, last.back().measurement.metrics};
  }
  const auto is_open = [&](const Revision& revision) { return !is_judged(revision); };
  finding_.not_run = static_cast<size_t>(std::ranges::count_if(whole_, is_open) +
                                         std::ranges::count_if(entered_, is_open));
  finding_.revisions += entered_.size();
  if (finding_.result == SearchResult::kFound) name_dumps(parent(), culprit());
  const std::string good = key_of(candidate_of_(whole_.front()));
  const std::string sides[] = {key_of(source_of(parent())), key_of(source_of(culprit()))};
  for (const Trial& trial : finding_.trials) {
    const Candidate candidate = source_of(trial.revision);
    const std::string key = key_of(candidate);
    if (key != good && key != sides[0] && key != sides[1]) sampler_.drop_outputs(candidate);
  }
}

void HistorySearch::name_dumps(const Revision& first, const Revision& second) {
  if (finding_.evidence != measure::Evidence::kDump) return;
  const auto a = dump_of(first), b = dump_of(second);
  if (a && b) {
    finding_.dumps = {*a, *b};
  } else {
    finding_.undrilled = "what the runs left is not there any more";
  }
}

/// That of the latest run which is still there.
std::optional<std::string> HistorySearch::dump_of(const Revision& revision) {
  const auto& samples = sampler_.of(candidate_of_(revision));
  for (auto sample = samples.rbegin(); sample != samples.rend(); ++sample) {
    std::error_code ignored;
    const std::string& dump = sample->measurement.dump;
    if (!dump.empty() && std::filesystem::exists(dump, ignored)) return dump;
  }
  return std::nullopt;
}

/// Whether this search has judged a revision: what an earlier one stored changes no question.
bool HistorySearch::is_judged(const Revision& revision) const {
  return kinds_.contains(stand_ins_.kind_of(revision));
}

const Measurement& HistorySearch::measure(const Revision& revision, size_t n, Purpose purpose,
                                          size_t left, Build build) {
  const Revision source = stand_ins_.of(revision);
  const Candidate candidate = candidate_of_(source);
  const std::string key = key_of(candidate);
  const bool there = n < sampler_.of(candidate).size();
  if (!there) {
    if (listener_.begin) listener_.begin(revision, left);
    sampler_.add(candidate, build);
  }
  const MeasuredRun& sample = sampler_.of(candidate)[n];
  if (!reference_) reference_ = sample.measurement;
  const auto known = judged_.find(key);
  const bool equal = there && (source.id != revision.id ||
                               (known != judged_.end() && known->second != revision.id));
  judged_.try_emplace(key, source.id);
  kinds_.insert(stand_ins_.kind_of(revision));
  note(revision, source, n, purpose,
       !there          ? Origin::kRun
       : equal         ? Origin::kEqualContent
       : sample.stored ? Origin::kStored
                       : Origin::kRun);
  return sample.measurement;
}

/// Remembers a measurement the first time that a revision is judged by it.
void HistorySearch::note(const Revision& revision, const Revision& source, size_t n,
                         Purpose purpose, Origin origin) {
  if (!noted_.emplace(revision.id + " " + source.id, n).second) return;
  const Measurement& m = sampler_.of(candidate_of_(source))[n].measurement;
  const bool first = reference_ && n == 0 && finding_.trials.empty();
  Trial trial{revision,  judge(plan_.criterion, first ? nullptr : reference(), m),
              purpose,   origin,
              m.seconds, m.date};
  finding_.trials.push_back(trial);
  if (listener_.end) listener_.end(trial);
}

Judgement HistorySearch::judge_first(const Revision& revision, Purpose purpose, size_t left) {
  const bool first = !reference_;
  const Measurement& measurement = measure(revision, 0, purpose, left);
  Judgement judgement = judge(plan_.criterion, first ? nullptr : reference(), measurement);
  // What noise has brought into between is run again, and itself.
  const bool own = stand_ins_.of(revision).id == revision.id;
  if (judgement.grey) stand_ins_.dismiss(revision);
  for (size_t n = own ? 1 : 0; judgement.grey && n < kGreyRuns; ++n) {
    judgement = judge(plan_.criterion, reference(), measure(revision, n, purpose, left));
  }
  return judgement;
}

/// Dumps are compared of four revisions: both ends, against their next runs, and the two sides
/// between which the search goes on, against each other. All other dumps are removed.
void HistorySearch::drop_unless_side(const Revision& revision) {
  const Candidate candidate = source_of(revision);
  const std::string key = key_of(candidate);
  for (const Revision& kept : {whole_.front(), whole_.back(), parent(), culprit()}) {
    if (key_of(source_of(kept)) == key) return;
  }
  sampler_.drop_outputs(candidate);
}

}  // namespace rlreplay::bisect
