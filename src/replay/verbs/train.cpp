#include "src/replay/verbs/train.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/shell.h"
#include "src/replay/capture/recorder.h"
#include "src/replay/compare/step_difference_report.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/options/config_file.h"
#include "src/replay/options/save_place.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/recomputed_difference.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/rerun/replay_summary.h"
#include "src/replay/run/machine.h"
#include "src/replay/run/step_report.h"
#include "src/replay/source/model_source.h"
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
  SavePlace place(options, arguments.force);
  if (!options.save.empty()) ignore_broken_pipes();
  Machine machine(options);
  const auto model = find_model(options.model, options.seed);
  const Task task(options, *model);
  Trainer trainer(machine.runtime(), options, *model, {true, true, task.longest_prompt()});
  Printer printer(arguments.json, options, trainer, machine.pool());
  run_training(trainer, task, options, printer);
  place.save([&](const std::string& folder) { trainer.save(*model, folder); });
  return 0;
}

ReplayPlan replay_plan(const TrainArguments& arguments, const RecordedRun& record) {
  ReplayPlan plan;
  plan.steps = parse_steps(arguments.steps, record.steps());
  plan.each_step = arguments.each_step;
  plan.stop_at_first = arguments.stop_at_first;
  if (!arguments.inject.empty()) plan.injection = parse_injection(arguments.inject);
  return plan;
}

std::string again(const TrainArguments& arguments, const StepOutcome& step) {
  std::string out =
      "rlreplay train --from " + shell_word(arguments.from) + arguments.flags.command_line();
  if (!arguments.steps.empty()) out += " --steps " + shell_word(arguments.steps);
  if (arguments.each_step) out += " --each-step";
  if (!arguments.inject.empty()) out += " --inject " + shell_word(arguments.inject);
  return out + " --stop-at-first  # step " + std::to_string(step.rollout_id) + "." +
         std::to_string(step.step_id);
}

/// Prints the steps as they end; then the verdict, and where record and replay part.
class ReplayPrinter {
 public:
  explicit ReplayPrinter(const TrainArguments& arguments)
      : arguments_(arguments), steps_(arguments.json) {}

  void add(const ReplayedStep& step) {
    if (!begin_) begin_ = id_of(step);
    if (!step.judged) return;
    steps_.add(step.outcome);
    summary_.add(step);
    if (!step.identical() && !first_) first_ = step;
  }

  /// Returns whether all was identical.
  bool finish(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan) {
    ReportOptions report;
    if (first_) explain(record, options, plan, report);
    if (arguments_.json) {
      print_json(record, report);
    } else {
      print_verdict(record);
      if (first_) print_difference(report);
    }
    return summary_.identical();
  }

 private:
  static StepId id_of(const ReplayedStep& step) {
    return {step.outcome.rollout_id, step.outcome.step_id};
  }
  StepId first_id() const { return id_of(*first_); }

  std::string how(const RecordedRun& record) const {
    if (arguments_.each_step) return "each step from its recorded state: ";
    const bool whole = !begin_ || *begin_ == record.steps().front();
    return "run freely from " +
           (whole ? "the first step" : "the recorded state before step " + begin_->name()) + ": ";
  }

  /// Causes, and the element where the record is too coarse to name it.
  void explain(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
               ReportOptions& report) {
    if (arguments_.all) report.length = ReportLength::kAll;
    report.causes = replay_causes(record, options, computing(options));
    if (!lacks_element(first_->difference)) return;
    const RunOptions recorded = record.config().options;
    if (override_lines(recorded, options, ReplayKind::kTraining).empty() && !plan.injection) {
      report.note = "the element is not known: the record holds no values of it";
      return;
    }
    DifferenceSide as_recorded{record, recorded};
    as_recorded.plan.steps.first =
        std::ranges::find(record.steps(), first_id()) - record.steps().begin();
    auto finer = recompute_difference(as_recorded, {record, options, plan, false}, first_id());
    report.note = std::move(finer.note);
    if (finer.step) first_->difference = std::move(*finer.step);
  }

  void print_verdict(const RecordedRun& record) const {
    const bool identical = summary_.identical();
    const std::string incomplete = incomplete_text(record);
    std::cout << incomplete_line(record, arguments_.from) << how(record)
              << (identical ? "identical" : "NOT identical");
    if (identical && !incomplete.empty()) {
      std::cout << " in the " << summary_.steps
                << (summary_.steps == 1 ? " step that is there" : " steps that are there");
    }
    if (first_) std::cout << " from step " << first_id().name() << " on";
    std::cout << '\n' << summary_text(summary_, arguments_.from, record.steps().size());
  }

  void print_difference(const ReportOptions& report) const {
    if (!first_->values.identical()) {
      // Where events differ, too, they say more of why.
      const bool brief = !first_->difference.identical() && !arguments_.all;
      std::cout << "recorded numbers of step " << first_id().name()
                << " that the replay does not give:\n"
                << values_text(first_->values, arguments_.all ? SIZE_MAX
                                               : brief        ? 1
                                                              : 8);
    }
    if (first_->difference.identical()) return;
    std::cout << step_difference_report(first_->difference, "record", "replay",
                                        again(arguments_, first_->outcome), report);
  }

  void print_json(const RecordedRun& record, const ReportOptions& report) const {
    if (first_) std::cout << to_json(first_->difference, report) << '\n';
    std::cout << summary_json(summary_, record.path(), record.steps().size(),
                              incomplete_text(record))
              << std::endl;
  }

  const TrainArguments& arguments_;
  StepLines steps_;
  ReplaySummary summary_;
  std::optional<StepId> begin_;        // the first that was run
  std::optional<ReplayedStep> first_;  // that is not identical
};

/// With --force the old dump goes: it must not be the one that is read.
void check_output(const TrainArguments& arguments) {
  std::error_code absent;
  if (std::filesystem::equivalent(arguments.from, arguments.output, absent)) {
    throw Error(ErrorCode::kUsage, "--from and -o are the same dump", arguments.output);
  }
}

/// Before the first step: that each has its state.
void check_states(const RecordedRun& record, const ReplayPlan& plan) {
  const std::vector<StepId>& steps = record.steps();
  const auto end = std::min<int64_t>(static_cast<int64_t>(steps.size()) - 1, plan.steps.last);
  for (int64_t i = plan.steps.first; plan.each_step && i <= end; ++i) {
    const StepId& step = steps[static_cast<size_t>(i)];
    if (record.has_state(step)) continue;
    throw Error(
        ErrorCode::kIncomplete,
        "--each-step needs the state before every step, and the dump has none before step " +
            step.name() + ": capture it with --weights all, or give --steps",
        record.path());
  }
}

int train_from(const TrainArguments& arguments, const RecordedRun& record) {
  const auto vendor = imported_from(record.dump().meta(), record.path());
  if (vendor && arguments.without_sample) {
    throw Error(ErrorCode::kUnsupported,
                "--without-sample takes a sample out of a step that rlreplay captured: this dump "
                "was imported, and holds neither its state nor its sums",
                record.path());
  }
  if (vendor) return train_imported(arguments, record, *vendor);
  const RunOptions options =
      arguments.flags.resolve_replay(record.config().options, ReplayKind::kTraining);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  if (arguments.without_sample) return train_without(arguments, record, options);
  std::optional<format::DumpPlace> place;
  if (!arguments.output.empty()) {
    check_output(arguments);
    ignore_broken_pipes();
    place.emplace(arguments.output, arguments.force, format::DumpPlace::Writer::kOneGo);
  }
  const ReplayPlan plan = replay_plan(arguments, record);
  check_states(record, plan);
  Machine machine(options);
  const auto model = recorded_model(record);
  Trainer trainer(machine.runtime(), options, *model,
                  {.longest_prompt = longest_prompt(record), .records = place.has_value()});
  ReplayPrinter printer(arguments);
  std::optional<Recorder> recorder;
  if (place) {
    recorder.emplace(std::move(*place), options, *model, trainer, machine.pool(),
                     part_of(plan, record));
  }
  replay_training(record, options, plan, trainer, machine.pool(), recorder ? &*recorder : nullptr,
                  [&](const ReplayedStep& step) { printer.add(step); });
  if (recorder) recorder->finish();
  return printer.finish(record, options, plan) ? 0 : 1;
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
  verb->add_option(
      "--inject", arguments->inject,
      "plant a difference, EVENT:INDEX:ULPS (docs/events.md), with @RANK behind it in the copy of "
      "one rank of --layout; with --recompute one inside a layer's forward does not reach that "
      "layer's backward");
  verb->add_option("--without-sample", arguments->without_sample,
                   "take the sample with this id out of its step, all else of it held as recorded");
  verb->add_option("-o,--output", arguments->output, "of a dump: the replay's own dump");
  verb->add_flag("--force", arguments->force, "replace what is in the folder of -o or --save");
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
