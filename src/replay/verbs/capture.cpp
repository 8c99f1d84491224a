#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/replay/config_file.h"
#include "src/replay/machine.h"
#include "src/replay/models.h"
#include "src/replay/recorder.h"
#include "src/replay/step_report.h"
#include "src/replay/verbs/run_flags.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr Section kSections[] = {Section::kModel,    Section::kPrompts,   Section::kRollout,
                                 Section::kSchedule, Section::kObjective, Section::kOptimizer,
                                 Section::kMachine,  Section::kRecord};

struct CaptureArguments {
  RunFlags flags;
  std::string output;
  bool rollout_only = false;
  bool force = false;
  bool json = false;
};

/// Records each step, then prints it.
class PrintingRecorder : public Recorder {
 public:
  template <class... Arguments>
  explicit PrintingRecorder(bool json, Arguments&&... arguments)
      : Recorder(std::forward<Arguments>(arguments)...), steps_(json) {}

  void step(StepOutcome& outcome, std::span<const engine::Sample> samples,
            std::span<const engine::SampleTargets> targets) override {
    Recorder::step(outcome, samples, targets);
    steps_.add(outcome);
  }

 private:
  StepLines steps_;
};

int capture(const CaptureArguments& arguments) {
  const RunOptions options = arguments.flags.resolve_for_model();
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  Machine machine(options);
  const auto model = find_model(options.model, static_cast<uint64_t>(options.seed));
  const Task task(options, *model);
  Trainer trainer(machine.runtime(), options, *model);
  PrintingRecorder recorder(arguments.json, arguments.output, arguments.force, options, *model,
                            trainer, machine.pool());
  run_training(trainer, task, options, arguments.rollout_only, recorder);
  const Hash root = recorder.finish();
  if (!options.save.empty()) {
    model->save(trainer.backend().parameters(), trainer.backend().state().weights, options.save);
  }
  if (arguments.json) return 0;
  std::cout << "recorded in " << arguments.output << ", root " << root.hex() << "\n"
            << "replay it: rlreplay train --from " << arguments.output << '\n';
  return 0;
}

}  // namespace

void add_capture(CLI::App& program, Command& chosen) {
  auto arguments = std::make_shared<CaptureArguments>();
  CLI::App* verb = program.add_subcommand(
      "capture", "Run on-policy training and record all that a replay needs");
  verb->add_option("-o,--output", arguments->output, "the dump to be made")->required();
  verb->add_flag("--rollout-only", arguments->rollout_only, "generate and judge, do not train");
  verb->add_flag("--force", arguments->force, "replace an older dump");
  arguments->flags.add(*verb, kSections);
  verb->add_flag("--json", arguments->json, "an object a step instead of a table");
  verb->footer(
      "Examples:\n  rlreplay capture --model demo --steps 4 -o dump/\n"
      "  rlreplay capture --model demo --steps 4 --record ops+values -o dump/\n"
      "  rlreplay capture --model Qwen2.5-0.5B --prompts prompts.jsonl --reward gsm8k \\\n"
      "      --rollout-batch-size 4 --n-samples-per-prompt 8 --steps 2 -o dump/");
  verb->callback([=, &chosen] { chosen = [=] { return capture(*arguments); }; });
}

}  // namespace rlreplay::replay
