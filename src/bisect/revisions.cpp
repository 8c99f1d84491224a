#include "src/bisect/revisions.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "src/base/error.h"
#include "src/bisect/search.h"
#include "src/bisect/workspace.h"

namespace rlreplay::bisect {
namespace {

using Result = Finding::Result;

/// What a run left, and where.
struct Left {
  Outcome outcome;
  RunFolder folder;
};

class RevisionSearch {
 public:
  RevisionSearch(const RevisionQuestion& question, const Interrupt& interrupt,
                 const Listener& listener)
      : question_(question),
        interrupt_(interrupt),
        listener_(listener),
        repository_(Repository::open(question.repository, interrupt.fd())),
        history_(repository_.history(repository_.resolve(question.good),
                                     repository_.resolve(question.bad))),
        search_(history_.size() - 1),
        workspace_(question.output, interrupt) {
    Workspace::remove_abandoned(repository_);
    finding_.good = history_.front();
    finding_.bad = history_.back();
    finding_.revisions = history_.size() - 1;
  }

  Finding find() {
    if (!run_ends()) return finding_;
    while (const auto place = search_.next()) {
      const size_t good = search_.good(), bad = search_.bad();
      search_.add(*place, judge_place(*place).verdict);
      for (const size_t was : {good, bad, *place}) drop_unless_side(was);
    }
    finding_.suspects.assign(history_.begin() + static_cast<ptrdiff_t>(search_.good()) + 1,
                             history_.begin() + static_cast<ptrdiff_t>(search_.bad()) + 1);
    finding_.parent = history_[search_.good()];
    confirm();
    return finding_;
  }

 private:
  /// Both ends; false, with the reason, where they are no two ends of a search.
  bool run_ends() {
    const size_t last = history_.size() - 1;
    const Judgement good = judge_place(0, 2 * question_.end_runs);
    if (good.verdict != Verdict::kGood) return refuse("good", good);
    finding_.evidence = reference_->kind;
    check_tolerance(question_.criterion, *reference_);
    if (!repeats("good", history_[0], 2 * question_.end_runs - 1)) return false;
    const Judgement bad = judge_place(last, question_.end_runs);
    if (bad.verdict != Verdict::kBad) return refuse("bad", bad);
    return repeats("bad", history_[last], question_.end_runs - 1);
  }

  /// Runs an end again and compares the runs: where two of one revision differ, a search would
  /// follow the noise.
  bool repeats(const std::string& end, const Revision& revision, size_t ends_left) {
    const Outcome first = last_outcome_;
    for (size_t i = 1; i < question_.end_runs; ++i, --ends_left) {
      run(revision, ends_left + search_.left() + 2);
      const Outcome second = last_outcome_;
      const Judgement same = judge_repetition(question_.criterion, first, second);
      if (same.verdict != Verdict::kGood) {
        finding_.result = Result::kCannotJudge;
        finding_.reason = "this run is not deterministic: run again, the " + end + " end, " +
                          revision.short_id() + ", is not what it was (" + same.reason + ")";
        finding_.sides = {"first run", "second run"};
        if (!first.dump.empty() && !second.dump.empty()) drill_down(first.dump, second.dump);
        return false;
      }
      workspace_.drop_output(last_run_);
    }
    return true;
  }

  bool refuse(const std::string& end, const Judgement& judgement) {
    const std::string which =
        "the " + end + " end, " + (end == "good" ? finding_.good : finding_.bad).short_id() + ", ";
    if (judgement.verdict == Verdict::kSkip) {
      finding_.result = Result::kCannotJudge;
      finding_.reason = which + "cannot be judged: " + judgement.reason;
    } else {
      finding_.result = Result::kNothing;
      finding_.reason = which + "is " + std::string(to_string(judgement.verdict)) + " (" +
                        judgement.reason + "): the ends do not differ as they should";
    }
    return false;
  }

  /// Judges a revision of the history. Equal trees are run once.
  Judgement judge_place(size_t place, size_t ends_left = 0) {
    const Revision& revision = history_[place];
    const auto known = judged_.find(revision.tree);
    if (known != judged_.end()) {
      Trial trial{revision, known->second, 0, true};
      listener_.end(finding_.trials.emplace_back(trial));
      return trial.judgement;
    }
    const Judgement judgement = run(revision, ends_left + search_.left() + 2);
    left_[place] = {last_outcome_, last_run_};
    judged_[revision.tree] = judgement;
    return judgement;
  }

  /// What the two sides between which the search goes on left is compared in the end, and what the
  /// ends left with what they leave when they are run again; nobody asks for any other.
  void drop_unless_side(size_t place) {
    const bool end = place == 0 || place + 1 == history_.size();
    if (end || place == search_.good() || place == search_.bad()) return;
    const auto left = left_.find(place);
    if (left == left_.end()) return;
    workspace_.drop_output(left->second.folder);
    left_.erase(left);
  }

  /// Runs a revision in a fresh worktree and judges what it leaves.
  Judgement run(const Revision& revision, size_t left) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    listener_.begin(revision, left);
    last_run_ = workspace_.add_run(revision.short_id());
    last_outcome_ = outcome_of(revision);
    Trial trial{revision, judge(question_.criterion, reference(), last_outcome_)};
    if (!reference_) {
      reference_ = last_outcome_;
      reference_folder_ = last_run_.output();
    }
    trial.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    listener_.end(finding_.trials.emplace_back(trial));
    return trial.judgement;
  }

  /// A revision that cannot be checked out cannot be judged.
  Outcome outcome_of(const Revision& revision) {
    std::optional<Worktree> worktree;
    try {
      worktree.emplace(repository_, revision, workspace_.worktree());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kEnvironment) throw;
      return {Outcome::Kind::kNothing, error.what()};
    }
    const RunPlace place{worktree->path(), revision.id, reference_folder_, last_run_};
    return run_recipe(question_.recipe, place, workspace_, interrupt_);
  }

  /// Runs the two sides of the finding until each was run often enough: what a build left behind or
  /// a run that is not repeatable must not name a culprit.
  void confirm() {
    const size_t culprit_place = search_.bad(), parent_place = search_.good();
    const Revision &culprit = history_[culprit_place], &parent = history_[parent_place];
    const size_t parent_missing = runs_missing(parent_place);
    for (size_t i = runs_missing(culprit_place); i > 0; --i) {
      if (!confirms(culprit_place, Verdict::kBad, i + parent_missing)) return;
    }
    for (size_t i = parent_missing; i > 0; --i) {
      if (!confirms(parent_place, Verdict::kGood, i)) return;
    }
    finding_.culprit = last_judgement(culprit);
    finding_.confirmed = true;
    finding_.result = Result::kFound;
    finding_.culprit_runs = runs_of(culprit);
    finding_.parent_runs = runs_of(parent);
    finding_.not_run = static_cast<size_t>(std::ranges::count_if(
        history_, [&](const Revision& revision) { return !judged_.contains(revision.tree); }));
    if (finding_.evidence == Outcome::Kind::kDump) {
      drill_down(left_.at(parent_place).outcome.dump, left_.at(culprit_place).outcome.dump);
    }
  }

  /// Runs a side once more; false, with the reason, where it is not what it was.
  bool confirms(size_t place, Verdict expected, size_t left) {
    const Revision& revision = history_[place];
    const Judgement again = run(revision, left);
    left_[place] = {last_outcome_, last_run_};
    if (again.verdict == expected) return true;
    finding_.result = Result::kCannotJudge;
    finding_.reason = revision.short_id() + " was " + std::string(to_string(expected)) +
                      " at first and is " + std::string(to_string(again.verdict)) +
                      " when it is run again (" + again.reason +
                      "): its run is not repeatable, so no revision can be blamed";
    return false;
  }

  size_t runs_of(const Revision& revision) const {
    return static_cast<size_t>(std::ranges::count_if(finding_.trials, [&](const Trial& trial) {
      return !trial.cached && trial.revision.id == revision.id;
    }));
  }

  /// At least 1 for a side that left nothing: its tree was judged at another place.
  size_t runs_missing(size_t place) const {
    return question_.side_runs - std::min(question_.side_runs, runs_of(history_[place]));
  }

  std::optional<Judgement> last_judgement(const Revision& revision) const {
    for (auto trial = finding_.trials.rbegin(); trial != finding_.trials.rend(); ++trial) {
      if (trial->revision.id == revision.id) return trial->judgement;
    }
    return std::nullopt;
  }

  /// What was found stands whether or not the dumps say where they part.
  void drill_down(const std::string& first, const std::string& second) {
    try {
      finding_.drilled = compare_dumps(first, second, question_.find_element);
    } catch (const Error& error) {
      finding_.undrilled = error.where() + ": " + error.what();
    }
  }

  const Outcome* reference() const { return reference_ ? &*reference_ : nullptr; }

  const RevisionQuestion& question_;
  const Interrupt& interrupt_;
  const Listener& listener_;
  Repository repository_;
  std::vector<Revision> history_;  // the good end first
  Search search_;
  Workspace workspace_;
  std::optional<Outcome> reference_;  // what the good end's first run left
  std::string reference_folder_;
  RunFolder last_run_;
  Outcome last_outcome_;
  std::map<std::string, Judgement> judged_;  // by tree
  std::map<size_t, Left> left_;              // by place, of those whose output is still there
  Finding finding_;
};

}  // namespace

Finding find_revision(const RevisionQuestion& question, const Interrupt& interrupt,
                      const Listener& listener) {
  return RevisionSearch(question, interrupt, listener).find();
}

}  // namespace rlreplay::bisect
