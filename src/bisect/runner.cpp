#include "src/bisect/runner.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <unistd.h>

#include "src/base/run_git.h"
#include "src/base/shell.h"
#include "src/base/terminal.h"
#include "src/bisect/guardian.h"
#include "src/replay/measure/evidence.h"
#include "src/replay/measure/judgement.h"

namespace rlreplay::bisect {
namespace {

std::optional<std::string> if_any(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

/// The name by which a scheduler knows a run.
std::string job_name(const RunPlace& place) {
  return "rlbisect-" + std::to_string(::getpid()) + "-" +
         std::filesystem::path(place.folder.path).filename().string();
}

/// How a job that outlives its launcher is ended.
std::string job_sentence(const Recipe& recipe, const RunPlace& place) {
  const std::string program =
      std::filesystem::path(recipe.launch.substr(0, recipe.launch.find(' '))).filename();
  const std::string name = job_name(place);
  const bool slurm = program == "srun" || program == "salloc" || program == "sbatch";
  return "where its job " + name + " still runs, " +
         (slurm ? "scancel --name=" + name : "cancel it by that name (RLBISECT_JOB)");
}

ProcessResult run_command(const std::string& text, const std::string& log, const RunPlace& place,
                          const Recipe& recipe, const Interrupt& interrupt) {
  Command command = guarded_command(text);
  command.folder = place.checkout;
  command.log = log;
  clear_git_variables(command);
  command.environment.emplace_back("RLBISECT_OUT", place.folder.output());
  command.environment.emplace_back("RLBISECT_REVISION", if_any(place.revision));
  command.environment.emplace_back("RLBISECT_CONFIG", if_any(place.configuration));
  command.environment.emplace_back("RLBISECT_REFERENCE", if_any(place.reference));
  if (!recipe.launch.empty()) {
    command.environment.emplace_back("RLBISECT_JOB", job_name(place));
    command.environment.emplace_back("SLURM_JOB_NAME", job_name(place));
  }
  ProcessLimits limits;
  limits.time = recipe.time_limit;
  limits.stop_fd = interrupt.fd();
  limits.grace = 4 * kGuardGrace;
  const ProcessResult result = run_process(command, "", limits);
  if (result.end == ProcessResult::End::kStopped) {
    if (!recipe.launch.empty()) {
      std::fprintf(stderr, "rlbisect: %s\n", terminal_text(job_sentence(recipe, place)).c_str());
    }
    throw interrupted();
  }
  return result;
}

/// `: the last line that a run wrote`, whose exit code alone decides; empty where it wrote none.
std::string last_words(const ProcessResult& run) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t end = run.error_tail.find_last_not_of(kBlank);
  if (end == run.error_tail.npos) return {};
  const size_t line = run.error_tail.find_last_of("\r\n", end) + 1;  // a bar draws over itself
  const size_t begin = run.error_tail.find_first_not_of(kBlank, line);
  constexpr size_t kShown = 200;
  return ": " + terminal_text(run.error_tail.substr(begin, std::min(kShown, end + 1 - begin)));
}

measure::Measurement run_once(const Recipe& recipe, const RunPlace& place, Workspace& workspace,
                              const Interrupt& interrupt) {
  const std::string log = place.folder.run_log();
  const bool launched = !recipe.launch.empty();
  const ProcessResult run =
      run_command(launched ? recipe.launch + " /bin/sh -c " + shell_word(recipe.run) : recipe.run,
                  log, place, recipe, interrupt);
  measure::Measurement out = measure::read_evidence(run, place.folder.output(), recipe.log_probs);
  if (launched && run.end != ProcessResult::End::kExit) {
    out.problem += "; " + job_sentence(recipe, place);
  }
  if (out.kind != measure::RunKind::kRan) out.problem += workspace.name_log(log);
  const bool code_alone = out.evidence == measure::Evidence::kExitCode && out.exit_code != 0;
  if (out.kind == measure::RunKind::kRan && code_alone) {
    out.problem = "exit code " + std::to_string(out.exit_code) + last_words(run);
  }
  return out;
}

/// Runs of both configurations; of one that did not come to its end the measurement.
measure::Measurement compare_runs(const Recipe& recipe, const RunPlace& place, Workspace& workspace,
                                  const Interrupt& interrupt) {
  const Comparison& asked = *recipe.comparison;
  std::vector<measure::Measurement> runs;
  for (const Configuration* side : {&asked.first, &asked.second}) {
    RunPlace here = place;
    here.folder.path += side == &asked.first ? "/first" : "/second";
    std::filesystem::create_directories(here.folder.output());
    here.configuration = write_configuration(*side, here.folder.path);
    runs.push_back(run_once(recipe, here, workspace, interrupt));
    if (runs.back().kind == measure::RunKind::kRan) continue;
    runs.back().problem = (side == &asked.first ? "the first" : "the second") +
                          std::string(" configuration: ") + runs.back().problem;
    return runs.back();
  }
  const bool codes = runs[0].evidence == measure::Evidence::kExitCode &&
                     runs[1].evidence == measure::Evidence::kExitCode;
  if (codes && runs[0].exit_code == runs[1].exit_code && runs[0].exit_code != 0) {
    return {.problem = "both configurations end with exit code " +
                       std::to_string(runs[0].exit_code) + " and leave nothing to compare"};
  }
  for (measure::Measurement& run : runs) run.problem.clear();  // neither was before the other
  measure::check_tolerance(asked.criterion, runs[0]);
  const measure::Judgement same = measure::judge_repetition(asked.criterion, runs[0], runs[1]);
  if (same.verdict == measure::Verdict::kSkip) return {.problem = same.reason};
  return {.kind = measure::RunKind::kRan,
          .problem = same.reason,
          .exit_code = same.verdict == measure::Verdict::kBad ? 1 : 0,
          .evidence = measure::Evidence::kExitCode};
}

}  // namespace

std::optional<measure::Measurement> build_checkout(const Recipe& recipe, const RunPlace& place,
                                                   Workspace& workspace,
                                                   const Interrupt& interrupt) {
  if (recipe.build.empty()) return std::nullopt;
  const std::string log = place.folder.build_log();
  const ProcessResult build = run_command(recipe.build, log, place, recipe, interrupt);
  if (build.succeeded()) return std::nullopt;
  return measure::Measurement{.kind = measure::RunKind::kBuildFailed,
                              .problem = "the build " + build.describe() + workspace.name_log(log),
                              .exit_code = build.code};
}

measure::Measurement run_checkout(const Recipe& recipe, const RunPlace& place, Workspace& workspace,
                                  const Interrupt& interrupt) {
  return recipe.comparison ? compare_runs(recipe, place, workspace, interrupt)
                           : run_once(recipe, place, workspace, interrupt);
}

}  // namespace rlreplay::bisect
