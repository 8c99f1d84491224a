#include <algorithm>
#include <iostream>

#include "src/base/error.h"
#include "src/replay/config_file.h"
#include "src/replay/imported_replay.h"
#include "src/replay/machine.h"
#include "src/replay/models.h"
#include "src/replay/verbs/train.h"

namespace rlreplay::replay {
namespace {

/// Prints the steps, and counts what of them was recorded.
class ImportedPrinter : public Printer {
 public:
  using Printer::Printing;

  void step(StepOutcome& outcome, std::span<const engine::Sample> samples,
            std::span<const engine::SampleTargets> targets) override {
    Printer::step(outcome, samples, targets);
    const RecordedInputs& r = *outcome.recorded;
    total_.samples += r.samples;
    total_.advantages += r.advantages;
    total_.old_log_probs += r.old_log_probs;
    total_.masks += r.masks;
    scalars_ = scalars_ || r.loss || r.grad_norm;
    if (!outcome.replay_vs_record) return;
    max_ = std::max(max_.value_or(0), outcome.replay_vs_record->max);
  }

  void finish() const {
    const auto of = [&](int64_t n) {
      return std::to_string(n) + " of " + std::to_string(total_.samples);
    };
    std::cout << "taken from the record: advantages of " << of(total_.advantages)
              << " samples, old log-probabilities of " << of(total_.old_log_probs) << ", masks of "
              << of(total_.masks) << "; the rest was computed\n";
    if (max_) std::cout << "largest distance to the recorded log-probabilities: " << *max_ << '\n';
    std::cout << "not recorded: " << (scalars_ ? "" : "loss, gradient norm, ")
              << "weights; so no step is called the same or another\n";
  }

 private:
  RecordedInputs total_;
  bool scalars_ = false;
  std::optional<double> max_;
};

void check_arguments(const TrainArguments& arguments, const RunOptions& options) {
  if (options.model.empty()) {
    throw Error(ErrorCode::kUsage,
                "the dump was imported and holds no weights: give --model, the checkpoint from "
                "which its first step was taken",
                arguments.from);
  }
  if (arguments.each_step || arguments.stop_at_first || !arguments.inject.empty() ||
      !arguments.output.empty()) {
    throw Error(ErrorCode::kUsage,
                "--each-step, --stop-at-first, --inject and -o need recorded states and events, "
                "which an imported dump has not",
                arguments.from);
  }
}

}  // namespace

int train_imported(const TrainArguments& arguments, const RecordedRun& record,
                   const std::string& vendor) {
  RunOptions options;
  if (vendor == "miles") options.dialect = "miles";
  options = arguments.flags.resolve(options);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  check_arguments(arguments, options);
  // What a rate that decays counts on.
  if (!options.num_rollout && !options.steps && !record.steps().empty()) {
    options.steps = static_cast<int64_t>(record.steps().size());
  }
  ReplayPlan plan;
  if (!arguments.steps.empty()) parse_steps(arguments.steps, plan);
  Machine machine(options);
  const auto model = find_model(options.model, static_cast<uint64_t>(options.seed));
  Trainer trainer(machine.runtime(), options, *model, imported_workload(record, options));
  ImportedPrinter printer(arguments.json, options, trainer, machine.pool());
  replay_imported(record, options, plan, trainer, printer);
  if (!arguments.json) printer.finish();
  if (!options.save.empty()) {
    model->save(trainer.backend().parameters(), trainer.backend().state().weights, options.save);
  }
  return 0;
}

}  // namespace rlreplay::replay
