#include "src/bisect/runner.h"

#include "src/bisect/git.h"
#include "src/bisect/guardian.h"
#include "src/replay/measure/evidence.h"

namespace rlreplay::bisect {
namespace {

std::optional<std::string> if_any(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

ProcessResult run_command(const std::string& text, const std::string& log, const RunPlace& place,
                          const Recipe& recipe, const Interrupt& interrupt) {
  Command command = guarded_command(text);
  command.folder = place.checkout;
  command.log = log;
  for (const auto& name : git_variables()) command.environment.emplace_back(name, std::nullopt);
  command.environment.emplace_back("RLBISECT_OUT", place.folder.output());
  command.environment.emplace_back("RLBISECT_REVISION", if_any(place.revision));
  command.environment.emplace_back("RLBISECT_CONFIG", if_any(place.configuration));
  command.environment.emplace_back("RLBISECT_REFERENCE", if_any(place.reference));
  ProcessLimits limits;
  limits.time = recipe.time_limit;
  limits.stop_fd = interrupt.fd();
  limits.grace = 4 * kGuardGrace;
  const ProcessResult result = run_process(command, "", limits);
  if (result.end == ProcessResult::End::kStopped) {
    throw interrupted();
  }
  return result;
}

}  // namespace

std::optional<measure::Measurement> build_checkout(const Recipe& recipe, const RunPlace& place,
                                                   Workspace& workspace,
                                                   const Interrupt& interrupt) {
  if (recipe.build.empty()) return std::nullopt;
  const std::string log = place.folder.build_log();
  const ProcessResult build = run_command(recipe.build, log, place, recipe, interrupt);
  if (build.end == ProcessResult::End::kExit && build.code == 0) return std::nullopt;
  return measure::Measurement{.kind = measure::RunKind::kBuildFailed,
                              .problem = "the build " + build.describe() + workspace.name_log(log),
                              .exit_code = build.code};
}

measure::Measurement run_checkout(const Recipe& recipe, const RunPlace& place, Workspace& workspace,
                                  const Interrupt& interrupt) {
  const std::string log = place.folder.run_log();
  const ProcessResult run = run_command(recipe.run, log, place, recipe, interrupt);
  measure::Measurement out = measure::read_evidence(run, place.folder.output(), recipe.log_probs);
  if (out.kind != measure::RunKind::kRan) out.problem += workspace.name_log(log);
  return out;
}

}  // namespace rlreplay::bisect
