#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "format/chain_reader.h"
#include "format/dump_writer.h"
#include "format/verify.h"
#include "src/replay/capture/recorder.h"
#include "src/replay/capture/state_data.h"
#include "src/replay/inspect/state_check.h"
#include "src/replay/record/state_reader.h"
#include "src/replay/source/demo.h"
#include "src/replay/source/model_source.h"
#include "tests/temporary_folder.h"

using namespace rlreplay;
using namespace rlreplay::replay;
using rlreplay::test::TemporaryFolder;

namespace {

Hash state_hash(const StateSpans<const float>& state) {
  Hasher hasher;
  for (const auto& part : {state.weights, state.first_moments, state.second_moments}) {
    hasher.update(std::as_bytes(part));
  }
  return hasher.finish();
}

/// Sees the state before each step.
class Watching : public Recorder {
 public:
  using Recorder::Recorder;
  std::map<StepId, Hash> states;

  engine::EventSink* step_sink(int64_t rollout, int64_t step,
                               std::span<const Sample> samples) override {
    states[{rollout, step}] = state_hash(watched->backend().state());
    return Recorder::step_sink(rollout, step, samples);
  }
  Trainer* watched = nullptr;
};

/// A trainer of the demo, and the run that it makes.
struct Demo {
  explicit Demo(const std::string& weights) : pool(2), runtime{kernels::cpu_kernels(), pool} {
    apply_settings(options, demo_settings());
    options.steps = 11;
    options.rollout_batch_size = 2;
    options.weights = weights;
    model = open_demo();
    trainer.emplace(runtime, options, *model, Workload{});
  }

  std::map<StepId, Hash> capture(const std::string& path) {
    Watching recorder(format::DumpPlace(path, false, format::DumpPlace::Writer::kResumable),
                      options, *model, *trainer, pool);
    recorder.watched = &*trainer;
    run_training(*trainer, Task(options, *model), options, recorder);
    recorder.finish();
    return recorder.states;
  }

  RunOptions options;
  ThreadPool pool;
  engine::Runtime runtime;
  std::unique_ptr<ModelSource> model;
  std::optional<Trainer> trainer;
};

/// The units of a state's differences; empty for a full one.
std::string base_of(const format::DumpReader& dump, const StepId& step) {
  const format::UnitReader unit = dump.open_unit(*dump.find("weights", step.group()).front());
  std::string base;
  for (const format::StoredDataset& d : unit.datasets()) {
    if (!d.base || d.base->unit == base) continue;
    CHECK(base.empty());
    base = d.base->unit;
  }
  return base;
}

/// A copy of a dump, in which `change` may change what is stored.
void copy_dump(const std::string& from, const std::string& to,
               const std::function<void(const std::string& path, std::span<std::byte>)>& change) {
  const format::DumpReader dump = format::DumpReader::open(from);
  format::DumpWriter writer = format::DumpWriter::create(to, dump.meta());
  std::map<std::string, Buffer<std::byte>> places;
  format::ChainReader chain(dump, [&](const format::StoredDataset& d) {
    Buffer<std::byte>& place = places[d.path.substr(d.path.find('/'))];
    place.resize(d.bytes);
    return std::span(place.data(), place.size());
  });
  for (const format::UnitRecord& record : dump.units()) {
    const format::UnitReader unit = dump.open_unit(record);
    chain.begin(unit, record.groups.front());
    std::vector<format::Dataset> datasets;
    for (const format::StoredDataset& stored : unit.datasets()) {
      const auto read = chain.read(unit, stored);
      const auto bytes = std::make_shared<std::vector<std::byte>>(read.begin(), read.end());
      change(stored.path, {bytes->data(), bytes->size()});
      format::Dataset& out = datasets.emplace_back();
      out.path = stored.path;
      out.dtype = stored.dtype;
      out.shape = stored.shape;
      out.bytes = {bytes->data(), bytes->size()};
      out.owner = bytes;
      out.attributes = stored.attributes;
    }
    writer.append(record.path, datasets);
  }
  writer.seal();
}

}  // namespace

TEST_CASE("states between full ones are differences, and come back bit by bit") {
  TemporaryFolder folder;
  for (const auto& [policy, every] : std::map<std::string, int64_t>{{"all", 1}, {"every=2", 2}}) {
    INFO(policy);
    Demo demo(policy);
    const std::string path = folder / policy;
    const auto states = demo.capture(path);
    const RecordedRun record(path);
    REQUIRE(record.steps().size() == 11);
    for (size_t i = 0; i < record.steps().size(); ++i) {
      const StepId step = record.steps()[i];
      const auto number = static_cast<int64_t>(i) / every;
      REQUIRE(record.has_state(step) == (static_cast<int64_t>(i) % every == 0));
      if (!record.has_state(step)) continue;
      const StepId before = record.steps()[i - (number % kFullStateEvery == 0 ? 0 : every)];
      CHECK(base_of(record.dump(), step) ==
            (before == step ? "" : "weights/" + before.group() + "/rank0.h5"));
      read_state(record, step, demo.trainer->backend());
      CHECK(state_hash(demo.trainer->backend().state()) == states.at(step));
      CHECK(demo.trainer->backend().steps() == static_cast<int64_t>(i));
    }
    CHECK(format::verify(path, true).problems.empty());
    CHECK(check_states(record, demo.pool).problems.empty());
  }
}

TEST_CASE("a state that no step left is found, and named") {
  TemporaryFolder folder;
  Demo demo("all");
  demo.capture(folder / "good");
  const auto check = [&](const std::string& path) {
    std::string found;
    for (const RecordProblem& problem : check_states(RecordedRun(path), demo.pool).problems) {
      CHECK(problem.unit == "weights/" + problem.dataset.substr(0, 3) + "/rank0.h5");
      found += problem.dataset + " ";
    }
    return found;
  };
  CHECK(check(folder / "good").empty());
  for (const std::string at :
       {"5-0/exp_avg/model.norm.weight", "9-0/parameters/model.layers.1.mlp.down_proj.weight"}) {
    const std::string path = folder / at.substr(0, 1);
    copy_dump(folder / "good", path, [&](const std::string& dataset, std::span<std::byte> bytes) {
      if (dataset == at) bytes[4] ^= std::byte{1};
    });
    CHECK(format::verify(path, true).problems.empty());
    CHECK(check(path) == at + " ");
  }
  // The state before the first step is given, by nobody's record.
  copy_dump(folder / "good", folder / "0",
            [](const std::string& dataset, std::span<std::byte> bytes) {
              if (dataset.starts_with("0-0/parameters/")) bytes[4] ^= std::byte{1};
            });
  CHECK(check(folder / "0").empty());
}
