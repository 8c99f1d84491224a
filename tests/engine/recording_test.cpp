#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/error.h"
#include "src/events/event_rows.h"
#include "tests/base/digest_oracle.h"
#include "tests/engine/recorded_scenario.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

using Coordinates = std::vector<std::vector<uint64_t>>;

/// Sample and position of each row.
Coordinates tokens_of(const RowSet& rows) {
  Coordinates out;
  for (const RowRun& run : rows) {
    for (int64_t i = 0; i < run.count; ++i) {
      out.push_back({run.sample, static_cast<uint64_t>(run.position + i)});
    }
  }
  return out;
}

Coordinates numbers_of(int64_t rows) {
  Coordinates out;
  for (int64_t row = 0; row < rows; ++row) out.push_back({static_cast<uint64_t>(row)});
  return out;
}

RowsView values_of(const EventRecord& r) {
  return {r.dtype, r.values.data(), r.rows, r.cols, r.cols};
}

}  // namespace

TEST_CASE("a record is the same in every micro-batch, order, slot, thread count and kernel set") {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    Scenario s;
    s.architecture = architecture;
    s.threads = 1;
    const Recorded want = record(s);
    REQUIRE(want.step.events.size() > 100);
    const auto same = [&](const Scenario& other) {
      const Recorded got = record(other);
      CHECK(first_unequal(got.rollout, want.rollout) == "");
      CHECK(first_unequal(got.step, want.step) == "");
    };
    for (const int64_t micro_batch : {1, 2, 3}) {
      CAPTURE(micro_batch);
      Scenario other = s;
      other.micro_batch = micro_batch;
      other.slots = micro_batch;
      other.threads = 2;
      same(other);
    }
    Scenario other = s;
    other.recompute = true;
    other.threads = 4;
    other.reversed = true;
    same(other);
    for (const auto& set : kernels::cpu_kernel_sets()) {
      CAPTURE(set.name);
      other.kernels = &set;
      same(other);
    }
    other.kernels = &kernels::reference_kernels();
    same(other);
  }
}

TEST_CASE("every event of the table is recorded once, at its granularity") {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    const ModelConfig c = small_model(architecture);
    for (const auto granularity : {Granularity::kSteps, Granularity::kTensors, Granularity::kOps}) {
      Scenario s;
      s.architecture = architecture;
      s.record = {granularity, false, false};
      Recorded got = record(s);
      got.step.prepend(got.rollout);
      std::vector<Event> want;
      const auto exists = [&](When when) {
        switch (when) {
          case When::kHeadNorms:
            return c.qk_norm;
          case When::kBias:
            return c.qkv_bias;
          case When::kUntied:
            return !c.tied;
          default:
            return true;
        }
      };
      for (const EventSpec& spec : event_table()) {
        if (spec.granularity > granularity || !exists(spec.when)) continue;
        for (int l = spec.layered ? 0 : -1; l < (spec.layered ? c.layers : 0); ++l) {
          want.push_back({spec.phase, l, spec.op,
                          is_parameter(spec.kind) ? parameter_name(spec.tensor, l)
                                                  : std::string(spec.tensor)});
        }
      }
      std::ranges::sort(want, {}, event_order);
      REQUIRE(got.step.events.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        const EventRecord& r = got.step.events[i];
        CAPTURE(to_string(want[i]));
        REQUIRE(r.event == want[i]);
        const Kind kind = find_event(r.event)->kind;
        const bool by_row = s.record.row_digests(kind) && !r.dims.empty();
        REQUIRE(r.row_digests.size() == (by_row ? static_cast<size_t>(r.rows) : 0));
        const bool whole = r.dims.empty() && (kind != Kind::kRows || s.record.row_digests(kind));
        REQUIRE(r.values.empty() == !whole);
        REQUIRE(!r.stats);
      }
    }
  }
}

TEST_CASE("recorded digests are those of the values, by the digest of tensors and tokens") {
  Scenario s;
  s.architecture = Architecture::kQwen3;
  s.prompts = {3, 250, 290};  // the response to the second crosses a leaf's border
  const ModelConfig c = small_model(s.architecture);
  const ParameterTable parameters = make_parameters(c);
  const Recorded got = record(s);
  for (const EventRecord& r : got.step.events) {
    CAPTURE(to_string(r.event));
    REQUIRE(r.values.size() == static_cast<size_t>(r.rows * r.cols) * size_of(r.dtype));
    const DigestPlan plan = digest_plan(r.event, c, parameters);
    Digest sum;
    for (const Digest& row : r.row_digests) sum += row;
    if (!r.dims.empty()) REQUIRE(sum == r.digest);
    const RowsView values = values_of(r);
    if (r.row_set < 0) {
      REQUIRE(r.digest ==
              rlreplay::test::digest_of_rows(plan.id, values, numbers_of(r.rows), plan.cuts, true));
      continue;
    }
    const Coordinates at = tokens_of(got.step.row_sets[static_cast<size_t>(r.row_set)]);
    if (!r.dims.empty()) {
      REQUIRE(r.digest ==
              rlreplay::test::digest_of_rows(plan.id, values, at, plan.cuts, !plan.cuts.empty()));
    } else {
      REQUIRE(r.digest ==
              rlreplay::test::digest_of_leaves(plan.id, values, at, kernels::kTokenLeaf));
    }
  }
  // The numbers that a step returns are the recorded ones.
  const auto scalar = [&](const char* event) {
    double value = 0;
    std::memcpy(&value, got.step.find(parse_event(event))->values.data(), sizeof value);
    return value;
  };
  REQUIRE(scalar("clip/-/clip/norm") == got.result.grad_norm);
  REQUIRE(scalar("objective/-/loss/total") == got.result.losses.total);
}

TEST_CASE("a rollout's rows are the training forward's, also when it is prefilled in pieces") {
  const Scenario s;
  const Recorded got = record(s);
  int64_t compared = 0;
  for (const EventRecord& r : got.rollout.events) {
    if (r.event.op == Op::kSample) continue;
    Event event = r.event;
    event.phase = Phase::kForward;
    const EventRecord* train = got.step.find(event);
    CAPTURE(to_string(event));
    REQUIRE(train != nullptr);
    const RowSet& rows = got.rollout.row_sets[static_cast<size_t>(r.row_set)];
    const RowSet& train_rows = got.step.row_sets[static_cast<size_t>(train->row_set)];
    const size_t bytes = static_cast<size_t>(r.cols) * size_of(r.dtype);
    int64_t row = 0;
    for (const RowRun& run : rows) {
      for (int64_t p = run.position; p < run.position + run.count; ++p, ++row) {
        const int64_t other = index_of(train_rows, run.sample, p);
        REQUIRE(other >= 0);
        REQUIRE(std::memcmp(r.values.data() + static_cast<size_t>(row) * bytes,
                            train->values.data() + static_cast<size_t>(other) * bytes, bytes) == 0);
        if (!r.row_digests.empty()) {
          REQUIRE(r.row_digests[static_cast<size_t>(row)] ==
                  train->row_digests[static_cast<size_t>(other)]);
        }
        ++compared;
      }
    }
    REQUIRE(row + static_cast<int64_t>(got.samples.size()) == train->rows);
  }
  REQUIRE(compared > 10000);

  const ModelConfig c = small_model(s.architecture);
  ThreadPool pool(2);
  Model model(c);
  fill_weights(model.parameters(), model.weights(), 7);
  RecordingSink sink(c, model.parameters(), kernels::kTokenLeaf, s.record, pool);
  const Runtime run{kernels::cpu_kernels(), pool, &sink};
  model.pack(run, PackedFor::kForward);
  const Tables tables(c, 1024);
  const Sample& longest =
      *std::ranges::max_element(got.samples, {}, [](const Sample& x) { return x.tokens.size(); });
  const auto prefill = [&](size_t piece) {
    KvCache cache(model, 1024);
    KvCache* caches[] = {&cache};
    const std::span<const int32_t> tokens = longest.tokens;
    for (size_t at = 0; at < tokens.size(); at += piece) {
      const Chunk chunk{longest.id, static_cast<int64_t>(at),
                        tokens.subspan(at, std::min(piece, tokens.size() - at))};
      RowBatch batch = make_row_batch({&chunk, 1}, 0);
      batch.phase = Phase::kRollout;
      Buffer<float> hidden;
      transformer_forward({run, model, tables.view()}, batch, caches, hidden);
    }
    return sink.finish(3, 0);
  };
  const StepEvents want = prefill(longest.tokens.size());
  for (const size_t piece : {1, 7, 64, 200}) REQUIRE(first_unequal(prefill(piece), want) == "");
}

TEST_CASE("a backward that is redone at the next scale is recorded once") {
  const ModelConfig c = small_model(Architecture::kLlama);
  const Batch batch = random_batch(c, {37, 65, 5}, 3);
  const auto step = [&](float factor, int64_t micro_batch) {
    ThreadPool pool(2);
    TrainState state(c);
    RecordingSink sink(c, state.model.parameters(), kernels::kTokenLeaf,
                       {Granularity::kOps, true, true}, pool);
    const Runtime run{kernels::cpu_kernels(), pool, &sink};
    fill_weights(state.model.parameters(), state.model.weights(), 7);
    const Parameter& head = state.model.parameters()[state.model.parameters().head];
    for (int64_t i = 0; i < head.size(); ++i) {
      state.model.weights()[static_cast<size_t>(head.offset + i)] *= factor;
    }
    state.model.pack(run, PackedFor::kTraining);
    StepConfig config;
    config.objective.policy_loss = PolicyLoss::kPlain;
    config.micro_batch_size = micro_batch;
    Gradients gradients(state.model.parameters());
    const Tables tables(c, 1024);
    const StepResult result =
        run_step(run, state, gradients, tables.view(), batch.samples, batch.targets, config);
    return std::pair(result.scale, sink.finish(0, 0));
  };
  const int first = step(1, 0).first;
  float factor = 4;
  while (step(factor, 0).first == first) factor *= 4;
  const auto [scale, want] = step(factor, 0);
  REQUIRE(scale == first - 8);
  int64_t recorded = 0;
  std::memcpy(&recorded, want.find(parse_event("objective/-/scale/scale"))->values.data(), 8);
  REQUIRE(recorded == scale);
  REQUIRE(first_unequal(step(factor, 1).second, want) == "");
}

TEST_CASE("NaN and infinity are reported by their place, and never digested") {
  const ModelConfig c = small_model(Architecture::kLlama);
  const ParameterTable parameters = make_parameters(c);
  ThreadPool pool(2);
  const Event event{Phase::kForward, 1, Op::kDown, "y"};
  const auto digest = [&](float bad, bool skip) {
    RecordingSink sink(c, parameters, kernels::kTokenLeaf, {Granularity::kOps, true, false}, pool);
    std::vector<float> values(static_cast<size_t>(4 * c.hidden), 0.5f);
    values[static_cast<size_t>(2 * c.hidden + 5)] = bad;
    values[static_cast<size_t>(3 * c.hidden + 1)] = bad;
    const uint64_t samples[] = {8, 9, 6, 6};
    const int32_t positions[] = {0, 0, 3, 4};
    sink.rows(event, EventView::of(kernels::Matrix<float>(values.data(), skip ? 2 : 4, c.hidden)),
              {samples, positions});
    return sink.finish(0, 0).events.at(0);
  };
  const EventRecord fine = digest(0.25f, false), without = digest(0, true);
  REQUIRE(fine.nonfinite.count == 0);
  REQUIRE(fine.stats->max == 0.5);
  REQUIRE(fine.stats->min == 0.25);
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const EventRecord got = digest(bad, false);
    REQUIRE((got.nonfinite == NonFinite{2, {6, 3, 5}}));
    REQUIRE(got.digest == without.digest);
    REQUIRE(got.row_digests[0] == Digest{});
    REQUIRE(got.stats->rms == 0.5);
    REQUIRE(!got.same_value(without));
  }
  const Event mean{Phase::kObjective, -1, Op::kLoss, "kl"};
  RecordingSink sink(c, parameters, kernels::kTokenLeaf, {}, pool);
  double value = std::nan("");
  sink.whole(mean, EventView::of(value));
  const EventRecord scalar = sink.finish(0, 0).events.at(0);
  REQUIRE(scalar.nonfinite.count == 1);
  REQUIRE(scalar.digest == Digest{});
}

TEST_CASE("what to record is written as granularity and extras") {
  for (const char* text :
       {"steps", "tensors", "ops", "ops+stats", "tensors+values", "ops+stats+values"}) {
    REQUIRE(to_string(parse_record_options(text)) == text);
  }
  REQUIRE(to_string(parse_record_options("ops+values+stats")) == "ops+stats+values");
  for (const char* text : {"", "step", "ops+", "+stats", "stats", "ops+rows", "ops stats"}) {
    CAPTURE(text);
    REQUIRE_THROWS_AS(parse_record_options(text), Error);
  }
}
