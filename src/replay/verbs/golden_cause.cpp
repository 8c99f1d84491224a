#include <filesystem>

#include "src/base/error.h"
#include "src/base/own_program.h"
#include "src/base/process.h"
#include "src/replay/gate/commit_run.h"
#include "src/replay/gate/recorded_commit.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

/// The build of a file's commit that the user gave, or has agreed to.
std::string build_of(const gate::Golden& golden, const GoldenArguments& arguments) {
  if (!arguments.build.empty()) return arguments.build;
  return arguments.run_recorded ? gate::about(golden, "build") : "";
}

/// Why nothing can be run at the commit of a file; empty where it can.
std::string problem_of_commit(const gate::Golden& golden) {
  const std::string commit = gate::about(golden, "commit");
  if (gate::about(golden, "run").empty()) return "its run is one of rlreplay itself";
  if (commit.empty()) return "the file names no commit";
  if (commit.ends_with("-changed")) return "it was recorded from a checkout with changes";
  return "";
}

}  // namespace

std::optional<gate::Attribution> attribute(const gate::Golden& golden,
                                           const GoldenArguments& arguments,
                                           const std::string& path, const GoldenEntries& now) {
  const std::string build = build_of(golden, arguments);
  if (build.empty()) return std::nullopt;
  const std::string problem = problem_of_commit(golden);
  if (!problem.empty()) return gate::Attribution{gate::AttributedTo::kNotAttributed, problem};
  const gate::CommitRecipe recipe{gate::about(golden, "commit"), build,
                                  command_of(golden, arguments, path), limit_of(arguments)};
  const gate::CommitRun old = gate::run_commit(
      golden.tolerances, recipe, std::filesystem::absolute(path).parent_path().string());
  if (!old.values) return gate::Attribution{gate::AttributedTo::kNotAttributed, old.problem};
  return gate::attribute(golden, now, *old.values);
}

std::string search_text(const gate::Golden& golden, const GoldenArguments& arguments,
                        const std::string& path) {
  namespace fs = std::filesystem;
  const auto checkout = gate::find_checkout(path);
  const std::string commit = gate::about(golden, "commit");
  std::string problem = problem_of_commit(golden);
  if (problem.empty() && !checkout) problem = "the file lies in no checkout of git";
  if (problem.empty() && checkout->commit == commit) {
    problem = "the recorded commit is checked out, so that what is not committed made the change";
  }
  if (!problem.empty()) return "no search: " + problem + '\n';
  Command command{{program_beside("rlbisect").string(), commit + ".." + checkout->commit, "--run",
                   command_of(golden, arguments, path)},
                  fs::absolute(path).parent_path().string()};
  if (const std::string build = build_of(golden, arguments); !build.empty()) {
    command.arguments.insert(command.arguments.end(), {"--build", build});
  }
  ProcessLimits limits;
  limits.time = ProcessLimits::kNoTime;
  const ProcessResult result = run_process(command, "", limits);
  if (!result.output.empty()) return result.output;
  return "no search: rlbisect " + result.describe() + '\n';
}

}  // namespace rlreplay::replay
