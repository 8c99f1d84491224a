#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <map>

#include "format/boxes.h"
#include "format/chain_reader.h"
#include "format/dataset_copy.h"
#include "format/dump_writer.h"
#include "format/verify.h"
#include "src/replay/capture/recorder.h"
#include "src/replay/capture/state_data.h"
#include "src/replay/inspect/state_check.h"
#include "src/replay/record/content_root.h"
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
  explicit Demo(const std::string& weights, uint64_t bytes = kStateUnitBytes,
                const std::string& layout = {})
      : unit_bytes(bytes), pool(2), runtime{kernels::cpu_kernels(), pool} {
    apply_settings(options, demo_settings());
    options.steps = 11;
    options.rollout_batch_size = 2;
    options.weights = weights;
    if (!layout.empty()) options.layout = layout;
    model = open_demo();
    trainer.emplace(runtime, options, *model, Workload{});
  }

  std::map<StepId, Hash> capture(const std::string& path) {
    Watching recorder(format::DumpPlace(path, false, format::DumpPlace::Writer::kResumable),
                      options, *model, *trainer, pool, "", unit_bytes);
    recorder.watched = &*trainer;
    run_training(*trainer, RunTask(options, *model), options, recorder);
    recorder.finish();
    return recorder.states;
  }

  uint64_t unit_bytes;
  RunOptions options;
  ThreadPool pool;
  engine::Runtime runtime;
  std::unique_ptr<ModelSource> model;
  std::optional<Trainer> trainer;
};

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

TEST_CASE("kept states come back bit by bit") {
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
      REQUIRE(record.has_state(step) == (static_cast<int64_t>(i) % every == 0));
      if (!record.has_state(step)) continue;
      read_state(record, step, demo.trainer->backend());
      CHECK(state_hash(demo.trainer->backend().state()) == states.at(step));
      CHECK(demo.trainer->backend().steps() == static_cast<int64_t>(i));
    }
    CHECK(format::verify(path, true).problems.empty());
    CHECK(check_states(record, demo.pool).problems.empty());
  }
}

TEST_CASE("a state in many units is the same state, and none without its last one") {
  TemporaryFolder folder;
  constexpr uint64_t kUnit = 20'000;  // the embedding is larger
  const auto states = Demo("all").capture(folder / "whole");
  Demo demo("all", kUnit);
  CHECK(demo.capture(folder / "cut") == states);
  const RecordedRun whole(folder / "whole"), record(folder / "cut");
  CHECK(content_root(record.dump()) == content_root(whole.dump()));
  bool cut = false;
  for (const StepId& step : record.steps()) {
    const auto units = record.dump().find("weights", step.group());
    CHECK(units.size() > 2);
    for (const format::UnitRecord* unit : units) {
      CHECK(unit->logical <= kUnit + sizeof(double));  // the counters
      CHECK(format::is_part(unit->path) != unit->path.ends_with("/rank0.h5"));
      for (const auto& tensor : record.dump().open_unit(*unit).datasets()) {
        cut = cut || format::is_cut(tensor.attributes);
      }
    }
    read_state(record, step, demo.trainer->backend());
    CHECK(state_hash(demo.trainer->backend().state()) == states.at(step));
  }
  CHECK(cut);
  CHECK(format::verify(folder / "cut", true).problems.empty());
  CHECK(check_states(record, demo.pool).problems.empty());

  format::DumpWriter torn = format::DumpWriter::create(folder / "torn", record.dump().meta());
  each_state_unit(demo.trainer->backend(), "0-0", {}, 0, kUnit,
                  [&](const std::string& path, const std::vector<format::Dataset>& datasets) {
                    CHECK_FALSE(RecordedRun(folder / "torn").has_state({0, 0}));
                    torn.append(path, datasets);
                  });
  CHECK(RecordedRun(folder / "torn").has_state({0, 0}));
}

TEST_CASE("what all ranks of a state lack is said of all of them, a false unit of itself") {
  TemporaryFolder folder;
  Demo demo("all", kStateUnitBytes, "dp=1,tp=2,pp=1,cp=1");
  demo.options.steps = 2;
  demo.capture(folder / "good");
  const auto problems = [&](const std::string& path) {
    return check_states(RecordedRun(path), demo.pool).problems;
  };
  CHECK(problems(folder / "good").empty());
  const auto without = [&](const std::string& name, const auto& gone) {
    const RecordedRun good(folder / "good");
    format::DumpWriter writer = format::DumpWriter::create(folder / name, good.dump().meta());
    for (const format::UnitRecord& record : good.dump().units()) {
      const format::UnitReader unit = good.dump().open_unit(record);
      std::vector<format::Dataset> datasets;
      for (const format::StoredDataset& stored : unit.datasets()) {
        if (!gone(stored.path)) datasets.push_back(format::copy_of(good.dump(), unit, stored));
      }
      writer.append(record.path, std::move(datasets));
    }
    writer.seal();
    return problems(folder / name);
  };
  for (const std::string lacks : {"1-0/scalars", "1-0/parameters/model.norm.weight"}) {
    const auto found = without(lacks.substr(4, 3), [&](const auto& path) { return path == lacks; });
    REQUIRE(found.size() == 1);
    CHECK(found[0].unit == "weights/1-0/rank0.h5 and 1 more");
    CHECK(found[0].message.find(lacks) != std::string::npos);
  }
  {
    std::fstream file(folder / "good/weights/1-0/rank1.h5",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x5a');
  }
  const auto found = problems(folder / "good");
  REQUIRE(found.size() == 1);
  CHECK(found[0].unit == "weights/1-0/rank1.h5");
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
