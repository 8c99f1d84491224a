#include "src/replay/capture/recorder.h"

#include "format/canonical.h"
#include "format/unit_writer.h"
#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/replay/capture/sample_data.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/event_store.h"
#include "src/replay/record/step_id.h"
#include "src/replay/run/machine.h"

namespace rlreplay::replay {
namespace {

// Units wait here for the disk; beyond it the run waits, so that a slow disk does not cost memory.
constexpr uint64_t kQueuedBytes = uint64_t{1} << 30;

format::DumpWriter create(const format::DumpPlace& place, const std::string& meta,
                          const std::string& unstable) {
  format::WriterOptions options;
  options.unstable = unstable;
  return format::DumpWriter::create(place.path(), meta, options);
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

Recorder::Recorder(format::DumpPlace place, const RunOptions& options, const ModelSource& model,
                   Trainer& trainer, ThreadPool& pool, const std::string& part)
    : Recorder(create(place, dump_meta(options, model.config(), part),
                      Provenance(computing(options)).begun()),
               place.path(), options, model, trainer, pool, part) {
  place_.emplace(std::move(place));
}

Recorder::Recorder(format::DumpWriter writer, const std::string& path, const RunOptions& recorded,
                   const ModelSource& model, Trainer& trainer, ThreadPool& pool,
                   const std::string& part)
    : path_(path),
      provenance_(computing(recorded)),
      weights_(parse_weights_policy(recorded.weights)),
      trainer_(trainer),
      sink_(model.config(), trainer.backend().parameters(), kernels::kTokenLeaf,
            engine::parse_record_options(recorded.record), pool) {
  const std::string meta = dump_meta(recorded, model.config(), part);
  if (format::canonical_object(meta, "meta") != writer.meta()) {
    throw Error(ErrorCode::kUsage,
                "the dump was begun with a model of another shape, or by a program with other "
                "options or numeric rules: resume it with that program",
                path);
  }
  for (const format::UnitRecord& unit : writer.units()) committed_[unit.path] = unit.content;
  writer_.emplace(std::move(writer), kQueuedBytes);
}

template <class Act>
auto Recorder::told(Act&& act) {
  try {
    return act();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kEnvironment) throw;
    const bool kept = !place_ || place_->keeps();
    throw Error(e.code(),
                std::string(e.what()) +
                    (kept ? "; what was stored before is whole, and rlreplay capture --resume -o " +
                                shell_word(path_) + " goes on"
                          : "; nothing is left of the dump that was begun: run again"),
                e.where());
  }
}

bool Recorder::put(const std::string& unit, std::vector<format::Dataset> datasets) {
  const auto at = committed_.find(unit);
  if (at == committed_.end()) {
    told([&] { writer_->append(unit, std::move(datasets)); });
    return false;
  }
  // Contents, not files: what a run gives again may be stored in other bytes.
  if (format::content_of(datasets) == at->second) return true;
  throw Error(ErrorCode::kEnvironment,
              "run again, " + unit +
                  " is not what the dump holds: program, machine or a file that the run reads has "
                  "changed; see where with: rlreplay train --from " +
                  path_,
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

void Recorder::keep_state(int64_t rollout_id, int64_t step_id) {
  const std::string group = StepId{rollout_id, step_id}.group();
  const int64_t steps = trainer_.backend().steps();
  if (group == kept_state_ || !weights_.keeps(steps)) return;
  kept_state_ = group;
  const std::string unit = "weights/" + group + "/rank0.h5";
  auto state = state_datasets(trainer_.backend(), group);
  if (weights_.every > 0) states_.link(unit, weights_.number(steps), state);
  put(unit, std::move(state));
}

void Recorder::rollout(const RolloutBatch& batch) {
  const std::string group = std::to_string(batch.id);
  auto datasets = format::to_datasets(rollout_data(batch), group);
  append(datasets, event_datasets(sink_.finish(batch.id, 0), group));
  put("rollout/" + group + ".h5", std::move(datasets));
}

void Recorder::step(StepOutcome& outcome, std::span<const Sample> samples,
                    std::span<const SampleTargets> targets) {
  step(outcome, sink_.finish(outcome.rollout_id, outcome.step_id), samples, targets);
}

void Recorder::step(StepOutcome& outcome, const engine::StepEvents& events,
                    std::span<const Sample> samples, std::span<const SampleTargets> targets) {
  const std::string group = StepId{outcome.rollout_id, outcome.step_id}.group();
  outcome.digests = state_digests(events);
  auto datasets = format::to_datasets(train_data(outcome, samples, targets), group);
  append(datasets, event_datasets(events, group));
  if (put("train/" + group + "/rank0.h5", std::move(datasets))) outcome.identical = true;
}

void Recorder::copy(const format::DumpReader& from, const format::UnitRecord& record) {
  const format::UnitReader unit = from.open_unit(record);
  std::vector<format::Dataset> datasets;
  for (const format::StoredDataset& stored : unit.datasets()) {
    auto bytes = std::make_shared<const Buffer<std::byte>>(from.read(unit, stored));
    format::Dataset& out = datasets.emplace_back();
    out.path = stored.path;
    out.dtype = stored.dtype;
    out.shape = stored.shape;
    out.bytes = {bytes->data(), bytes->size()};
    out.owner = std::move(bytes);
    out.attributes = stored.attributes;
  }
  told([&] { writer_->append(record.path, std::move(datasets)); });
}

std::string Recorder::drain() {
  const auto units = writer_->drain();
  if (!units) return "everything is stored";
  std::string last;  // units are in the order in which they were appended
  for (const format::UnitRecord& unit : *units) {
    const std::string& group = unit.groups.front();
    if (format::kind_of(unit.path) == "rollout") last = "rollout " + group;
    if (format::kind_of(unit.path) == "train") last = "step " + parse_step(group)->name();
  }
  return last.empty() ? "no rollout is stored" : "everything up to " + last + " is stored";
}

Hash Recorder::finish() {
  const Hash root = told([&] {
    return writer_->finish().seal(
        {.complete = true, .unstable = provenance_.json(), .derived_from = {}});
  });
  if (place_) place_->settle();
  return root;
}

}  // namespace rlreplay::replay
