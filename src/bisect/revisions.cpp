#include "src/bisect/revisions.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/bisect/revision_executor.h"
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

}  // namespace

Finding find_revision(const RevisionQuestion& question, const Interrupt& interrupt,
                      const Listener& listener) {
  const Repository repository = Repository::open(question.repository, interrupt.fd());
  const auto history =
      repository.history(repository.resolve(question.good), repository.resolve(question.bad));
  Workspace::remove_abandoned(repository);
  Workspace workspace(question.output, interrupt);
  Sampler* sampler_of_good = nullptr;
  const auto reference = [&]() -> std::string {
    const auto& samples = sampler_of_good->of(candidate_of(history.front()));
    return samples.empty() ? "" : samples.front().measurement.output;
  };
  Recipe recipe = question.recipe;
  recipe.log_probs = question.plan.criterion.needs_log_probs();
  RevisionExecutor executor(repository, recipe, workspace, interrupt, reference);
  Sampler sampler(executor, nullptr,
                  [&](const Measurement& m) { workspace.drop_output(m.output); });
  sampler_of_good = &sampler;
  HistorySearch search(
      history, question.plan, sampler, candidate_of,
      [&](const Revision& merge) { return repository.branches(merge); }, listener);
  Finding finding = search.find();
  drill_down(question.find_element, finding);
  return finding;
}

replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b,
                                      const replay::ElementFinder& find_element) {
  return replay::compare_dumps(open_ended(a), open_ended(b), {}, find_element);
}

}  // namespace rlreplay::bisect
