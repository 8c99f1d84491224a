#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <set>

#include "src/base/counted.h"
#include "src/base/error.h"
#include "src/base/shell_word.h"
#include "src/replay/config_file.h"
#include "src/replay/dump_meta.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/inspect/objective_report.h"
#include "src/replay/record_state.h"
#include "src/replay/replay.h"
#include "src/replay/verbs/run_flags.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kMiles = "miles";

// Of numbers that a framework computed in binary32, in an order of its own.
constexpr double kForeignTolerance = 1e-5;

constexpr std::array kWithoutEffect = {Section::kModel, Section::kPrompts, Section::kRollout,
                                       Section::kOptimizer, Section::kMachine};

struct ObjectiveArguments {
  std::string from, steps;
  std::optional<double> tolerance;
  bool all = false;
  bool json = false;
  RunFlags flags;
};

/// Whether files of Miles' policy_loss_debug were imported, fitting a sample or not.
bool keeps_policy_loss(const format::DumpReader& dump) {
  return std::ranges::any_of(dump.units(), [](const format::UnitRecord& unit) {
    return unit.path.find("/policy_loss_debug/") != std::string::npos;
  });
}

RunOptions resolve_options(const ObjectiveArguments& arguments, const RecordedRun& record,
                           const std::string& source) {
  if (source.empty()) return arguments.flags.resolve_record(record.config().options);
  RunOptions base;
  if (source == kMiles) base.dialect = "miles";
  std::cerr << "the dump says nothing of its options: they are those given, and defaults with "
               "--dialect "
            << base.dialect << '\n';
  return arguments.flags.resolve(base);
}

/// `--steps A..B`.
ReplayPlan plan_of(const ObjectiveArguments& arguments, const RecordedRun& record) {
  ReplayPlan plan;
  if (!arguments.steps.empty()) parse_steps(arguments.steps, record.steps(), plan);
  check_steps(plan, record.steps().size(), record.path());
  return plan;
}

/// Those among the chosen ones.
void keep_chosen(const ReplayPlan& plan, int64_t& place, std::vector<ObjectiveStep>& steps) {
  std::erase_if(steps, [&](const ObjectiveStep&) {
    const int64_t at = place++;
    return at < plan.first || at > plan.last;
  });
}

/// What is recorded and lacks an input, each name once.
std::string not_computable(const std::vector<ObjectiveStep>& steps) {
  std::string out;
  std::set<std::string> named;
  for (const ObjectiveStep& step : steps) {
    for (const Quantity& q : step.quantities) {
      const bool open = q.verdict == Verdict::kNoInput || q.not_computed > 0;
      if (!open || !named.insert(q.name).second) continue;
      out += (out.empty() ? "" : ", ") + q.name;
    }
  }
  return out;
}

/// Errors: kIncomplete where nothing could be compared.
std::string summary(const std::vector<ObjectiveStep>& steps, double tolerance) {
  const auto different = std::ranges::count_if(steps, std::not_fn(&ObjectiveStep::reproduced));
  const std::string of = counted(steps.size(), "step"), open = not_computable(steps);
  if (std::ranges::none_of(steps, &ObjectiveStep::compared)) {
    throw Error(ErrorCode::kIncomplete,
                open.empty() ? "nothing of the objective is recorded in " + of
                             : "nothing could be computed of " + of + ": " + open +
                                   " are recorded, and what they are computed from is not");
  }
  if (different > 0) return "NOT reproduced: " + std::to_string(different) + " of " + of;
  int64_t unplaced = 0;
  for (const ObjectiveStep& step : steps) unplaced += step.unplaced;
  const bool all = open.empty() && unplaced == 0;
  return (all ? "all that is recorded of " : "what can be computed of ") + of + " is reproduced" +
         (tolerance == 0 ? ", to the bit" : ", within the rounding of binary32") +
         (open.empty() ? "" : "; recorded and not computable: " + open) +
         (unplaced == 0 ? "" : "; no row of policy_loss_debug fits " + counted(unplaced, "sample"));
}

int objective(const ObjectiveArguments& arguments, const RecordedRun& record) {
  const std::string source = imported_from(record.dump().meta(), record.path()).value_or("");
  ObjectiveOptions options;
  options.setting.options = resolve_options(arguments, record, source);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options.setting.options);
    return 0;
  }
  const bool exact = source.empty() && options.setting.options.kernels == "portable";
  options.setting.early_term = source == kMiles;
  options.policy_loss_files = keeps_policy_loss(record.dump());
  options.tolerance = arguments.tolerance.value_or(exact ? 0 : kForeignTolerance);
  if (record.steps().empty()) {
    throw Error(ErrorCode::kIncomplete, "the dump holds no training steps", arguments.from);
  }
  const ReplayPlan plan = plan_of(arguments, record);
  std::vector<ObjectiveStep> all;
  int64_t place = 0;
  for (const int64_t rollout : trained_rollouts(record)) {
    auto steps = check_objective(read_recorded_rollout(record, rollout), options);
    keep_chosen(plan, place, steps);
    for (ObjectiveStep& step : steps) {
      if (arguments.json) std::cout << objective_json(step) << std::endl;
      all.push_back(std::move(step));
    }
  }
  if (all.empty()) {
    throw Error(ErrorCode::kIncomplete, "the steps hold no training data", arguments.from);
  }
  const bool reproduced = std::ranges::all_of(all, &ObjectiveStep::reproduced);
  (arguments.json ? std::cerr : std::cout) << incomplete_line(record, arguments.from);
  if (!arguments.json) std::cout << objective_text(all, arguments.all) << '\n' << std::flush;
  const std::string verdict = summary(all, options.tolerance);
  if (!arguments.json) {
    std::cout << verdict << '\n';
    if (!reproduced) {
      std::cout << "again: rlreplay objective " << shell_word(arguments.from)
                << arguments.flags.command_line() << '\n';
    }
  }
  return reproduced ? 0 : 1;
}

}  // namespace

void add_objective(CLI::App& program, Command& chosen) {
  auto arguments = std::make_shared<ObjectiveArguments>();
  CLI::App* verb = program.add_subcommand(
      "objective", "Compute the objective of recorded steps again, without a model");
  verb->add_option("--from,dump", arguments->from, "a dump, or files of slime, Miles or Relax")
      ->required();
  verb->add_option("--steps", arguments->steps,
                   "steps to check: A..B, each as 3.0 or counted from 0, B included");
  verb->add_option("--tolerance", arguments->tolerance,
                   "largest |a - b| / max(1, |a|) that counts as rounding [0 for dumps of ours, "
                   "1e-5 for others]");
  arguments->flags.add(*verb, kRunSections, {"steps"}, kWithoutEffect);
  verb->add_flag("--all", arguments->all, "list every step, and explain each that differs");
  verb->add_flag("--json", arguments->json, "an object a step instead of tables");
  verb->footer(
      "From rewards to losses: shaped rewards, KL, returns, advantages, policy loss and its\n"
      "reductions are computed from recorded log-probabilities and compared with what was\n"
      "recorded. A number that the options do not reproduce is tried with other options and with\n"
      "what frameworks decide by themselves; the one that matches is named. Foreign dumps hold no\n"
      "options: give those of the run; its others may stand among them. Exit code 1 where a\n"
      "recorded number is not reproduced.\n\n"
      "Examples:\n  rlreplay objective dump/\n"
      "  rlreplay objective dump_details/ --dialect miles --normalize-advantages\n"
      "  rlreplay objective dump/ --calculate-per-token-loss --steps 0..3");
  verb->callback([=, &chosen] {
    chosen = [=] {
      return with_dump(arguments->from,
                       [&](const AnyDump& dump) { return objective(*arguments, dump.run()); });
    };
  });
}

}  // namespace rlreplay::replay
