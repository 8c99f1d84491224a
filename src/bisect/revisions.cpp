#include "src/bisect/revisions.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/bisect/bisect_log.h"
#include "src/bisect/checkout_settings.h"
#include "src/bisect/editable_install.h"
#include "src/bisect/revision_executor.h"
#include "src/bisect/session.h"
#include "src/bisect/stat_search.h"
#include "src/bisect/uncommitted.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::bisect {
namespace {

replay::RecordedRun open_ended(const std::string& path) {
  replay::RecordedRun run(path);
  if (!run.dump().sealed() || !run.dump().complete()) {
    throw Error(ErrorCode::kIncomplete, "this dump was not recorded to its end", path);
  }
  return run;
}

/// The question with what a log of git bisect says.
RevisionQuestion with_log(const Repository& repository, RevisionQuestion question) {
  if (!question.log) return question;
  for (const auto& [name, verdict] : read_bisect_log(*question.log)) {
    question.plan.known[repository.resolve(name).id] = verdict;
    if (question.good.empty() && verdict == Verdict::kGood) question.good = name;
    if (question.bad.empty() && verdict == Verdict::kBad) question.bad = name;
  }
  if (!question.good.empty() && !question.bad.empty()) return question;
  throw Error(ErrorCode::kUsage, "this log names no good or no bad commit: give the ends",
              *question.log);
}

/// Errors: kUsage for a path that neither end has: all revisions would be one.
void check_paths(const Repository& repository, const RevisionQuestion& question,
                 const std::vector<Revision>& history) {
  for (const std::string& path : question.paths) {
    const auto has = [&](const Revision& end) { return !repository.listing(end, {path}).empty(); };
    if (has(history.front()) || has(history.back())) continue;
    throw Error(ErrorCode::kUsage,
                "neither end has the path " + path + " (taken from the folder of --repo)",
                repository.folder());
  }
}

/// The history between the ends, before anything is run. Errors: kUsage, kIncomplete for what else
/// the question names and is not there.
std::vector<Revision> checked_history(const Repository& repository,
                                      const RevisionQuestion& question) {
  auto history =
      repository.history(repository.resolve(question.good), repository.resolve(question.bad));
  check_paths(repository, question, history);
  for (const auto& [path, clone] : question.dependencies)
    static_cast<void>(Repository::open(clone, repository.stop_fd()));
  return history;
}

Recipe recipe_of(const RevisionQuestion& question) {
  Recipe recipe = question.recipe;
  recipe.log_probs = recipe.log_probs || question.plan.criterion.needs_log_probs();
  return recipe;
}

/// Names the content of revisions, and what of it was declared to matter, once each.
class Contents {
 public:
  Contents(const Repository& repository, const std::vector<std::string>& paths)
      : repository_(repository), paths_(paths) {}

  Candidate candidate(const Revision& revision) {
    Candidate candidate{.revision = revision.id, .content = revision.tree};
    if (paths_.empty()) return candidate;
    std::string& declared = known_[revision.tree];
    if (declared.empty()) declared = hash_of(repository_.listing(revision, paths_)).hex();
    candidate.declared = declared;
    return candidate;
  }

 private:
  const Repository& repository_;
  const std::vector<std::string>& paths_;
  std::map<std::string, std::string> known_;  // by trees
};

/// Where the measurements of a search are stored.
DiskStore store_of(const Repository& repository, const Recipe& recipe,
                   const std::vector<Revision>& history, const Candidate& good) {
  const std::string settings = checkout_settings(repository, {history.front(), history.back()});
  return {repository.store() + "/measurements", context_of(recipe, good) + hash_of(settings).hex(),
          good};
}

/// All that a search over revisions stands on.
class Ground {
 public:
  Ground(const RevisionQuestion& asked, const Interrupt& interrupt)
      : repository(Repository::open(asked.repository, interrupt.fd())),
        question(with_log(repository, asked)),
        history(checked_history(repository, question)),
        recipe_(recipe_of(question)),
        contents_(repository, question.paths),
        store_(store_of(repository, recipe_, history, contents_.candidate(history.front()))),
        session_(repository.store(),
                 {question.words, history.front().id, history.back().id, question.fresh}),
        workspace_(question.output, interrupt, session_.runs()),
        executor_(
            repository, recipe_, workspace_, interrupt, [this] { return reference(); },
            question.plan.jobs),
        sampler(executor_, question.fresh ? nullptr : &store_,
                [this](const Measurement& m) { workspace_.drop_output(m.output); }) {
    sampler.set_most(question.most_runs);
  }

  CandidateOf candidate_of() {
    return [this](const Revision& revision) { return contents_.candidate(revision); };
  }

  /// Tells the session, too; of a submodule where the search is inside of one.
  Listener journal(const Listener& listener, const std::string& dependency = {}) const {
    if (listener.start && dependency.empty()) listener.start(history);
    return {listener.begin, [this, &listener, dependency](const Trial& trial) {
              session_.add(trial, dependency);
              listener.end(trial);
            }};
  }

  void end(const auto& found) const { session_.end(found); }

  Repository repository;
  RevisionQuestion question;
  std::vector<Revision> history;

 private:
  /// The output folder of the good end's first run; empty where it has not run.
  std::string reference() {
    const auto& samples = sampler.of(contents_.candidate(history.front()));
    return samples.empty() ? "" : samples.front().measurement.output;
  }

  Recipe recipe_;
  Contents contents_;
  DiskStore store_;
  Session session_;
  Workspace workspace_;
  RevisionExecutor executor_;

 public:
  Sampler sampler;
};

/// `search`, which tells where it is interrupted whether it can go on.
template <class Search>
auto resumable(const RevisionQuestion& question, const Search& search) {
  try {
    return search();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    throw Error(error.code(), "interrupted" + going_on(question.fresh));
  }
}

Merged merged_in(const Repository& repository) {
  return {.branches = [&](const Revision& merge) { return repository.branches(merge); },
          .contents = [&](const Revision& of,
                          const auto& without) { return repository.contents(of, without); }};
}

/// Where a submodule's pin changed, the search goes on in its clone: of the culprit with one commit
/// of the submodule after the other.
Finding search_submodule(Ground& ground, const Pin& pin, const std::string& clone,
                         const Revision& culprit, const Listener& listener) {
  const Repository inner = Repository::open(clone, ground.repository.stop_fd());
  const auto history = inner.history(inner.resolve(pin.before), inner.resolve(pin.after));
  const auto candidate_of = [&](const Revision& revision) {
    return Candidate{.revision = revision.id,
                     .content = revision.tree,
                     .settings = {{kDependency, pin.path},
                                  {kOuter, culprit.id},
                                  {kClone, std::filesystem::absolute(clone).string()}}};
  };
  HistorySearch search(history, ground.question.plan, ground.sampler, candidate_of,
                       merged_in(inner), ground.journal(listener, pin.path));
  Finding finding = search.find();
  finding.dependency = pin.path;
  return finding;
}

bool search_inside(Ground& ground, const Listener& listener, Finding& finding) {
  for (const auto& [path, clone] : ground.question.dependencies) {
    const auto pin = std::ranges::find(finding.pins, path, &Pin::path);
    if (pin == finding.pins.end() || !pin->submodule) {
      finding.inside_note += (finding.inside_note.empty() ? "" : "; ") +
                             ("the culprit does not change the submodule " + path);
      continue;
    }
    finding.inside.push_back(search_submodule(ground, *pin, clone, finding.suspects[0], listener));
    finding.cut = finding.cut || finding.inside.back().cut;
  }
  return !finding.inside.empty();
}

/// Removes what killed searches have left, and says what would spoil this one.
void prepare(const RevisionQuestion& question, const Interrupt& interrupt) {
  const Repository repository = Repository::open(question.repository, interrupt.fd());
  Workspace::remove_abandoned(repository);
  warn_of_editable_install(repository);
}

template <class Count>
Forecast forecast_by(const RevisionQuestion& asked, const Interrupt& interrupt,
                     const Count& count) {
  const Repository repository = Repository::open(asked.repository, interrupt.fd());
  const RevisionQuestion question = with_log(repository, asked);
  const auto history = checked_history(repository, question);
  Forecast out{history.size() - 1};
  count(question.plan, out.revisions, out);
  out.most = std::min(out.most, question.most_runs);
  const Candidate good = Contents(repository, question.paths).candidate(history.front());
  DiskStore store = store_of(repository, recipe_of(question), history, good);
  const auto known = store.load(good);
  if (!known.empty() && !question.fresh) out.seconds = known.front().seconds;
  return out;
}

}  // namespace

Forecast forecast(const RevisionQuestion& asked, const Interrupt& interrupt) {
  return forecast_by(asked, interrupt, [](const SearchPlan& plan, size_t revisions, Forecast& out) {
    out.most = 2 * plan.end_runs + Search(revisions).left() + plan.probes + 2 * plan.side_runs;
    out.condition = " where none is skipped, the ends repeat and no merge is entered";
  });
}

Forecast forecast_changes(const RevisionQuestion& asked, const Interrupt& interrupt) {
  return forecast_by(asked, interrupt, [](const SearchPlan& plan, size_t revisions, Forecast& out) {
    out.most = 2 * plan.end_runs + revisions - 1;
    out.condition = " where the ends repeat";
  });
}

Finding find_revision(const RevisionQuestion& question, const Interrupt& interrupt,
                      const Listener& listener) {
  prepare(question, interrupt);
  Ground ground(question, interrupt);
  warn_of_uncommitted(ground.repository, ground.history);
  const Listener journal = ground.journal(listener);
  const SearchPlan& plan = ground.question.plan;
  HistorySearch search(ground.history, plan, ground.sampler, ground.candidate_of(),
                       merged_in(ground.repository), journal);
  Finding finding = resumable(question, [&] {
    return plan.confidence
               ? find_change(ground.history, plan, ground.sampler, ground.candidate_of(), journal)
               : search.find();
  });
  if (finding.suspects.size() == 1 && finding.parent) {
    finding.pins = ground.repository.changed_pins(*finding.parent, finding.suspects[0]);
    if (finding.confirmed) {
      resumable(question, [&] { return search_inside(ground, listener, finding); });
    }
  }
  ground.end(finding);
  return finding;
}

Changes find_changes(const RevisionQuestion& question, const Interrupt& interrupt,
                     const Listener& listener) {
  prepare(question, interrupt);
  Ground ground(question, interrupt);
  Changes changes = resumable(question, [&] {
    return find_changes(ground.history, question.plan, ground.sampler, ground.candidate_of(),
                        ground.journal(listener));
  });
  changes.fresh = question.fresh;
  ground.end(changes);
  return changes;
}

replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b,
                                      const replay::ElementFinder& find_element) {
  return replay::compare_dumps(open_ended(a), open_ended(b), {}, find_element);
}

}  // namespace rlreplay::bisect
