#include "src/bisect/revisions.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/bisect/revision_executor.h"
#include "src/bisect/session.h"
#include "src/bisect/stat_search.h"
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

/// What was found stands whether or not the dumps say where they part.
void drill_down(const replay::ElementFinder& find_element, Finding& finding) {
  if (finding.dumps.first.empty()) return;
  try {
    finding.drilled = compare_dumps(finding.dumps.first, finding.dumps.second, find_element);
  } catch (const Error& error) {
    finding.undrilled = error.where() + ": " + error.what();
  }
}

Candidate candidate_of(const Revision& revision) {
  return {.revision = revision.id, .content = revision.tree};
}

std::vector<Revision> history_of(const Repository& repository, const RevisionQuestion& question) {
  return repository.history(repository.resolve(question.good), repository.resolve(question.bad));
}

Recipe recipe_of(const RevisionQuestion& question) {
  Recipe recipe = question.recipe;
  recipe.log_probs = question.plan.criterion.needs_log_probs();
  return recipe;
}

DiskStore store_of(const Repository& repository, const RevisionQuestion& question,
                   const Revision& good) {
  return {repository.store() + "/measurements", context_of(recipe_of(question), candidate_of(good)),
          candidate_of(good)};
}

Finding find(const std::function<Finding()>& search) {
  try {
    return search();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    throw Error(error.code(), std::string(error.what()) + "; rlbisect resume goes on");
  }
}

}  // namespace

Forecast forecast(const RevisionQuestion& question, const Interrupt& interrupt) {
  const Repository repository = Repository::open(question.repository, interrupt.fd());
  const auto history = history_of(repository, question);
  Forecast out{history.size() - 1};
  out.most = 2 * question.plan.end_runs + Search(out.revisions).left() + question.plan.probes +
             2 * question.plan.side_runs;
  DiskStore store = store_of(repository, question, history.front());
  const auto known = store.load(candidate_of(history.front()));
  if (!known.empty() && !question.fresh) out.seconds = known.front().seconds;
  return out;
}

Finding find_revision(const RevisionQuestion& question, const Interrupt& interrupt,
                      const Listener& listener) {
  const Repository repository = Repository::open(question.repository, interrupt.fd());
  const auto history = history_of(repository, question);
  Workspace::remove_abandoned(repository);
  DiskStore store = store_of(repository, question, history.front());
  const Session session(repository.store(), question.words);
  Workspace workspace(question.output, interrupt, session.runs());
  Sampler* known = nullptr;
  const auto reference = [&]() -> std::string {
    const auto& samples = known->of(candidate_of(history.front()));
    return samples.empty() ? "" : samples.front().measurement.output;
  };
  const Recipe recipe = recipe_of(question);
  RevisionExecutor executor(repository, recipe, workspace, interrupt, reference);
  Sampler sampler(executor, question.fresh ? nullptr : &store,
                  [&](const Measurement& m) { workspace.drop_output(m.output); });
  sampler.set_most(question.most_runs);
  known = &sampler;
  const Listener journal{listener.begin, [&](const Trial& trial) {
                           session.add(trial);
                           listener.end(trial);
                         }};
  HistorySearch search(
      history, question.plan, sampler, candidate_of,
      [&](const Revision& merge) { return repository.branches(merge); }, journal);
  Finding finding = find([&] {
    return question.plan.confidence
               ? find_change(history, question.plan, sampler, candidate_of, journal)
               : search.find();
  });
  session.end(finding);
  drill_down(question.find_element, finding);
  return finding;
}

replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b,
                                      const replay::ElementFinder& find_element) {
  return replay::compare_dumps(open_ended(a), open_ended(b), {}, find_element);
}

}  // namespace rlreplay::bisect
