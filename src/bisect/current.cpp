#include "src/bisect/current.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/bisect/git.h"

namespace rlreplay::bisect {
namespace {

/// The shell's exit codes for a command that it cannot start.
constexpr int kNotExecutable = 126, kNotFound = 127;

/// The commit of the checkout here; empty where there is none.
std::string current_revision(const std::string& folder) {
  try {
    return Repository::open(folder).resolve("HEAD").id;
  } catch (const Error&) {
    return {};
  }
}

Outcome read_reference(const std::string& path) {
  Outcome reference = read_recorded(path);
  if (reference.kind == Outcome::Kind::kNothing) {
    throw Error(ErrorCode::kCorrupt, "this is no reference: " + reference.problem, path);
  }
  return reference;
}

}  // namespace

Judgement judge_current(const CurrentQuestion& question, const Interrupt& interrupt) {
  std::optional<Outcome> reference;
  RunPlace place;
  if (question.reference) {
    reference = read_reference(*question.reference);
    place.reference = std::filesystem::canonical(*question.reference);
  }
  place.checkout = std::filesystem::current_path();
  place.revision = current_revision(place.checkout);
  Workspace workspace(std::nullopt, interrupt);
  place.folder = workspace.add_run("current");
  if (reference) check_tolerance(question.criterion, *reference);
  const Outcome outcome = run_recipe(question.recipe, place, workspace, interrupt);
  if (outcome.exit_code == kNotExecutable || outcome.exit_code == kNotFound) {
    throw Error(ErrorCode::kUsage,
                "the --run command cannot be run here, and every revision would be skipped: " +
                    outcome.problem);
  }
  const bool has_output =
      outcome.kind == Outcome::Kind::kMetrics || outcome.kind == Outcome::Kind::kDump;
  if (!reference && has_output) {
    throw Error(ErrorCode::kUsage,
                "the run left " + to_string(outcome.kind) +
                    ", and there is nothing to compare it with: name what the good revision's run "
                    "left by --reference");
  }
  return judge(question.criterion, reference ? &*reference : nullptr, outcome);
}

Judgement judge_recorded(const Criterion& criterion, const std::string& reference,
                         const std::string& path) {
  const Outcome good = read_reference(reference);
  check_tolerance(criterion, good);
  return judge(criterion, &good, read_recorded(path));
}

}  // namespace rlreplay::bisect
