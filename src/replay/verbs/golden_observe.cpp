#include <cmath>
#include <filesystem>

#include "src/base/build_info.h"
#include "src/base/error.h"
#include "src/base/process.h"
#include "src/base/shell.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/recorded_commit.h"
#include "src/replay/gate/run_values.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/rerun/golden_inputs.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"
#include "src/task/find_tokenizer.h"

namespace rlreplay::replay {
namespace {

/// A golden file names a checkpoint by where it lay when the file was made.
/// Errors: kIncomplete where no checkpoint lies there.
void check_model_there(const GoldenArguments& arguments, const std::string& model,
                       const std::string& path) {
  std::error_code absent;  // also where a recorded path can be none
  if (model == kDemo || arguments.flags.gives("model") ||
      std::filesystem::exists(model + "/config.json", absent)) {
    return;
  }
  throw Error(ErrorCode::kIncomplete,
              "the golden run's checkpoint is not at " + shell_word(model) +
                  ": where the same one lies elsewhere, say so: rlreplay golden check " +
                  shell_word(path) + " --model DIR",
              path);
}

gate::Observation observe_ours(const RunOptions& options, bool twice) {
  Machine machine(options);
  gate::Observation out{.inputs = golden_inputs(options),
                        .values = golden_run(machine.runtime(), options)};
  // After the run: a library says its version where it is loaded.
  out.environment = gate::environment_now(computing(options));
  if (twice) out.again = golden_run(machine.runtime(), options);
  return out;
}

gate::Observation observe_command(const gate::Golden& golden, const GoldenArguments& arguments,
                                  const std::string& path, bool twice) {
  const std::string command = command_of(golden, arguments, path);
  gate::Observation out{gate::environment_now({})};
  const auto values = [&]() -> GoldenEntries {
    auto [run, dump] = gate::run_command(command, limit_of(arguments));
    out.dump = std::move(dump);
    if (run.kind == measure::RunKind::kRan) return gate::values_of(run);
    out.problem = run.problem;
    return {};
  };
  out.values = values();
  if (twice && out.problem.empty()) out.again = values();
  return out;
}

}  // namespace

std::chrono::milliseconds limit_of(const GoldenArguments& arguments) {
  if (arguments.time_limit == 0) return ProcessLimits::kNoTime;
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(arguments.time_limit * 1e3)));
}

std::string command_of(const gate::Golden& golden, const GoldenArguments& arguments,
                       const std::string& path) {
  if (!arguments.run.empty()) return arguments.run;
  const std::string recorded = gate::about(golden, "run");
  if (arguments.run_recorded) return recorded;
  throw Error(ErrorCode::kUsage,
              "nothing is run because a file says so: if you know this command, give it again, "
              "--run " +
                  shell_word(recorded) + ", or --run-recorded for those of all files",
              path);
}

void check_asked(const gate::Golden& golden, const GoldenArguments& arguments,
                 const std::string& path) {
  const bool command = !gate::about(golden, "run").empty();
  if (command && !arguments.flags.empty()) {
    throw Error(ErrorCode::kUsage,
                "its run is a command, which options of rlreplay's own runs do not reach: leave "
                "them out, or say it in the command",
                path);
  }
  if (!command && !arguments.run.empty()) {
    throw Error(ErrorCode::kUsage,
                "its run is one of rlreplay itself, and no command: check it without --run", path);
  }
}

std::optional<RunOptions> options_now(const gate::Golden& golden, const GoldenArguments& arguments,
                                      const std::string& path) {
  check_asked(golden, arguments, path);
  if (!gate::about(golden, "run").empty()) return std::nullopt;
  const RunOptions recorded = options_of(golden.options);
  const RunOptions options = arguments.flags.resolve_record(recorded);
  check_golden_options(options);
  arguments.flags.check_given(recorded, path);
  check_model_there(arguments, options.model, path);
  return options;
}

gate::Observation observe(const gate::Golden& golden, const std::optional<RunOptions>& options,
                          const GoldenArguments& arguments, const std::string& path, bool twice) {
  return options ? observe_ours(*options, twice) : observe_command(golden, arguments, path, twice);
}

GoldenEntries about_now(const std::string& run, const std::string& path,
                        const std::string& class_name, bool may_be_changed) {
  GoldenEntries out = {{"class", class_name}, {"program", program_version()}};
  if (run.empty()) {
    out["contract"] = kContractVersion;
  } else {
    out["run"] = run;
  }
  if (const auto checkout = gate::find_checkout(path)) {
    if (!checkout->changed.empty() && !may_be_changed) {
      throw Error(ErrorCode::kUsage,
                  shell_word(checkout->changed) +
                      " is not as committed, so that nobody could give these values again: commit "
                      "first, or --allow-changed",
                  path);
    }
    out["commit"] = checkout->commit + (checkout->changed.empty() ? "" : "-changed");
  }
  return out;
}

}  // namespace rlreplay::replay
