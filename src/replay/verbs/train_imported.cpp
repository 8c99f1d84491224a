#include <algorithm>
#include <cmath>
#include <iostream>

#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/number_text.h"
#include "src/base/words.h"
#include "src/replay/options/config_file.h"
#include "src/replay/options/save_place.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/referee/referee.h"
#include "src/replay/rerun/imported_replay.h"
#include "src/replay/rerun/replay_summary.h"
#include "src/replay/run/machine.h"
#include "src/replay/source/model_source.h"
#include "src/replay/verbs/train.h"

namespace rlreplay::replay {
namespace {

/// Rates that lie farther apart, relative to the recorded one, are not of one schedule: what is
/// left is how a trainer rounds its schedule and its record.
constexpr double kSameRate = 1e-6;

/// The first step whose recorded learning rate is not the replay's.
struct OtherRate {
  StepId step;
  double record = 0, replay = 0;
};

/// Prints the steps, and counts what of them was recorded.
class ImportedPrinter : public Printer {
 public:
  using Printer::Printing;

  void step(StepOutcome& outcome, std::span<const Sample> samples,
            std::span<const SampleTargets> targets) override {
    Printer::step(outcome, samples, targets);
    const RecordedCounts& r = *outcome.recorded_counts;
    total_.samples += r.samples;
    total_.advantages += r.advantages;
    total_.old_log_probs += r.old_log_probs;
    total_.masks += r.masks;
    total_.shaped_rewards += r.shaped_rewards;
    summary_.add(outcome);
    take_rate(outcome);
    // Later steps lie apart for what training does, too.
    if (summary_.steps > 1) return;
    const auto& apart =
        outcome.replay_vs_record ? outcome.replay_vs_record : outcome.train_vs_rollout;
    if (apart) mean_ = apart->mean;
  }

  /// Says on standard error what cannot be if model and options are the recorded run's. Returns
  /// whether nothing was.
  bool warn() const {
    const bool foreign = mean_ > kForeignModel;
    if (foreign) {
      std::cerr << "rlreplay: warning: the log-probabilities of the first step lie " << mean_
                << " from the recorded ones on average, more than " << kForeignModel
                << ": is this the model that wrote it?\n";
    }
    if (rate_) {
      std::cerr << "rlreplay: warning: step " << rate_->step.name() << " was taken with lr "
                << shortest_of(rate_->record) << ", here with " << shortest_of(rate_->replay)
                << ": give --lr and the schedule as the run had them\n";
    }
    return !foreign && !rate_;
  }

  /// `steps`: that could be taken.
  void finish(const RecordedRun& record, size_t steps, bool json) const {
    const std::string incomplete = incomplete_text(record);
    if (json) {
      std::cout << summary_json(summary_, record.path(), record.steps().size(), incomplete)
                << std::endl;
      return;
    }
    std::cout << incomplete_line(record, record.path());
    std::cout << wrapped(taken_text(), kLineWidth, 2) << '\n';
    std::cout << "not recorded: weights; so no step is called the same or another\n"
              << summary_text(summary_, record.path(), steps);
  }

 private:
  void take_rate(const StepOutcome& outcome) {
    if (rate_ || !outcome.recorded_scalars || !outcome.recorded_scalars->lr) return;
    const double record = *outcome.recorded_scalars->lr;
    if (std::abs(outcome.lr - record) <= kSameRate * std::abs(record)) return;
    rate_ = {{outcome.rollout_id, outcome.step_id}, record, outcome.lr};
  }

  std::string taken_text() const {
    const auto of = [&](int64_t n) {
      return std::to_string(n) + " of " + std::to_string(total_.samples);
    };
    std::string out = "taken from the record: advantages of " + of(total_.advantages) +
                      " samples, old log-probabilities of " + of(total_.old_log_probs) +
                      ", masks of " + of(total_.masks);
    if (total_.shaped_rewards > 0) {
      out += ", shaped rewards of " + of(total_.shaped_rewards) + " for their advantages";
    }
    return out + "; the rest was computed";
  }

  RecordedCounts total_;
  ReplaySummary summary_;
  std::optional<OtherRate> rate_;
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

/// Launch scripts are pasted: what changes nothing is named and not refused.
void tell_options(const RunOptions& known, const RunOptions& options, const RecordGives& gives) {
  constexpr ReplayKind kKind = ReplayKind::kImportedTraining;
  RunOptions base = known;  // nothing is recorded of these three
  base.model = options.model, base.ref_load = options.ref_load, base.save = options.save;
  for (const std::string& line : override_lines(base, options, kKind, gives)) {
    std::cerr << "overridden: " << line << '\n';
  }
  const std::string unused = without_effect(known, options, kKind, gives);
  if (!unused.empty()) std::cerr << "rlreplay: no effect on a replay: " << unused << '\n';
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
  SavePlace place(options, arguments.force);
  if (!options.save.empty()) ignore_broken_pipes();
  if (options.advantage_estimator == "ppo") {
    std::cerr << "without a value head the policy alone is trained: there is no value loss\n";
  }
  const ImportedSteps steps = imported_steps(record, options);
  ReplayPlan plan;
  plan.steps = parse_steps(arguments.steps, steps.ids);
  check_steps(plan.steps, steps.ids.size(), record.path());
  tell_options(known, options, gives_of(steps, plan));
  // What a rate that decays counts on.
  if (!options.num_rollout && !options.steps) options.steps = std::ssize(steps.ids);
  Machine machine(options);
  const auto model = find_model(options.model, static_cast<uint64_t>(options.seed));
  Trainer trainer(machine.runtime(), options, *model, steps.workload);
  if (plan.steps.first > 0) {
    std::cerr << "rlreplay: the dump holds no weights: those of --model are taken as before the "
                 "first step of --steps "
              << arguments.steps << '\n';
  }
  ImportedPrinter printer(arguments.json, options, trainer, machine.pool());
  replay_imported(record, options, plan, steps, trainer, printer);
  printer.finish(record, steps.ids.size(), arguments.json);
  const bool possible = printer.warn();
  place.save([&](const std::string& folder) { trainer.save(*model, folder); });
  return possible ? 0 : 1;
}

}  // namespace rlreplay::replay
