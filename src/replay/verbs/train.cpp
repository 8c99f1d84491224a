#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/error.h"
#include "src/replay/config_file.h"
#include "src/replay/machine.h"
#include "src/replay/models.h"
#include "src/replay/run.h"
#include "src/replay/step_report.h"
#include "src/replay/verbs/run_flags.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr Section kSections[] = {Section::kModel,    Section::kPrompts,   Section::kRollout,
                                 Section::kSchedule, Section::kObjective, Section::kOptimizer,
                                 Section::kMachine};

struct TrainArguments {
  RunFlags flags;
  bool json = false;
};

/// Prints each step as it ends.
class Printer : public RunObserver {
 public:
  explicit Printer(bool json) : json_(json), table_(std::cout) {}

  void step(StepOutcome& outcome, std::span<const engine::Sample>,
            std::span<const engine::SampleTargets>) override {
    if (json_) {
      std::cout << to_json(outcome) << std::endl;
    } else {
      table_.add(outcome);
    }
  }

 private:
  bool json_;
  StepTable table_;
};

int train(const TrainArguments& arguments) {
  const RunOptions options = arguments.flags.resolve(RunOptions{});
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  const Machine machine(options);
  const auto model = find_model(options.model, static_cast<uint64_t>(options.seed));
  const Task task(options, *model);
  Trainer trainer(machine.runtime(), options, *model);
  Printer printer(arguments.json);
  run_training(trainer, task, options, /*rollout_only=*/false, printer);
  if (!options.save.empty()) model->save(trainer.state().model, options.save);
  return 0;
}

}  // namespace

void add_train(CLI::App& program, Command& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb = program.add_subcommand("train", "Train a model on policy, without recording");
  arguments->flags.add(*verb, kSections);
  verb->add_flag("--json", arguments->json, "an object a step instead of a table");
  verb->footer(
      "Example:\n  rlreplay train --model demo --steps 5\n"
      "  rlreplay train --model Qwen2.5-0.5B --prompts prompts.jsonl --reward gsm8k \\\n"
      "      --rollout-batch-size 4 --n-samples-per-prompt 8 --steps 2 --save trained");
  verb->callback([=, &chosen] { chosen = [=] { return train(*arguments); }; });
}

}  // namespace rlreplay::replay
