#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "src/base/build_info.h"
#include "src/base/error.h"
#include "src/base/process.h"
#include "src/base/shell.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/forms.h"
#include "src/replay/gate/pending.h"
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
  Machine machine(options, own_rank_host(options));
  gate::Observation out{.inputs = golden_inputs(options),
                        .values = golden_run(machine.runtime(), options)};
  // After the run: a library says its version where it is loaded.
  out.environment = gate::environment_now(computing(options));
  if (twice) out.again = golden_run(machine.runtime(), options);
  return out;
}

constexpr size_t kShownLog = 20;  // lines

/// The last lines of what a run printed.
std::string last_lines(const std::string& log) {
  std::ifstream file(log, std::ios::binary);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > kShownLog) lines.pop_front();
  }
  std::string out;
  for (const std::string& line : lines) out += "  " + line + '\n';
  return out;
}

/// What is said of a run that gives no values beside why: how it ended, and where what it printed
/// lies. Where that cannot be kept, its last lines go to standard error.
std::string log_text(const gate::CommandRun& ran, const std::string& why, const std::string& path) {
  const std::string ended = why.find(ran.ended) == why.npos ? "; it " + ran.ended : "";
  const std::string printed = last_lines(ran.log);
  if (printed.empty()) return ended + "; it printed nothing";
  if (const std::string kept = gate::keep_log(path, ran.log); !kept.empty()) {
    return ended + "; what it printed is in " + shell_word(kept);
  }
  std::cerr << "rlreplay: " << path << ": what its run printed last:\n"
            << (gate::in_ci() ? gate::without_commands(printed) : printed);
  return ended;
}

/// The values of a run; nothing where it gives none, which `problem` then says.
/// Errors: those of values_of.
GoldenEntries values_or(std::string& problem, const gate::CommandRun& ran,
                        const std::string& path) {
  const std::string& why = ran.measurement.problem;
  if (ran.measurement.kind != measure::RunKind::kRan) {
    problem = why + log_text(ran, why, path);
    return {};
  }
  try {
    GoldenEntries out = gate::values_of(ran.measurement);
    gate::drop_log(path);
    return out;
  } catch (const Error& error) {
    throw Error(error.code(), error.what() + log_text(ran, error.what(), path), error.where());
  }
}

gate::Observation observe_command(const gate::Golden& golden, const GoldenArguments& arguments,
                                  const std::string& path, bool twice) {
  const std::string command = command_of(golden, arguments, path);
  gate::Observation out{gate::environment_now({})};
  const auto values = [&]() -> GoldenEntries {
    gate::CommandRun ran = gate::run_command(command, limit_of(arguments));
    out.dump = ran.dump;
    return values_or(out.problem, ran, path);
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

void check_says_run(const gate::Golden& golden, const std::string& path) {
  if (!gate::about(golden, "run").empty() || golden.options.contains("model")) return;
  throw Error(
      ErrorCode::kIncomplete,
      "it does not say of which run it is, by no line \"about run\" and no \"option model\": "
      "record it again",
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
  check_says_run(golden, path);
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

GoldenEntries about_now(const std::string& run, const std::string& build, const std::string& path,
                        const std::string& class_name, bool may_be_changed) {
  GoldenEntries out = {{"class", class_name}, {"program", program_version()}};
  if (run.empty()) {
    out["contract"] = kContractVersion;
  } else {
    out["run"] = run;
  }
  if (!build.empty()) out["build"] = build;
  const auto checkout = gate::find_checkout(path, run.empty() ? "" : run + '\n' + build);
  if (!checkout) return out;
  const std::string why = gate::uncommitted(*checkout);
  if (!why.empty() && !may_be_changed) {
    throw Error(ErrorCode::kUsage,
                why + ", so that nobody could give these values again: commit first" +
                    (checkout->changed.empty() ? ", let .gitignore name what no run reads" : "") +
                    ", or --allow-changed",
                path);
  }
  out["commit"] = checkout->commit + (why.empty() ? "" : "-changed");
  return out;
}

}  // namespace rlreplay::replay
