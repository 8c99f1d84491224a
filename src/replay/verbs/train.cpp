#include "src/replay/verbs/train.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/options/config_file.h"
#include "src/replay/options/save_place.h"
#include "src/replay/run/machine.h"
#include "src/replay/run/step_report.h"
#include "src/replay/source/model_source.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

/// Trains from a model: rollouts are generated. What cannot be saved is refused before the first.
int train_on_policy(const TrainArguments& arguments) {
  RunOptions options = arguments.flags.resolve_for_model();
  options.rollout_only = false;  // a capture's configuration file may say otherwise
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  SavePlace place(options, arguments.force);
  if (!options.save.empty()) ignore_broken_pipes();
  Machine machine(options);
  const auto model = find_model(options.model, options.seed);
  const RunTask task(options, *model);
  Trainer trainer(machine.runtime(), options, *model, {true, true, task.longest_prompt()});
  Printer printer(arguments.json, options, trainer, machine.pool());
  run_training(trainer, task, options, printer);
  place.save([&](const std::string& folder) { trainer.save(*model, folder); });
  return 0;
}

/// Trains from a dump: one that was imported is trained on again by its columns, one that was
/// captured replays its states too.
int train_from(const TrainArguments& arguments, const RecordedRun& record) {
  const auto vendor = imported_from(record.dump().meta(), record.path());
  if (vendor && arguments.without_sample) {
    throw Error(ErrorCode::kUnsupported,
                "--without-sample takes a sample out of a step that rlreplay captured: this dump "
                "was imported, and holds neither its state nor its sums",
                record.path());
  }
  if (vendor) return train_imported(arguments, record, *vendor);
  return train_replayed(arguments, record);
}

int train(const TrainArguments& arguments) {
  check_referee(arguments);
  if (!arguments.from.empty()) {
    return with_dump(arguments.from, [&](const AnyDump& dump) {
      return arguments.forward ? judge_forward(arguments, dump.run())
                               : train_from(arguments, dump.run());
    });
  }
  const bool count = arguments.steps.find("..") == std::string::npos;
  if (arguments.each_step || arguments.stop_at_first || !arguments.inject.empty() || !count ||
      !arguments.output.empty() || arguments.without_sample) {
    throw Error(
        ErrorCode::kUsage,
        "--each-step, --stop-at-first, --inject, --without-sample, --steps A..B and -o are for "
        "--from DUMP; to record a run, use rlreplay capture");
  }
  TrainArguments on_policy = arguments;
  if (!arguments.steps.empty()) on_policy.flags.set("steps", arguments.steps);
  return train_on_policy(on_policy);
}

}  // namespace

void add_train(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb = program.add_subcommand(
      "train", "Train on policy, or again from a dump and compare with its record");
  verb->add_option("--from,dump", arguments->from,
                   "dump whose rollouts are trained on again, or files of slime, Miles or Relax");
  verb->add_option(
      "--steps", arguments->steps,
      "optimizer steps to take; of a dump: A..B, each as 3.0 or counted from 0, B included");
  verb->add_flag("--each-step", arguments->each_step,
                 "load the recorded state before every step: each is judged alone");
  verb->add_flag("--stop-at-first", arguments->stop_at_first, "stop at the first difference");
  verb->add_option("--inject", arguments->inject,
                   "plant a difference, EVENT:INDEX:ULPS (docs/events.md), in every copy of "
                   "--layout, with @RANK behind it in that of one rank; with --recompute one "
                   "inside a layer's forward does not reach that layer's backward");
  verb->add_option("--without-sample", arguments->without_sample,
                   "take the sample with this id out of its step, all else of it held as recorded")
      ->check(not_negative());
  verb->add_option("-o,--output", arguments->output, "of a dump: the replay's own dump");
  verb->add_flag("--force", arguments->force, "replace what is in the folder of -o or --save");
  verb->add_flag("--forward", arguments->forward,
                 "judge the recorded log-probabilities by a binary32 evaluation of --model instead "
                 "(docs/referee.md)");
  verb->add_option("--samples", arguments->samples, "with --forward: samples by id")
      ->delimiter(',')
      ->check(not_negative());
  verb->add_option("--groups", arguments->groups, "with --forward: groups by id")
      ->delimiter(',')
      ->check(not_negative());
  verb->add_option("--max-tokens", arguments->max_tokens,
                   "with --forward: samples by ascending id up to so many tokens");
  verb->add_option("--weights-version", arguments->weights_version,
                   "with --forward: the version of the weights that --model holds; samples of "
                   "others are counted only");
  arguments->flags.add(*verb, kRunSections, {"steps"});
  verb->add_flag("--all", arguments->all,
                 "every event that differs, and how many floats lie how far apart");
  verb->add_flag("--json", arguments->json, "an object a step instead of a table");
  verb->footer(
      "Of a dump every option comes from it; flags override it and are listed, those without\n"
      "effect on a replay are refused. Where it begins inside a rollout, or after the run's\n"
      "first weights, recorded old and reference log-probabilities are taken as they are.\n"
      "An imported dump needs --model, the weights before the first step that is taken;\n"
      "recorded advantages, old log-probabilities and masks are used as they are, what is\n"
      "missing is computed by the flags. Those without effect on it are named: a launch\n"
      "script can be pasted.\n"
      "Without a sample its step is held as recorded otherwise; later steps run freely.\n"
      "Exit code 1: a step differs from its record; of an imported dump, whose trainer no\n"
      "replay gives to the bit, only where model or learning rate cannot be the recorded\n"
      "ones; with --forward, a side lies farther from the evaluation than the noise of\n"
      "bfloat16.\n\n"
      "Examples:\n  rlreplay train --model demo --steps 5\n"
      "  rlreplay train dump/\n"
      "  rlreplay train dump/ --kernels torch --stop-at-first\n"
      "  rlreplay train imported/ --model Qwen2.5-0.5B --steps 0..1 --lr 1e-6\n"
      "  rlreplay train imported/ --model Qwen2.5-0.5B --forward --groups 3,4\n"
      "  rlreplay train dump/ --inject 1.0/backward/0/down/dx:5:1 -o disturbed/\n"
      "  rlreplay train dump/ --without-sample 129 --steps 2.0\n"
      "  rlreplay train --model Qwen2.5-0.5B --prompts prompts.jsonl --reward gsm8k \\\n"
      "      --rollout-batch-size 4 --n-samples-per-prompt 8 --steps 2 --save trained");
  verb->callback([=, &chosen] { chosen = [=] { return train(*arguments); }; });
}

}  // namespace rlreplay::replay
