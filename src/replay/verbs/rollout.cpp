#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/json_line.h"
#include "src/replay/config_file.h"
#include "src/replay/difference_report.h"
#include "src/replay/machine.h"
#include "src/replay/replay.h"
#include "src/replay/verbs/run_flags.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr Section kSections[] = {Section::kRollout, Section::kMachine};

struct RolloutArguments {
  RunFlags flags;
  std::string from;
  std::string inject;
  bool stop_at_first = false;
  bool json = false;
};

std::string line_json(const ReplayedRollout& rollout) {
  JsonLine out;
  out.text("schema", "rlreplay.rollout/1").integer("rollout_id", rollout.id);
  out.integer("samples", rollout.samples).boolean("identical", rollout.identical());
  out.integer("different_tokens", rollout.different_tokens);
  rollout.log_probs ? out.json("log_probs", to_json(*rollout.log_probs)) : out.null("log_probs");
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
  if (rollout.difference.identical()) return;
  std::cout << '\n'
            << difference_report(
                   rollout.difference, "record", "replay",
                   "rlreplay rollout --from " + arguments.from + arguments.flags.command_line())
            << '\n';
}

int rollout(const RolloutArguments& arguments) {
  const RecordedRun record(arguments.from);
  const RunOptions options = arguments.flags.resolve_record(record.config().options);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  Machine machine(options);
  const auto model = recorded_model(record);
  Trainer trainer(machine.runtime(), options, *model, {true, true, record.longest_prompt()});
  ReplayPlan plan;
  plan.stop_at_first = arguments.stop_at_first;
  if (!arguments.inject.empty()) plan.injection = parse_injection(arguments.inject);
  const bool identical =
      replay_rollouts(record, options, plan, trainer, machine.pool(),
                      [&](const ReplayedRollout& one) { print(arguments, one); });
  return identical ? 0 : 1;
}

}  // namespace

void add_rollout(CLI::App& program, Command& chosen) {
  auto arguments = std::make_shared<RolloutArguments>();
  CLI::App* verb =
      program.add_subcommand("rollout", "Generate a dump's rollouts again: they must be equal");
  verb->add_option("--from", arguments->from, "the dump")->required();
  verb->add_flag("--stop-at-first", arguments->stop_at_first, "stop at the first difference");
  verb->add_option("--inject", arguments->inject,
                   "plant a difference, EVENT:INDEX:ULPS (docs/events.md)");
  arguments->flags.add(*verb, kSections);
  verb->add_flag("--json", arguments->json, "an object a rollout");
  verb->footer(
      "Exit code 1: a token or a log-probability differs.\n\n"
      "Example:\n  rlreplay rollout --from dump/");
  verb->callback([=, &chosen] { chosen = [=] { return rollout(*arguments); }; });
}

}  // namespace rlreplay::replay
