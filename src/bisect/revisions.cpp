#include "src/bisect/revisions.h"

#include <chrono>
#include <map>

#include "src/base/error.h"
#include "src/bisect/search.h"
#include "src/bisect/worktree.h"

namespace rlreplay::bisect {
namespace {

using Result = Finding::Result;

class RevisionSearch {
 public:
  RevisionSearch(const RevisionQuestion& question, const Interrupt& interrupt,
                 const Listener& listener)
      : question_(question),
        interrupt_(interrupt),
        listener_(listener),
        repository_(Repository::open(question.repository)),
        history_(repository_.history(repository_.resolve(question.good),
                                     repository_.resolve(question.bad))),
        search_(history_.size() - 1),
        workspace_(question.output, interrupt) {
    finding_.good = history_.front();
    finding_.bad = history_.back();
    finding_.revisions = history_.size() - 1;
  }

  Finding find() {
    if (!run_ends()) return finding_;
    while (const auto place = search_.next()) {
      search_.add(*place, judge_place(*place).verdict);
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
    if (!repeats("good", history_[0], 2 * question_.end_runs - 1)) return false;
    const Judgement bad = judge_place(last, question_.end_runs);
    if (bad.verdict != Verdict::kBad) return refuse("bad", bad);
    const RunFolder first = last_run_;
    if (!repeats("bad", history_[last], question_.end_runs - 1)) return false;
    workspace_.drop_output(first);
    return true;
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
    // What the ends left is still compared with what they leave when they are run again.
    if (place != 0 && place + 1 != history_.size()) workspace_.drop_output(last_run_);
    judged_[revision.tree] = judgement;
    return judgement;
  }

  /// Runs a revision in a fresh worktree and judges what it leaves.
  Judgement run(const Revision& revision, size_t left) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    listener_.begin(revision, left);
    last_run_ = workspace_.add_run(revision.short_id());
    const Worktree worktree(repository_, revision, workspace_.worktree());
    const RunPlace place{worktree.path(), revision.id, reference_folder_, last_run_};
    const Outcome outcome = run_recipe(question_.recipe, place, workspace_, interrupt_);
    Trial trial{revision, judge(question_.criterion, reference(), outcome)};
    if (!reference_) {
      reference_ = outcome;
      reference_folder_ = last_run_.output();
    }
    last_outcome_ = outcome;
    trial.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    listener_.end(finding_.trials.emplace_back(trial));
    return trial.judgement;
  }

  /// Runs the two sides of the finding again: what a build left behind or a run that is not
  /// repeatable must not name a culprit.
  void confirm() {
    const Judgement bad = run(finding_.suspects.back(), 2);
    const std::string bad_dump = last_outcome_.dump;
    const Judgement good = run(*finding_.parent, 1);
    finding_.culprit = bad;
    finding_.confirmed = bad.verdict == Verdict::kBad && good.verdict == Verdict::kGood;
    finding_.result = finding_.confirmed ? Result::kFound : Result::kCannotJudge;
    if (finding_.confirmed) {
      if (finding_.evidence == Outcome::Kind::kDump) drill_down(last_outcome_.dump, bad_dump);
      return;
    }
    const bool bad_changed = bad.verdict != Verdict::kBad;
    const Revision& changed = bad_changed ? finding_.suspects.back() : *finding_.parent;
    const Judgement& again = bad_changed ? bad : good;
    finding_.reason = changed.short_id() + " was " + (bad_changed ? "bad" : "good") +
                      " at first and is " + std::string(to_string(again.verdict)) +
                      " when it is run again (" + again.reason +
                      "): its run is not repeatable, so no revision can be blamed";
  }

  /// What was found stands whether or not the dumps say where they part.
  void drill_down(const std::string& first, const std::string& second) {
    try {
      finding_.drilled = compare_dumps(first, second);
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
  Finding finding_;
};

}  // namespace

Finding find_revision(const RevisionQuestion& question, const Interrupt& interrupt,
                      const Listener& listener) {
  return RevisionSearch(question, interrupt, listener).find();
}

}  // namespace rlreplay::bisect
