#include <iostream>

#include "src/replay/options/config_file.h"
#include "src/replay/verbs/capture.h"
#include "src/replay/verbs/capture_parts.h"

namespace rlreplay::replay {

int capture_run(const CaptureArguments& arguments) {
  if (arguments.resume) return capture_resume(arguments);
  const RunOptions options = arguments.flags.resolve_for_model();
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  check_recording(options);
  EndOnSignal on_signal(arguments.json);
  ignore_broken_pipes();
  SavePlace saved(options, arguments.force);
  format::DumpPlace place(arguments.output, arguments.force, format::DumpPlace::Writer::kResumable);
  Machine machine(options);
  const auto model = find_model(options.model, options.seed);
  const RunTask task(options, *model);
  Trainer trainer = recorded_trainer(machine, options, *model, task);
  PrintingRecorder recorder(arguments.json, std::move(place), options, *model, trainer,
                            machine.pool());
  const auto draining = drain_on_signal(on_signal, recorder);
  run_training(trainer, task, options, recorder);
  return finish_recording(arguments, options, *model, trainer, recorder, saved);
}

}  // namespace rlreplay::replay
