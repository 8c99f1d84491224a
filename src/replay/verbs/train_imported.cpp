#include <algorithm>
#include <iostream>

#include "src/base/error.h"
#include "src/replay/config_file.h"
#include "src/replay/imported_replay.h"
#include "src/replay/imported_samples.h"
#include "src/replay/machine.h"
#include "src/replay/models.h"
#include "src/replay/record_state.h"
#include "src/replay/replay_report.h"
#include "src/replay/verbs/train.h"

namespace rlreplay::replay {
namespace {

/// Log-probabilities that lie farther apart on average are not of one model: a token is likelier or
/// less likely by a factor of e, where engines differ by hundredths.
constexpr double kForeignModel = 1;

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
    total_.shaped_rewards += r.shaped_rewards;
    summary_.add(outcome);
    // Later steps lie apart for what training does, too.
    if (summary_.steps > 1) return;
    const auto& apart =
        outcome.replay_vs_record ? outcome.replay_vs_record : outcome.train_vs_rollout;
    if (apart) mean_ = apart->mean;
  }

  /// Whether the first step's log-probabilities can be this model's.
  bool plausible() const { return mean_ <= kForeignModel; }

  void warn() const {
    std::cerr << "rlreplay: warning: the log-probabilities of the first step lie " << mean_
              << " from the recorded ones on average, more than " << kForeignModel
              << ": is this the model that wrote it?\n";
  }

  void finish(const RecordedRun& record, bool json) const {
    const std::string incomplete = incomplete_text(record);
    if (json) {
      std::cout << summary_json(summary_, record.path(), record.steps().size(), incomplete)
                << std::endl;
      return;
    }
    std::cout << incomplete_line(record, record.path());
    const auto of = [&](int64_t n) {
      return std::to_string(n) + " of " + std::to_string(total_.samples);
    };
    std::cout << "taken from the record: advantages of " << of(total_.advantages)
              << " samples, old log-probabilities of " << of(total_.old_log_probs) << ", masks of "
              << of(total_.masks);
    if (total_.shaped_rewards > 0) {
      std::cout << ", shaped rewards of " << of(total_.shaped_rewards) << " for their advantages";
    }
    std::cout << "; the rest was computed\n";
    std::cout << "not recorded: weights; so no step is called the same or another\n"
              << summary_text(summary_, record.path(), record.steps().size());
  }

 private:
  RecordedInputs total_;
  ReplaySummary summary_;
  double mean_ = 0;  // distance to the recorded log-probabilities, of the first step
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
  const RunOptions known = imported_options(record, vendor);
  RunOptions options = arguments.flags.resolve(known);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  check_arguments(arguments, options);
  if (options.advantage_estimator == "ppo") {
    std::cerr << "without a value head the policy alone is trained: there is no value loss\n";
  }
  const std::string unused = without_effect(known, options, ReplayKind::kImportedTraining);
  if (!unused.empty()) std::cerr << "rlreplay: no effect on a replay: " << unused << '\n';
  // What a rate that decays counts on.
  if (!options.num_rollout && !options.steps && !record.steps().empty()) {
    options.steps = static_cast<int64_t>(record.steps().size());
  }
  ReplayPlan plan;
  if (!arguments.steps.empty()) parse_steps(arguments.steps, record.steps(), plan);
  Machine machine(options);
  const auto model = find_model(options.model, static_cast<uint64_t>(options.seed));
  const Workload workload = imported_workload(record, options);
  Trainer trainer(machine.runtime(), options, *model, workload);
  ImportedPrinter printer(arguments.json, options, trainer, machine.pool());
  replay_imported(record, options, plan, workload, trainer, printer);
  printer.finish(record, arguments.json);
  if (!printer.plausible()) printer.warn();
  if (!options.save.empty()) {
    model->save(trainer.backend().parameters(), trainer.backend().state().weights, options.save);
  }
  return printer.plausible() ? 0 : 1;
}

}  // namespace rlreplay::replay
