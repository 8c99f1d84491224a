#include "src/replay/verbs/train.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <iostream>
#include <optional>

#include "src/base/error.h"
#include "src/replay/config_file.h"
#include "src/replay/difference_report.h"
#include "src/replay/machine.h"
#include "src/replay/models.h"
#include "src/replay/recorder.h"
#include "src/replay/replay.h"
#include "src/replay/step_report.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

int train_on_policy(const TrainArguments& arguments) {
  RunOptions options = arguments.flags.resolve_for_model();
  options.rollout_only = false;  // a capture's configuration file may say otherwise
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  Machine machine(options);
  const auto model = find_model(options.model, options.seed);
  const Task task(options, *model);
  Trainer trainer(machine.runtime(), options, *model, {true, true, task.longest_prompt()});
  Printer printer(arguments.json, options, trainer, machine.pool());
  run_training(trainer, task, options, printer);
  if (options.save.empty()) return 0;
  model->save(trainer.backend().parameters(), trainer.backend().state().weights, options.save);
  return 0;
}

ReplayPlan replay_plan(const TrainArguments& arguments) {
  ReplayPlan plan;
  if (!arguments.steps.empty()) parse_steps(arguments.steps, plan);
  plan.each_step = arguments.each_step;
  plan.stop_at_first = arguments.stop_at_first;
  if (!arguments.inject.empty()) plan.injection = parse_injection(arguments.inject);
  return plan;
}

std::string again(const TrainArguments& arguments, const StepOutcome& step) {
  std::string out = "rlreplay train --from " + arguments.from + arguments.flags.command_line();
  if (arguments.each_step) out += " --each-step";
  if (!arguments.inject.empty()) out += " --inject " + arguments.inject;
  return out + " --stop-at-first  # step " + std::to_string(step.rollout_id) + "." +
         std::to_string(step.step_id);
}

/// Prints the steps, and at the first difference where the two part.
class ReplayPrinter {
 public:
  explicit ReplayPrinter(const TrainArguments& arguments)
      : arguments_(arguments), steps_(arguments.json) {}

  void add(const ReplayedStep& step) {
    if (!step.judged) return;
    steps_.add(step.outcome);
    if (step.difference.identical() || reported_) return;
    reported_ = true;
    if (arguments_.json) {
      std::cout << to_json(step.difference) << std::endl;
    } else {
      std::cout << '\n'
                << difference_report(step.difference, "record", "replay",
                                     again(arguments_, step.outcome))
                << '\n';
    }
  }

 private:
  const TrainArguments& arguments_;
  StepLines steps_;
  bool reported_ = false;
};

/// With --force the old dump goes first: it must not be the one that is read.
void check_output(const TrainArguments& arguments) {
  std::error_code absent;
  if (std::filesystem::equivalent(arguments.from, arguments.output, absent)) {
    throw Error(ErrorCode::kUsage, "--from and -o are the same dump", arguments.output);
  }
}

int train_from(const TrainArguments& arguments) {
  const RecordedRun record(arguments.from);
  const auto vendor = imported_from(record.dump().meta(), record.path());
  if (vendor) return train_imported(arguments, record, *vendor);
  const RunOptions options = arguments.flags.resolve_record(record.config().options);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  Machine machine(options);
  const auto model = recorded_model(record);
  Trainer trainer(machine.runtime(), options, *model, {false, true, record.longest_prompt()});
  ReplayPrinter printer(arguments);
  const ReplayPlan plan = replay_plan(arguments);
  std::optional<Recorder> recorder;
  if (!arguments.output.empty()) {
    check_output(arguments);
    recorder.emplace(arguments.output, arguments.force, options, *model, trainer, machine.pool());
  }
  const bool identical = replay_training(record, options, plan, trainer, machine.pool(),
                                         recorder ? &*recorder : nullptr,
                                         [&](const ReplayedStep& step) { printer.add(step); });
  if (recorder) recorder->finish();
  if (!arguments.json) {
    std::cout << (plan.each_step ? "each step from its recorded state: "
                                 : "run freely from the first step: ")
              << (identical ? "identical\n" : "NOT identical\n");
  }
  return identical ? 0 : 1;
}

int train(const TrainArguments& arguments) {
  check_referee(arguments);
  if (!arguments.from.empty()) {
    return arguments.forward ? judge_forward(arguments) : train_from(arguments);
  }
  if (!arguments.steps.empty() && arguments.steps.find("..") == std::string::npos) {
    TrainArguments on_policy = arguments;
    on_policy.flags.set("steps", arguments.steps);
    return train_on_policy(on_policy);
  }
  if (arguments.each_step || arguments.stop_at_first || !arguments.inject.empty() ||
      !arguments.steps.empty() || !arguments.output.empty()) {
    throw Error(
        ErrorCode::kUsage,
        "--each-step, --stop-at-first, --inject, --steps A..B and -o are for --from DUMP; to "
        "record a run, use rlreplay capture");
  }
  return train_on_policy(arguments);
}

}  // namespace

void add_train(CLI::App& program, Command& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb = program.add_subcommand(
      "train", "Train on policy, or again from a dump and compare with its record");
  verb->add_option("--from", arguments->from, "dump whose rollouts are trained on again");
  verb->add_option("--steps", arguments->steps,
                   "optimizer steps to take; with --from: A..B, counted from 0, B included");
  verb->add_flag("--each-step", arguments->each_step,
                 "load the recorded state before every step: each is judged alone");
  verb->add_flag("--stop-at-first", arguments->stop_at_first, "stop at the first difference");
  verb->add_option(
      "--inject", arguments->inject,
      "plant a difference, EVENT:INDEX:ULPS (docs/events.md); with --recompute one inside a "
      "layer's forward does not reach that layer's backward");
  verb->add_option("-o,--output", arguments->output, "with --from: the replay's own dump");
  verb->add_flag("--force", arguments->force, "replace an older dump there");
  verb->add_flag("--forward", arguments->forward,
                 "judge the recorded log-probabilities by a binary32 evaluation of --model instead "
                 "(docs/referee.md)");
  verb->add_option("--samples", arguments->samples, "with --forward: samples by id")
      ->delimiter(',');
  verb->add_option("--groups", arguments->groups, "with --forward: groups by id")->delimiter(',');
  verb->add_option("--max-tokens", arguments->max_tokens,
                   "with --forward: samples by ascending id up to so many tokens");
  verb->add_option("--weights-version", arguments->weights_version,
                   "with --forward: the version of the weights that --model holds; samples of "
                   "others are counted only");
  arguments->flags.add(*verb, kRunSections, {"steps"});
  verb->add_flag("--json", arguments->json, "an object a step instead of a table");
  verb->footer(
      "With --from every option comes from the dump; flags override it and are listed.\n"
      "An imported dump needs --model, the weights before its first step; recorded advantages, "
      "old\n"
      "log-probabilities and masks are used as they are, what is missing is computed by the "
      "flags.\n"
      "Exit code 1: a step differs from its record; with --forward, a side lies farther from the\n"
      "evaluation than the noise of bfloat16.\n\n"
      "Examples:\n  rlreplay train --model demo --steps 5\n"
      "  rlreplay train --from dump/\n"
      "  rlreplay train --from dump/ --kernels torch --stop-at-first\n"
      "  rlreplay train --from imported/ --model Qwen2.5-0.5B --steps 0..1 --lr 1e-6\n"
      "  rlreplay train --from imported/ --model Qwen2.5-0.5B --forward --groups 3,4\n"
      "  rlreplay train --from dump/ --inject 1.0/backward/0/down/dx:5:1 -o disturbed/\n"
      "  rlreplay train --model Qwen2.5-0.5B --prompts prompts.jsonl --reward gsm8k \\\n"
      "      --rollout-batch-size 4 --n-samples-per-prompt 8 --steps 2 --save trained");
  verb->callback([=, &chosen] { chosen = [=] { return train(*arguments); }; });
}

}  // namespace rlreplay::replay
