#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/shell.h"
#include "src/replay/capture/recorder.h"
#include "src/replay/compare/step_difference_report.h"
#include "src/replay/options/config_file.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/difference_ranks.h"
#include "src/replay/rerun/recomputed_difference.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/rerun/replay_summary.h"
#include "src/replay/run/machine.h"
#include "src/replay/source/model_source.h"
#include "src/replay/verbs/train.h"

namespace rlreplay::replay {
namespace {

ReplayPlan replay_plan(const TrainArguments& arguments, const RecordedRun& record) {
  ReplayPlan plan;
  plan.steps = parse_steps(arguments.steps, record.steps());
  plan.each_step = arguments.each_step;
  plan.stop_at_first = arguments.stop_at_first;
  if (!arguments.inject.empty()) plan.injection = parse_injection(arguments.inject);
  return plan;
}

std::string again(const TrainArguments& arguments, const StepOutcome& step) {
  std::string out = "rlreplay train " + shell_word(arguments.from) + arguments.flags.command_line();
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
    if (step.outcome.result.replicas) unrecorded_ = id_of(step);
    if (!step.judged) return;
    steps_.add(step.outcome);
    summary_.add(step);
    if (!step.identical() && !first_) first_ = step;
  }

  /// Says of the replay's own dump what it lacks.
  void note_unrecorded(const std::string& output) const {
    if (!unrecorded_) return;
    std::cerr << "rlreplay: " << output << ": step " << unrecorded_->name()
              << ", whose copies differ, is not in it, nor is any later one\n";
  }

  void finish(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan) {
    ReportOptions report;
    if (first_) explain(record, options, plan, report);
    if (arguments_.json) {
      print_json(record, report);
    } else {
      print_verdict(record);
      if (first_) print_difference(report);
    }
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

  /// Causes, the element, and in a layout whose it is.
  void explain(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
               ReportOptions& report) {
    if (arguments_.all) report.length = ReportLength::kAll;
    report.causes = replay_causes(record, options, computing(options));
    name_element(record, options, plan, report);
    name_ranks(record, options, first_->difference);
  }

  /// Where the record is too coarse to name it.
  void name_element(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                    ReportOptions& report) {
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
  std::optional<StepId> unrecorded_;   // of which copies differ: a replay ends there
};

/// Sees that -o is not the dump that is read: with --force the old one goes. Errors: kUsage.
void check_output(const TrainArguments& arguments) {
  std::error_code absent;
  if (std::filesystem::equivalent(arguments.from, arguments.output, absent)) {
    throw Error(ErrorCode::kUsage, "--from and -o are the same dump", arguments.output);
  }
}

/// The tokens of the longest prompt of the rollout that the plan begins in: nothing outside of the
/// plan is opened. 0 where the record has no such step, which the replay refuses.
int64_t first_prompt(const RecordedRun& record, const ReplayPlan& plan) {
  const std::vector<StepId>& steps = record.steps();
  const auto first = static_cast<size_t>(plan.steps.first);
  return first < steps.size() ? longest_prompt(record, steps[first].rollout) : 0;
}

/// Sees, before the first step, that each step of the plan has the state that it is to begin at.
/// Errors: kIncomplete.
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

}  // namespace

int train_replayed(const TrainArguments& arguments, const RecordedRun& record) {
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
                  {.longest_prompt = first_prompt(record, plan), .records = place.has_value()});
  ReplayPrinter printer(arguments);
  std::optional<Recorder> recorder;
  if (place) {
    recorder.emplace(std::move(*place), options, *model, trainer, machine.pool(),
                     part_of(plan, record));
  }
  const bool identical = replay_training(record, options, plan, trainer, machine.pool(),
                                         recorder ? &*recorder : nullptr,
                                         [&](const ReplayedStep& step) { printer.add(step); });
  if (recorder) {
    recorder->finish();
    printer.note_unrecorded(arguments.output);
  }
  printer.finish(record, options, plan);
  return identical ? 0 : 1;
}

}  // namespace rlreplay::replay
