#pragma once

#include <span>
#include <utility>

#include "src/replay/capture/recorder.h"
#include "src/replay/options/save_place.h"
#include "src/replay/run/machine.h"
#include "src/replay/run/step_report.h"
#include "src/replay/source/model_source.h"
#include "src/replay/verbs/capture.h"
#include "src/replay/verbs/end_on_signal.h"

/// What a capture and its resumption have in common.
namespace rlreplay::replay {

/// The trainer of a run that a recorder takes down, whose memory is planned with that.
[[nodiscard]] Trainer recorded_trainer(Machine& machine, const RunOptions& options,
                                       const ModelSource& model, const RunTask& task);

/// A recorder that prints a step once it is stored: no end, of whatever kind, takes back what was
/// shown.
class PrintingRecorder : public Recorder {
 public:
  template <class... Arguments>
  explicit PrintingRecorder(bool json, Arguments&&... arguments)
      : Recorder(std::forward<Arguments>(arguments)...), lines_(json) {}

  void step(StepOutcome& outcome, std::span<const Sample> samples,
            std::span<const SampleTargets> targets) override;

 private:
  StepLines lines_;
};

/// What a signal gives: the queue is stored, and the sentence says how far.
[[nodiscard]] EndOnSignal::Before drain_on_signal(EndOnSignal& end, Recorder& recorder);

/// Ends the dump and says what it is. What was trained is in no dump: it is saved first, so that a
/// dump which is not sealed yet can be resumed for it. Returns the exit code.
[[nodiscard]] int finish_recording(const CaptureArguments& arguments, const RunOptions& options,
                                   const ModelSource& model, Trainer& trainer, Recorder& recorder,
                                   SavePlace& place);

}  // namespace rlreplay::replay
