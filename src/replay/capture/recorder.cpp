#include "src/replay/capture/recorder.h"

#include <filesystem>

#include "format/canonical.h"
#include "format/dataset_copy.h"
#include "format/journal.h"
#include "format/manifest.h"
#include "format/rollout_data.h"
#include "format/train_data.h"
#include "format/unit.h"
#include "format/unit_writer.h"
#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/replay/capture/rank_part.h"
#include "src/replay/capture/sample_data.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/event_store.h"
#include "src/replay/record/parse_step.h"
#include "src/replay/run/machine.h"

namespace rlreplay::replay {
namespace {

format::DumpWriter create(const format::DumpPlace& place, const std::string& meta,
                          const std::string& unstable) {
  format::WriterOptions options;
  options.unstable = unstable;
  return format::DumpWriter::create(place.path(), meta, options);
}

/// Where it cannot be told, it counts as there.
bool is_absent(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found;
}

std::string unit_of(const char* kind, const std::string& group, int rank) {
  return std::string(kind) + "/" + group + "/rank" + std::to_string(rank) + ".h5";
}

template <class T>
void append(std::vector<T>& to, std::vector<T> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

void check_recording(const RunOptions& options) {
  static_cast<void>(parse_weights_policy(options.weights));
  static_cast<void>(engine::parse_record_options(options.record));
}

StateDigests state_digests(const engine::StepEvents& events) {
  StateDigests out;
  out.weights = events.total(engine::Op::kWeight);
  out.gradients = events.total(engine::Op::kGradient);
  out.optimizer = events.total(engine::Op::kExpAvg);
  out.optimizer += events.total(engine::Op::kExpAvgSq);
  return out;
}

Recorder::Recorder(const std::string& path, const RunOptions& recorded, const ModelSource& model,
                   Trainer& trainer, ThreadPool& pool)
    : path_(path),
      provenance_(computing(recorded)),
      layout_(parse_layout(recorded.layout)),
      weights_(parse_weights_policy(recorded.weights)),
      trainer_(trainer),
      sink_(model.config(), trainer.backend().parameters(), kernels::kTokenLeaf,
            engine::parse_record_options(recorded.record), pool) {}

Recorder::Recorder(format::DumpPlace place, const RunOptions& options, const ModelSource& model,
                   Trainer& trainer, ThreadPool& pool, const std::string& part,
                   uint64_t state_unit_bytes)
    : Recorder(place.path(), options, model, trainer, pool) {
  state_unit_bytes_ = state_unit_bytes;
  format::DumpWriter first =
      create(place, dump_meta(options, model.config(), part), provenance_.begun());
  place_.emplace(std::move(place));
  writers_.emplace(std::move(first), path_, layout_.ranks());
}

Recorder::Recorder(format::DumpWriter writer, const std::string& path, const RunOptions& recorded,
                   const ModelSource& model, Trainer& trainer, ThreadPool& pool,
                   const std::string& part)
    : Recorder(path, recorded, model, trainer, pool) {
  const std::string meta = dump_meta(recorded, model.config(), part);
  if (format::canonical_object(meta, "meta") != writer.meta()) {
    throw Error(ErrorCode::kUsage,
                "the dump was begun with " + meta_difference(writer.meta(), meta) +
                    ": resume it with the model, options and program with which it was begun",
                path);
  }
  for (const format::UnitRecord& unit : writer.units()) committed_[unit.path] = unit.content;
  writers_.emplace(std::move(writer));
}

std::string Recorder::left() const {
  if (place_ && !place_->keeps()) return "; nothing is left of the dump that was begun: run again";
  if (is_absent(path_ + "/" + format::kJournalFolder)) {
    return "; the dump is no longer there: where it was removed, run again; where it was moved, "
           "move it back, and rlreplay capture --resume -o " +
           shell_word(path_) + " goes on";
  }
  return "; what was stored before is whole, and rlreplay capture --resume -o " +
         shell_word(path_) + " goes on";
}

template <class Act>
auto Recorder::told(Act&& act) {
  try {
    return act();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kEnvironment) throw;
    throw Error(e.code(), e.what() + left(), e.where());
  }
}

bool Recorder::put(int rank, const std::string& unit, std::vector<format::Dataset> datasets) {
  const auto at = committed_.find(unit);
  if (at == committed_.end()) {
    told([&] { writers_->append(rank, unit, std::move(datasets)); });
    return false;
  }
  // Contents, not files: what a run gives again may be stored in other bytes.
  if (format::content_of(datasets) == at->second) return true;
  throw Error(ErrorCode::kEnvironment,
              "run again, " + unit +
                  " is not what the dump holds: program, machine or a file that the run reads has "
                  "changed; see where with: rlreplay train " +
                  shell_word(path_),
              path_);
}

engine::EventSink* Recorder::rollout_sink(int64_t rollout_id) {
  keep_state(rollout_id, 0);
  return &sink_;
}

engine::EventSink* Recorder::step_sink(int64_t rollout_id, int64_t step_id,
                                       std::span<const Sample>) {
  keep_state(rollout_id, step_id);
  return &sink_;
}

// Asked before a rollout and before its first step, between which no weight moves.
void Recorder::keep_state(int64_t rollout_id, int64_t step_id) {
  const std::string group = StepId{rollout_id, step_id}.group();
  const int64_t steps = trainer_.backend().steps();
  if (group == kept_state_ || !weights_.keeps(steps)) return;
  kept_state_ = group;
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    each_state_unit(trainer_.backend(), group, layout_, rank, state_unit_bytes_,
                    [&](const std::string& unit, std::vector<format::Dataset> datasets) {
                      static_cast<void>(put(rank, unit, std::move(datasets)));
                    });
  }
}

void Recorder::rollout(const RolloutBatch& batch) {
  const std::string group = std::to_string(batch.id);
  auto datasets = format::to_datasets(rollout_data(batch), group);
  append(datasets, event_datasets(sink_.finish(batch.id, 0), group));
  static_cast<void>(put(0, "rollout/" + group + ".h5", std::move(datasets)));
}

void Recorder::step(StepOutcome& outcome, std::span<const Sample> samples,
                    std::span<const SampleTargets> targets) {
  step(outcome, sink_.finish(outcome.rollout_id, outcome.step_id), samples, targets);
}

void Recorder::step(StepOutcome& outcome, const engine::StepEvents& events,
                    std::span<const Sample> samples, std::span<const SampleTargets> targets) {
  const std::string group = StepId{outcome.rollout_id, outcome.step_id}.group();
  outcome.digests = state_digests(events);
  const std::shared_ptr<const format::TrainData> whole = train_data(outcome, samples, targets);
  bool there = true;  // in a dump that is gone on with
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    auto datasets = coordinate_datasets(layout_, rank, group);
    append(datasets, format::to_datasets(std::make_shared<const format::TrainData>(
                                             rank_part(*whole, layout_, rank, kernels::kTokenLeaf)),
                                         group));
    // Events are of the whole step, whatever the layout: one rank's unit holds them.
    if (rank == 0) append(datasets, event_datasets(events, group));
    there = put(rank, unit_of("train", group, rank), std::move(datasets)) && there;
  }
  if (there) outcome.identical = true;
}

void Recorder::copy(const format::DumpReader& from, const format::UnitRecord& record) {
  const format::UnitReader unit = from.open_unit(record);
  std::vector<format::Dataset> datasets;
  for (const format::StoredDataset& stored : unit.datasets()) {
    datasets.push_back(format::copy_of(from, unit, stored));
  }
  told([&] { writers_->append(0, record.path, std::move(datasets)); });
}

std::string Recorder::drain() {
  const auto writers = writers_->drain();
  if (!writers) return "everything is stored";
  std::map<std::string, int> ranks;  // that hold a step, by group
  for (const auto& units : *writers) {
    for (const format::UnitRecord& unit : units) {
      if (format::kind_of(unit.path) != "train") continue;
      for (const std::string& group : unit.groups) ++ranks[group];
    }
  }
  std::string last;  // units are in the order in which they were appended, rank 0's among them all
  for (const format::UnitRecord& unit : writers->front()) {
    for (const std::string& group : unit.groups) {
      if (format::kind_of(unit.path) == "rollout") last = "rollout " + group;
      if (format::kind_of(unit.path) != "train" || ranks[group] < layout_.ranks()) continue;
      last = "step " + parse_step(group)->name();
    }
  }
  return last.empty() ? "no rollout is stored" : "everything up to " + last + " is stored";
}

Hash Recorder::finish() {
  const Hash root = told([&] {
    return writers_->seal({.complete = true, .unstable = provenance_.json(), .derived_from = {}});
  });
  if (place_) place_->settle();
  const std::string& name = place_ ? place_->name() : path_;
  if (is_absent(name + "/" + format::kManifestName)) {
    throw Error(ErrorCode::kEnvironment,
                "the dump was sealed with root " + root.hex() +
                    ", and is no longer there: it was moved or removed while it was written",
                name);
  }
  return root;
}

}  // namespace rlreplay::replay
