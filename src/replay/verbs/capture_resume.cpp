#include <filesystem>
#include <iostream>

#include "format/dump_files.h"
#include "format/journal.h"
#include "format/rule.h"
#include "format/verify.h"
#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/model_shape.h"
#include "src/base/shell.h"
#include "src/base/staged_folder.h"
#include "src/replay/capture/resume.h"
#include "src/replay/options/config_file.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/verbs/capture.h"
#include "src/replay/verbs/capture_parts.h"

namespace rlreplay::replay {
namespace {

/// Takes the last steps of a run that was captured whole again, from the last state that was kept,
/// and saves its weights.
/// Errors: kIncomplete where the dump does not hold the run's end; kEnvironment where the steps are
/// not those of the dump.
void save_again(const RunOptions& options, const RecordedRun& record, SavePlace& place) {
  const std::vector<StepId>& steps = record.steps();
  const int64_t last = planned_steps(options) - 1, in_rollout = steps_per_rollout(options);
  const bool trains = !options.rollout_only;
  if (trains && (steps.empty() || steps.back() != StepId{last / in_rollout, last % in_rollout})) {
    throw Error(ErrorCode::kIncomplete,
                "--save: the dump does not hold the run's last step, after which its weights are "
                "saved",
                record.path());
  }
  Machine machine(options);
  const auto model = find_model(options.model, options.seed);
  if (!same_shape(model->config(), record.config().model)) {
    throw Error(ErrorCode::kUsage,
                "the model's shape is not that of the dump: " +
                    shape_difference(model->config(), record.config().model),
                options.model);
  }
  Trainer trainer(machine.runtime(), options, *recorded_model(record),
                  {.longest_prompt = longest_prompt(record)});
  ReplayPlan plan;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (record.has_state(steps[i])) plan.steps.first = static_cast<int64_t>(i);
  }
  const auto nothing = [](const ReplayedStep&) {};
  if (trains &&
      !replay_training(record, options, plan, trainer, machine.pool(), nullptr, nothing)) {
    throw Error(ErrorCode::kEnvironment,
                "run again, the last steps are not those of the dump, and nothing was saved; see "
                "where with: rlreplay train " +
                    shell_word(record.path()),
                record.path());
  }
  place.save([&](const std::string& folder) { trainer.save(*model, folder); });
}

/// Reads every stored unit, its values and what its record says of them, sealed or not.
/// Errors: FormatError, the first.
void check_stored(const std::string& path) {
  for (const format::Problem& problem : format::verify(path, true).problems) {
    if (problem.rule == format::Rule::kUnlisted) continue;  // nobody vouches for it
    throw format::FormatError(problem.rule, problem.message, problem.path, problem.dataset,
                              problem.offset);
  }
}

/// What there is to say of a dump that has its end.
int already_sealed(const CaptureArguments& arguments, const RunOptions& options,
                   const RecordedRun& record, SavePlace& place) {
  const format::DumpReader& dump = record.dump();
  if (!dump.complete()) {
    throw Error(ErrorCode::kUsage,
                "the dump was closed after its writer had died: nothing can be added to it",
                arguments.output);
  }
  if (const std::string lacks = incomplete_text(record); !lacks.empty()) {
    throw Error(ErrorCode::kIncomplete,
                lacks + ". It is sealed, and nothing can be added to it: run what wrote it again",
                arguments.output);
  }
  const bool saves = arguments.flags.gives("save") && !options.save.empty();
  if (saves) save_again(options, record, place);
  if (!arguments.json) {
    std::cout << arguments.output << " is complete, root " << dump.root().hex()
              << (saves ? ": its trained weights are saved in " + options.save
                        : ": nothing to resume")
              << '\n';
  }
  return 0;
}

/// Whether --save names the checkpoint that this run itself left, before it was sealed.
bool is_own(const RunOptions& options, const RunOptions& recorded) {
  return options.save == recorded.save &&
         std::filesystem::exists(options.save + "/model.safetensors");
}

/// A capture with --force that was killed has its dump beside: this is about the older one.
void note_left_beside(const std::string& path) {
  const std::string left = StagedFolder::left_beside(path, format::kJournalFolder);
  if (left.empty()) return;
  std::cerr
      << "rlreplay: " << path
      << ": this is the older dump; what was begun with --force to replace it is unfinished in "
      << left << ": rlreplay capture --resume -o " << shell_word(left) << " goes on with it\n";
}

}  // namespace

int capture_resume(const CaptureArguments& arguments) {
  EndOnSignal on_signal(arguments.json);
  ignore_broken_pipes();
  if (!arguments.flags.print_config()) {
    static_cast<void>(format::take_sealed(arguments.output));  // then it is found below
    note_left_beside(arguments.output);
  }
  const RecordedRun found(arguments.output);
  const RunOptions recorded = found.config().options;
  const RunOptions options = arguments.flags.resolve(recorded);
  check_resumed_options(recorded, options);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  if (arguments.check) check_stored(arguments.output);
  RunOptions saving = options;
  if (!arguments.flags.gives("save")) saving.save.clear();
  SavePlace place(saving, is_own(options, recorded), "empty it");
  if (found.dump().sealed()) {
    format::finish_sealing(format::Folder::open(arguments.output));
    return already_sealed(arguments, options, found, place);
  }
  arguments.flags.check_given(recorded, arguments.output);
  format::WriterOptions settings;
  settings.unstable = Provenance(computing(recorded)).begun();
  settings.check = arguments.check;
  format::DumpWriter writer = format::DumpWriter::resume(arguments.output, settings);
  const RecordedRun record(arguments.output);  // as it is now that no other can write to it
  Machine machine(options);
  const auto model = find_model(options.model, options.seed);
  const RunTask task(options, *model);
  Trainer trainer = recorded_trainer(machine, options, *model, task);
  PrintingRecorder recorder(arguments.json, std::move(writer), arguments.output, recorded, *model,
                            trainer, machine.pool());
  const auto draining = drain_on_signal(on_signal, recorder);
  const RunStart start = resume_run(record, options, task, trainer);
  std::cerr << "resumed: " << record.steps().size() << " of " << planned_steps(options)
            << " steps are recorded, the run goes on from rollout " << start.rollout << "\n";
  run_training(trainer, task, options, recorder, start);
  return finish_recording(arguments, options, *model, trainer, recorder, place);
}

}  // namespace rlreplay::replay
