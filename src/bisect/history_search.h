#pragma once

#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/bisect/finding.h"
#include "src/bisect/sampler.h"
#include "src/bisect/search.h"
#include "src/bisect/stand_ins.h"

namespace rlreplay::bisect {

/// What a search over a history does.
struct SearchPlan {
  Criterion criterion = {};
  size_t end_runs = 2;    // how often each end is run before the search
  size_t noisy_runs = 5;  // how often where runs of an end differ
  size_t side_runs = 2;   // how often culprit and parent are run in all, at least
  size_t probes = 2;  // how many places beside the answer are run to see whether it is the only one
  std::map<std::string, Verdict> known = {};  // of hashes, from a log of git bisect
  std::optional<double> confidence = {};      // with which noisy runs are to be told apart
  bool confirm_again = false;                 // stored runs confirm nothing
  size_t jobs = 1;                            // how many runs of the search go on at once
};

/// Told what goes on: that a run begins, with the number of runs that are left if none is skipped,
/// and that a revision is judged.
struct Listener {
  std::function<void(const Revision&, size_t left)> begin = {};
  std::function<void(const Trial&)> end = {};
  std::function<void(const std::vector<Revision>&)> start = {};  // before all, of the whole history
};

/// What lies beside first parents.
struct Merged {
  /// The commits that a merge brought in: the commit where they leave the history (one without a
  /// hash where they share none), then each next one along first parents up to what was merged;
  /// nothing of a commit that is no merge. One list a merged branch.
  std::function<std::vector<std::vector<Revision>>(const Revision& merge)> branches = {};
  /// All commits that a commit contains, itself among them, and none of others; the oldest first.
  std::function<std::vector<Revision>(const Revision& of, const std::vector<Revision>& without)>
      contents = {};
};

/// Finds the first bad revision of a history, the first of which is to be good and the last bad. It
/// knows neither git nor files: what runs is the sampler's.
class HistorySearch {
 public:
  HistorySearch(std::vector<Revision> history, SearchPlan plan, Sampler& sampler,
                CandidateOf candidate_of, Merged merged, Listener listener);

  /// Both ends are run first, more than once so that a run that is not deterministic is noticed;
  /// then halves, and where the culprit is a merge halves what it brought in; culprit and parent
  /// are run more than once before one is named, and probes look for other changes.
  /// Errors: those of the sampler but kLimit, which is a finding.
  [[nodiscard]] Finding find();

 private:
  static constexpr size_t kGreyRuns = 3;  // how often what is neither good nor bad is run

  [[nodiscard]] bool run_ends();
  enum class Repetition { kSame, kNoisy, kRefused };
  Repetition repeats(const Revision& revision, Purpose purpose, size_t left);
  [[nodiscard]] bool separate_ends();
  [[nodiscard]] bool is_same_again(const Revision& end, Purpose purpose);
  [[nodiscard]] bool refuse(Purpose end, const Revision& revision, const Judgement& judgement);
  void search_between();
  void run_at_once(const std::vector<Revision>& revisions, size_t left);
  void descend();
  [[nodiscard]] bool enter(const Revision& merge, std::vector<Revision> branch);
  [[nodiscard]] bool confirm();
  [[nodiscard]] bool confirms(const Revision& revision, Verdict expected, size_t& runs,
                              size_t left_after);
  [[nodiscard]] bool blame_noise(const Revision& revision, const Revision& stand_in,
                                 Verdict expected, const Judgement& again);
  void probe();
  std::vector<Revision> unjudged_within(size_t begin, size_t end, size_t most) const;
  void note_contradictions(size_t good, size_t bad);
  [[nodiscard]] std::vector<Revision> suspects() const;
  void finish();
  void name_dumps(const Revision& first, const Revision& second);

  /// The n-th measurement of a revision, made where it is not there.
  const Measurement& measure(const Revision& revision, size_t n, Purpose purpose, size_t left,
                             Build build = Build::kAny);
  [[nodiscard]] Judgement judge_first(const Revision& revision, Purpose purpose, size_t left);
  void note(const Revision& revision, const Revision& source, size_t n, Purpose purpose,
            Origin origin);
  /// Of the revision whose runs tell of this one.
  Candidate source_of(const Revision& revision) { return candidate_of_(stand_ins_.of(revision)); }
  void drop_unless_side(const Revision& revision);
  [[nodiscard]] bool is_judged(const Revision& revision) const;
  [[nodiscard]] std::optional<std::string> dump_of(const Revision& revision);
  const Measurement* reference() const { return reference_ ? &*reference_ : nullptr; }
  const Revision& culprit() const { return history_[search_.bad()]; }
  const Revision& parent() const { return history_[search_.good()]; }

  std::vector<Revision> whole_;    // first parents, from the good end to the bad end
  std::vector<Revision> history_;  // what is searched now: the same, or a branch
  std::vector<Revision> entered_;  // the commits of branches into which the search went
  SearchPlan plan_;
  Sampler& sampler_;
  CandidateOf candidate_of_;
  StandIns stand_ins_;
  Merged merged_;
  Listener listener_;
  Search search_;
  std::optional<Measurement> reference_;            // of the good end's first run
  std::set<std::pair<std::string, size_t>> noted_;  // revisions and number of a measurement
  std::map<std::string, std::string> judged_;       // key, and the revision that was judged by it
  std::set<std::string> kinds_;                     // of what was judged
  bool open_ = false;  // whether what the culprit merged is not known to be good
  Finding finding_;
};

}  // namespace rlreplay::bisect
