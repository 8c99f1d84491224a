#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/dump_place.h"
#include "format/dump_reader.h"
#include "src/base/layout.h"
#include "src/events/recording_sink.h"
#include "src/replay/capture/rank_writers.h"
#include "src/replay/capture/state_data.h"
#include "src/replay/launch/provenance.h"
#include "src/replay/options/weights_policy.h"
#include "src/replay/run/run.h"

namespace rlreplay::replay {

/// Looks at --record and --weights before anything is made. Errors: kUsage.
void check_recording(const RunOptions& options);

/// Digests of the state after a step, summed from its events.
[[nodiscard]] StateDigests state_digests(const engine::StepEvents& events);

/// Writes a run into a dump while it goes, each rank of its layout units of its own.
class Recorder : public RunObserver {
 public:
  /// Begins the dump, which has its name from the beginning or, where it replaces another, from the
  /// end. `part` as dump_meta has it; a unit of a state has `state_unit_bytes` at most.
  /// Errors: those of DumpWriter::create.
  Recorder(format::DumpPlace place, const RunOptions& options, const ModelSource& model,
           Trainer& trainer, ThreadPool& pool, const std::string& part = "",
           uint64_t state_unit_bytes = kStateUnitBytes);
  /// Goes on with a dump that was begun before. What it holds is not written again: it must be what
  /// the run gives now.
  /// Errors: kUsage where the dump is of another model, or of a program with other options; of
  /// `rollout` and `step`: kEnvironment where the run does not give what the dump holds.
  Recorder(format::DumpWriter writer, const std::string& path, const RunOptions& recorded,
           const ModelSource& model, Trainer& trainer, ThreadPool& pool,
           const std::string& part = "");

  engine::EventSink* rollout_sink(int64_t rollout_id) override;
  engine::EventSink* step_sink(int64_t rollout_id, int64_t step_id,
                               std::span<const Sample> samples) override;
  void rollout(const RolloutBatch& batch) override;
  void step(StepOutcome& outcome, std::span<const Sample> samples,
            std::span<const SampleTargets> targets) override;

  /// Records a step whose events somebody else has collected, as step() does with its own.
  void step(StepOutcome& outcome, const engine::StepEvents& events, std::span<const Sample> samples,
            std::span<const SampleTargets> targets);
  /// The state before the step, where it is to be kept and is not there already.
  void keep_state(int64_t rollout_id, int64_t step_id);
  /// A unit of another dump, as it is.
  void copy(const format::DumpReader& from, const format::UnitRecord& unit);

  /// Calls `act` once all that the run gave so far is stored, as BackgroundWriter::when_stored.
  void when_stored(std::function<void()> act) { writers_->when_stored(std::move(act)); }

  /// Where the dump is being written.
  const std::string& path() const { return path_; }

  /// Stores what was handed over and says how far that is, "everything up to step 3.0 is stored":
  /// for another thread, which ends the program next. The other calls do not return any more.
  /// Errors: kEnvironment where it cannot be stored.
  [[nodiscard]] std::string drain();

  /// Waits until everything is stored, seals the dump and gives it its name.
  Hash finish();

 private:
  /// Begins with what the dump's own options say; the public constructors add the writers.
  Recorder(const std::string& path, const RunOptions& recorded, const ModelSource& model,
           Trainer& trainer, ThreadPool& pool);
  /// Returns whether the unit was there already.
  [[nodiscard]] bool put(int rank, const std::string& unit, std::vector<format::Dataset> datasets);
  /// Does what stores; adds to its error what becomes of the dump.
  template <class Act>
  auto told(Act&& act);
  /// What is left of the dump after an error.
  std::string left() const;

  std::string path_;
  std::optional<format::DumpPlace> place_;  // of a new dump
  Provenance provenance_;
  Layout layout_;  // by which the dump is cut
  WeightsPolicy weights_;
  uint64_t state_unit_bytes_ = kStateUnitBytes;
  Trainer& trainer_;
  engine::RecordingSink sink_;
  std::string kept_state_;                 // group of the last state
  std::map<std::string, Hash> committed_;  // of the dump as it was found: unit to content
  std::optional<RankWriters> writers_;
};

}  // namespace rlreplay::replay
