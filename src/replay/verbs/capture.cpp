#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "format/dump_files.h"
#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/shell_word.h"
#include "src/replay/config_file.h"
#include "src/replay/content_root.h"
#include "src/replay/machine.h"
#include "src/replay/models.h"
#include "src/replay/recorder.h"
#include "src/replay/resume.h"
#include "src/replay/save_place.h"
#include "src/replay/step_report.h"
#include "src/replay/verbs/capture_wrapped.h"
#include "src/replay/verbs/end_on_signal.h"
#include "src/replay/verbs/run_flags.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr Section kSections[] = {Section::kModel,    Section::kPrompts,   Section::kRollout,
                                 Section::kSchedule, Section::kObjective, Section::kOptimizer,
                                 Section::kMachine,  Section::kRecord};

struct CaptureArguments {
  RunFlags flags;
  std::string wrap;
  std::vector<std::string> command;  // that is wrapped
  std::string output;
  bool resume = false;
  bool force = false;
  bool json = false;
  bool dry_run = false;
};

/// Ends the dump and says what it is.
int finish(const CaptureArguments& arguments, const RunOptions& options, const ModelSource& model,
           Trainer& trainer, Recorder& recorder) {
  const Hash root = recorder.finish();
  if (!options.save.empty()) {
    model.save(trainer.backend().parameters(), trainer.backend().state().weights, options.save);
  }
  if (arguments.json) return 0;
  std::cout << "recorded in " << arguments.output << ", root " << root.hex() << "\n"
            << "content " << content_root(arguments.output).hex() << "\n"
            << "replay it: rlreplay " << (options.rollout_only ? "rollout " : "train ")
            << shell_word(arguments.output) << '\n';
  return 0;
}

/// What there is to say of a dump that has its end.
int already_sealed(const CaptureArguments& arguments, const format::DumpReader& dump) {
  if (!dump.complete()) {
    throw Error(ErrorCode::kUsage,
                "the dump was closed after its writer had died: nothing can be added to it",
                arguments.output);
  }
  if (!arguments.json) {
    std::cout << arguments.output << " is complete, root " << dump.root().hex()
              << ": nothing to resume\n";
  }
  return 0;
}

/// What a signal gives: the queue is stored, and the sentence says how far.
EndOnSignal::Before drain_on_signal(EndOnSignal& end, Recorder& recorder) {
  return {end, [&recorder] {
            const std::string go_on = ": rlreplay verify shows it, rlreplay capture --resume -o " +
                                      shell_word(recorder.path()) + " goes on";
            try {
              return Error(ErrorCode::kInterrupted, "interrupted; " + recorder.drain() + go_on,
                           recorder.path());
            } catch (const Error& e) {
              return Error(
                  ErrorCode::kInterrupted,
                  std::string("interrupted; the last units could not be stored: ") + e.what(),
                  recorder.path());
            }
          }};
}

int resume(const CaptureArguments& arguments) {
  EndOnSignal on_signal(arguments.json);
  ignore_broken_pipes();
  if (!arguments.flags.print_config()) format::take_sealed(arguments.output);
  const RecordedRun found(arguments.output);
  const RunOptions recorded = found.config().options;
  const RunOptions options = arguments.flags.resolve(recorded);
  check_resumed_options(recorded, options);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  if (found.dump().sealed()) {
    format::finish_sealing(format::Folder::open(arguments.output));
    return already_sealed(arguments, found.dump());
  }
  arguments.flags.check_given(recorded, arguments.output);
  format::WriterOptions settings;
  settings.unstable = Provenance(recorded.kernels).begun();
  format::DumpWriter writer = format::DumpWriter::resume(arguments.output, settings);
  const RecordedRun record(arguments.output);  // as it is now that no other can write to it
  Machine machine(options);
  const auto model = find_model(options.model, options.seed);
  const Task task(options, *model);
  Trainer trainer(machine.runtime(), options, *model,
                  {.generates = true,
                   .trains = !options.rollout_only,
                   .longest_prompt = task.longest_prompt(),
                   .records = true});
  Printing<Recorder> recorder(arguments.json, std::move(writer), arguments.output, recorded, *model,
                              trainer, machine.pool());
  const auto draining = drain_on_signal(on_signal, recorder);
  const RunStart start = resume_run(record, options, task, trainer);
  std::cerr << "resumed: " << record.steps().size() << " of " << planned_steps(options)
            << " steps are recorded, the run goes on from rollout " << start.rollout << "\n";
  run_training(trainer, task, options, recorder, start);
  return finish(arguments, options, *model, trainer, recorder);
}

int wrap(const CaptureArguments& arguments) {
  if (arguments.resume || !arguments.flags.command_line().empty()) {
    throw Error(ErrorCode::kUsage,
                "with --wrap the options of the run are the command's own, behind --; of "
                "rlreplay's there are -o, --force, --dry-run and --json");
  }
  return capture_wrapped({arguments.wrap, arguments.command, arguments.output, arguments.force,
                          arguments.json, arguments.dry_run});
}

int capture(const CaptureArguments& arguments) {
  if (arguments.output.empty() && !arguments.flags.print_config()) {
    throw Error(ErrorCode::kUsage, "name the dump to be made: -o DUMP");
  }
  if (!arguments.wrap.empty()) return wrap(arguments);
  if (arguments.dry_run) {
    throw Error(ErrorCode::kUsage, "--dry-run is for --wrap; --print-config shows the options");
  }
  if (!arguments.command.empty()) {
    throw Error(ErrorCode::kUsage, "a command behind -- is for --wrap slime or --wrap miles");
  }
  if (arguments.resume && arguments.force) {
    throw Error(ErrorCode::kUsage, "--resume keeps the dump, --force replaces it: give one");
  }
  if (arguments.resume) return resume(arguments);
  const RunOptions options = arguments.flags.resolve_for_model();
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  check_recording(options);
  check_save(options, arguments.force);
  EndOnSignal on_signal(arguments.json);
  ignore_broken_pipes();
  format::DumpPlace place(arguments.output, arguments.force, format::DumpPlace::Writer::kResumable);
  Machine machine(options);
  const auto model = find_model(options.model, options.seed);
  const Task task(options, *model);
  Trainer trainer(machine.runtime(), options, *model,
                  {.generates = true,
                   .trains = !options.rollout_only,
                   .longest_prompt = task.longest_prompt(),
                   .records = true});
  Printing<Recorder> recorder(arguments.json, std::move(place), options, *model, trainer,
                              machine.pool());
  const auto draining = drain_on_signal(on_signal, recorder);
  run_training(trainer, task, options, recorder);
  return finish(arguments, options, *model, trainer, recorder);
}

}  // namespace

void add_capture(CLI::App& program, Command& chosen,
                 const std::vector<std::string>& behind_dashes) {
  auto arguments = std::make_shared<CaptureArguments>();
  arguments->command = behind_dashes;
  CLI::App* verb = program.add_subcommand(
      "capture", "Run on-policy training and record all that a replay needs");
  verb->add_option("-o,--output", arguments->output, "the dump to be made");
  verb->add_option("--wrap", arguments->wrap,
                   "run another framework's launcher, the command behind --, with the recipe of "
                   "docs/wrap.md, and import what it dumps: slime|miles")
      ->check(CLI::IsMember({"slime", "miles"}));
  verb->add_flag("--dry-run", arguments->dry_run,
                 "with --wrap: print the whole command and what of yours is kept, run nothing");
  verb->add_flag("--resume", arguments->resume,
                 "go on with a capture that was killed; its options are in the dump");
  verb->add_flag("--force", arguments->force, "replace an older dump, once the new one is whole");
  arguments->flags.add(*verb, kSections);
  verb->add_flag("--json", arguments->json, "an object a step instead of a table");
  verb->footer(
      "A resumed capture keeps every step that was stored, and ends in the root that it would "
      "have\n"
      "had undisturbed; a dump that is complete is left as it is, with exit code 0. A recorded\n"
      "--reward-command and --save have to be given again: nothing runs because a dump says so.\n"
      "A step is shown once it is being stored, at most a second late; Ctrl-C and SIGTERM store\n"
      "what was shown, a second signal does not wait. With --force the new dump grows in\n"
      "DUMP.rlreplay-new/content.\n\n"
      "Examples:\n  rlreplay capture --model demo --steps 4 -o dump/\n"
      "  rlreplay capture --model demo --steps 4 --record ops+values -o dump/\n"
      "  rlreplay capture --resume -o dump/\n"
      "  rlreplay capture --model Qwen2.5-0.5B --prompts prompts.jsonl --reward gsm8k \\\n"
      "      --rollout-batch-size 4 --n-samples-per-prompt 8 --steps 2 -o dump/\n"
      "  rlreplay capture --wrap slime --dry-run -o dump/ -- ./run.sh\n"
      "  rlreplay capture --wrap slime -o dump/ -- python3 train.py --seed 7 ...");
  verb->callback([=, &chosen] { chosen = [=] { return capture(*arguments); }; });
}

}  // namespace rlreplay::replay
