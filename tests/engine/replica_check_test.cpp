#include "src/engine/replica_check.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "src/engine/backend.h"
#include "src/events/name.h"
#include "tests/engine/models.h"
#include "tests/environment.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

/// An element of what a rank holds of a parameter.
struct Plant {
  Event event;
  int rank = 0;
  int64_t row = 0, column = 0;
};

/// Moves one element of one rank's copy by one unit.
class Planting : public EventSink {
 public:
  explicit Planting(const Plant& plant) : plant_(plant) {}
  bool wants(const Event&) const override { return false; }
  void rows(const Event&, const EventView&, const RowCoordinates&) override {}
  void whole(const Event&, const EventView&) override {}
  void restart() override {}
  bool wants_part(const Event& event, int rank) const override {
    return event == plant_.event && rank == plant_.rank;
  }
  void part(const Event&, int, const EventView& values, int64_t row, int64_t column) override {
    const int64_t r = plant_.row - row, c = plant_.column - column;
    if (r < 0 || r >= values.rows || c < 0 || c >= values.cols) return;
    std::byte* at = values.at(r, c);
    uint32_t low = 0;  // the next number, of integers as of floats
    std::memcpy(&low, at, sizeof low);
    ++low;
    std::memcpy(at, &low, sizeof low);
    ++planted;
  }
  int planted = 0;

 private:
  Plant plant_;
};

constexpr std::pair<Phase, Op> kHeld[] = {{Phase::kReduce, Op::kGradient},
                                          {Phase::kOptimizer, Op::kExpAvg},
                                          {Phase::kOptimizer, Op::kExpAvgSq},
                                          {Phase::kOptimizer, Op::kWeight}};

/// What zero deals over dp.
bool is_dealt(Op op) { return op != Op::kWeight; }

/// The ranks that hold an element of the whole flat storage, found run by run.
std::vector<int> holders(const ModelConfig& c, const Layout& layout, Op op, int64_t element) {
  const ParameterTable whole = make_parameters(c);
  std::vector<int> out;
  for (int r = 0; r < layout.ranks(); ++r) {
    const RankPlace place = place_of(layout, r);
    const ShardTable shard = shard_parameters(c, make_shard(c, layout, place), place);
    const kernels::Range held = is_dealt(op) && layout.zero
                                    ? zero_range(shard.table, place.dp, layout.dp)
                                    : kernels::Range{0, shard.table.elements};
    bool holds = false;
    for_shard_runs(shard, whole, held, false, [&](int64_t, int64_t at, int64_t n) {
      holds = holds || (at <= element && element < at + n);
    });
    if (holds) out.push_back(r);
  }
  return out;
}

struct Task {
  ModelConfig config;
  Layout layout;
  Batch batch;
};

StepResult step(const Task& task, EventSink* sink) {
  ThreadPool pool(1);
  const Runtime runtime{kernels::cpu_kernels(), pool, sink};
  const auto backend =
      make_backend("portable", runtime, {.model = task.config, .layout = task.layout});
  backend->write_state(
      0, [&](const StateSpans<float>& state) { fill_weights(backend->parameters(), state, 7); });
  StepConfig config;
  config.train.leaf = 64;
  config.lr = 1e-3;
  return backend->step(task.batch.samples, task.batch.targets, config);
}

std::vector<Task> tasks() {
  std::vector<Task> out;
  ModelConfig few = odd_model(Architecture::kQwen3, true);  // tied; tp=8 holds a kv head four times
  few.kv_heads = 2;
  ModelConfig biased = small_model(Architecture::kQwen2);
  for (const char* layout : {"dp=3", "dp=2,tp=2", "dp=2,tp=2,zero=1", "tp=8", "tp=4,pp=2",
                             "cp=2,tp=2,sp=1", "dp=2,pp=2,zero=1", "dp=2,cp=2"}) {
    out.push_back({few, parse_layout(layout), random_batch(few, {37, 150, 5}, 3)});
  }
  out.push_back({biased, parse_layout("tp=2,dp=2"), random_batch(biased, {37, 70}, 4)});
  return out;
}

}  // namespace

TEST_CASE("ranks of every layout agree, and a plant in one copy is named with its rank") {
  Random random(rlreplay::test::seed());
  const std::vector<Task> all = tasks();
  for (const Task& task : all) {
    CAPTURE(to_string(task.layout));
    CHECK_FALSE(step(task, nullptr).replicas);
  }
  const int plants = rlreplay::test::full() ? 100 : 12;
  int alone = 0;
  for (int i = 0; i < plants; ++i) {
    const Task& task = all[static_cast<size_t>(i) % all.size()];
    const ParameterTable whole = make_parameters(task.config);
    const auto& [phase, op] = kHeld[random.below(4)];
    const Parameter& p = whole[static_cast<int>(random.below(std::ssize(whole.list)))];
    const int64_t index = random.below(p.size());
    const int64_t element = p.offset + index;
    const std::vector<int> by = holders(task.config, task.layout, op, element);
    REQUIRE(!by.empty());
    Plant plant{{phase, p.layer, op, p.name},
                by[static_cast<size_t>(random.below(std::ssize(by)))],
                index / p.cols,
                index % p.cols};
    CAPTURE(to_string(task.layout), to_string(plant.event), plant.rank, index, by.size());
    Planting sink(plant);
    const StepResult result = step(task, &sink);
    REQUIRE(sink.planted == 1);
    REQUIRE(result.replicas.has_value() == (by.size() > 1));
    alone += by.size() == 1;
    if (!result.replicas) continue;
    const ReplicaDifference& found = *result.replicas;
    CHECK(found.event == plant.event);
    CHECK(found.index == index);
    CHECK(found.copies == std::ssize(by));
    CHECK((found.rank == plant.rank || (by.size() == 2 && found.other == plant.rank)));
    CHECK(found.outvoted == (by.size() > 2));
    CHECK(found.value != found.other_value);
  }
  CHECK(alone < plants);
}

TEST_CASE("a difference of copies is told in one line") {
  const ReplicaDifference d{
      {Phase::kReduce, 0, Op::kGradient, "w"}, 10, "[1, 3]", 1, 0, true, 3, "5", "4"};
  CHECK(to_string(d, parse_layout("dp=3")) ==
        "reduce/0/gradient/w[1, 3] is 5 on rank 1 (dp 1) and 4 on rank 0 (dp 0), as on most of 3 "
        "ranks that hold it");
}
