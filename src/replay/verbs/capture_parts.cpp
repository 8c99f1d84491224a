#include "src/replay/verbs/capture_parts.h"

#include <cstdio>
#include <iostream>

#include <unistd.h>

#include "src/base/shell.h"
#include "src/replay/record/content_root.h"

namespace rlreplay::replay {

Trainer recorded_trainer(Machine& machine, const RunOptions& options, const ModelSource& model,
                         const RunTask& task) {
  return {machine.runtime(),
          options,
          model,
          {.generates = true,
           .trains = !options.rollout_only,
           .longest_prompt = task.longest_prompt(),
           .records = true}};
}

void PrintingRecorder::step(StepOutcome& outcome, std::span<const Sample> samples,
                            std::span<const SampleTargets> targets) {
  Recorder::step(outcome, samples, targets);
  when_stored([text = lines_.text(outcome)] {
    if (::isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);  // over the bar of a rollout
    std::cout << text << std::flush;
  });
}

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

int finish_recording(const CaptureArguments& arguments, const RunOptions& options,
                     const ModelSource& model, Trainer& trainer, Recorder& recorder,
                     SavePlace& place) {
  place.save([&](const std::string& folder) { trainer.save(model, folder); });
  const Hash root = recorder.finish();
  if (arguments.json) return 0;
  std::cout << "recorded in " << arguments.output << ", root " << root.hex() << "\n"
            << "content " << content_root(arguments.output).hex() << "\n"
            << "replay it: rlreplay " << (options.rollout_only ? "rollout " : "train ")
            << shell_word(arguments.output) << '\n';
  return 0;
}

}  // namespace rlreplay::replay
