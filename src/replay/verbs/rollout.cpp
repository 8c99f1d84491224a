#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iostream>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/compare/step_difference_report.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/options/config_file.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/rerun/replay_summary.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/run_flags.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr Section kRolloutSections[] = {Section::kRollout, Section::kMachine};

struct RolloutArguments {
  RunFlags flags;
  std::string from;
  std::string inject;
  bool stop_at_first = false;
  bool all = false;
  bool json = false;
};

std::string line_json(const ReplayedRollout& rollout) {
  JsonLine out;
  out.text("schema", "rlreplay.rollout/1").integer("rollout_id", rollout.id);
  out.integer("samples", rollout.samples).boolean("identical", rollout.identical());
  out.integer("different_tokens", rollout.different_tokens);
  rollout.log_probs ? out.json("log_probs", to_json(*rollout.log_probs)) : out.null("log_probs");
  out.json("different_values", values_json(rollout.values));
  out.json("origin", origin_json(rollout.difference.origin));
  return out.str();
}

void print(const RolloutArguments& arguments, const ReplayedRollout& rollout) {
  if (arguments.json) {
    std::cout << line_json(rollout) << std::endl;
    return;
  }
  std::cout << "rollout " << rollout.id << ": " << rollout.samples << " samples, "
            << (rollout.identical() ? "identical" : "NOT identical");
  if (rollout.different_tokens > 0)
    std::cout << ", " << rollout.different_tokens << " tokens differ";
  if (rollout.log_probs && rollout.log_probs->different > 0) {
    std::cout << ", " << rollout.log_probs->different << " log-probabilities differ by up to "
              << rollout.log_probs->max;
  }
  std::cout << std::endl;
  if (!rollout.values.identical()) {
    std::cout << "recorded numbers of rollout " << rollout.id << " that the replay does not give:\n"
              << values_text(rollout.values, arguments.all ? SIZE_MAX : 8);
  }
  if (rollout.difference.identical()) return;
  ReportOptions report;
  if (arguments.all) report.length = ReportLength::kAll;
  std::cout << '\n'
            << step_difference_report(rollout.difference, "record", "replay",
                                      "rlreplay rollout " + shell_word(arguments.from) +
                                          arguments.flags.command_line(),
                                      report)
            << '\n';
}

/// What was compared, and how far it was from the record.
struct RolloutSummary {
  int64_t rollouts = 0, samples = 0, tokens = 0, log_probs = 0, different_tokens = 0;
  double max = 0;
  std::string statistics_skipped;  // why statistics were not compared
  std::vector<std::string> not_compared;

  void add(const ReplayedRollout& one) {
    ++rollouts;
    samples += one.samples;
    tokens += one.tokens;
    different_tokens += one.different_tokens;
    if (statistics_skipped.empty()) statistics_skipped = one.values.statistics_skipped;
    for (const std::string& name : one.values.not_compared) {
      if (std::ranges::find(not_compared, name) == not_compared.end()) not_compared.push_back(name);
    }
    if (!one.log_probs) return;
    log_probs += one.log_probs->tokens;
    max = std::max(max, one.log_probs->max);
  }
};

void print(const RolloutArguments& arguments, const RecordedRun& record,
           const RolloutSummary& summary, bool identical) {
  const std::string incomplete = incomplete_text(record);
  if (arguments.json) {
    JsonLine out;
    out.text("schema", "rlreplay.rollout.replay/1").text("dump", record.path());
    out.boolean("identical", identical).integer("rollouts", summary.rollouts);
    out.integer("samples", summary.samples).integer("tokens", summary.tokens);
    out.integer("different_tokens", summary.different_tokens);
    out.integer("log_probs", summary.log_probs).number("max_log_prob_change", summary.max);
    const std::string& skipped = summary.statistics_skipped;
    skipped.empty() ? out.null("statistics_not_compared")
                    : out.text("statistics_not_compared", skipped);
    out.json("not_compared", json_list(summary.not_compared));
    incomplete.empty() ? out.null("incomplete") : out.text("incomplete", incomplete);
    std::cout << out.str() << std::endl;
    return;
  }
  std::cout << incomplete_line(record, arguments.from)
            << (identical ? "identical" : "NOT identical")
            << (identical && !incomplete.empty() ? " in what is there" : "") << ": "
            << summary.rollouts << " of " << record.rollouts().size() << " rollouts of "
            << arguments.from << "\n  " << summary.tokens << " tokens of responses, "
            << summary.different_tokens << " differ; " << summary.log_probs
            << " log-probabilities, largest change " << summary.max << '\n'
            << skipped_line(summary.statistics_skipped);
  if (summary.not_compared.empty()) return;
  std::string names = "not compared:";
  for (const std::string& name : summary.not_compared) names += " " + name;
  std::cout << "  " << wrapped(names, kLineWidth, 4) << '\n';
}

int rollout(const RolloutArguments& arguments, const RecordedRun& record) {
  const RunOptions options =
      arguments.flags.resolve_replay(record.config().options, ReplayKind::kRollout);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  Machine machine(options);
  const auto model = recorded_model(record);
  Trainer trainer(machine.runtime(), options, *model, {true, true, longest_prompt(record)});
  ReplayPlan plan;
  plan.stop_at_first = arguments.stop_at_first;
  if (!arguments.inject.empty()) plan.injection = parse_injection(arguments.inject);
  RolloutSummary summary;
  const bool identical = replay_rollouts(record, options, plan, trainer, machine.pool(),
                                         [&](const ReplayedRollout& one) {
                                           print(arguments, one);
                                           summary.add(one);
                                         });
  print(arguments, record, summary, identical);
  return identical ? 0 : 1;
}

}  // namespace

void add_rollout(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<RolloutArguments>();
  CLI::App* verb =
      program.add_subcommand("rollout", "Generate a dump's rollouts again: they must be equal");
  verb->add_option("--from,dump", arguments->from, "the dump")->required();
  verb->add_flag("--stop-at-first", arguments->stop_at_first, "stop at the first difference");
  verb->add_option("--inject", arguments->inject,
                   "plant a difference, EVENT:INDEX:ULPS (docs/events.md)");
  arguments->flags.add(*verb, kRolloutSections);
  verb->add_flag("--all", arguments->all,
                 "every event that differs, and how many floats lie how far apart");
  verb->add_flag("--json", arguments->json, "an object a rollout");
  verb->footer(
      "Exit code 1: a token, a log-probability or another recorded value differs.\n\n"
      "Example:\n  rlreplay rollout dump/");
  verb->callback([=, &chosen] {
    chosen = [=] {
      return with_dump(arguments->from,
                       [&](const AnyDump& dump) { return rollout(*arguments, dump.run()); });
    };
  });
}

}  // namespace rlreplay::replay
