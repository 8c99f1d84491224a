#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "src/base/error.h"
#include "src/base/parameters.h"
#include "src/events/name.h"
#include "src/events/table.h"
#include "tests/engine/event_document.h"
#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::engine;

namespace {

constexpr int kLayers = 3;

/// Every event that the table allows in a model of kLayers layers.
std::vector<Event> all_events() {
  std::vector<Event> out;
  for (const EventSpec& spec : event_table()) {
    for (int layer = spec.layered ? 0 : -1; layer < (spec.layered ? kLayers : 0); ++layer) {
      const bool parameter = is_parameter(spec.kind);
      out.push_back({spec.phase, layer, spec.op,
                     parameter ? parameter_name(spec.tensor, layer) : std::string(spec.tensor)});
    }
  }
  return out;
}

std::string message_of(const std::string& text) {
  try {
    parse_step_event(text);
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::kUsage);
    REQUIRE(error.where() == text);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the page on events is the table") {
  std::ifstream file(RLREPLAY_DOCS "/events.md");
  std::stringstream text;
  text << file.rdbuf();
  INFO("print it anew: build/release/tests/engine/print_event_document > docs/events.md");
  REQUIRE((text.str() == engine::test::event_document()));
}

TEST_CASE("every line of the table is found by its event, and by no other") {
  std::set<std::string> names;
  for (const Event& event : all_events()) {
    CAPTURE(to_string(event));
    const EventSpec* spec = find_event(event);
    REQUIRE(spec != nullptr);
    REQUIRE(spec->phase == event.phase);
    REQUIRE(names.insert(to_string(event)).second);
    REQUIRE(parse_event(to_string(event)) == event);
    const StepEvent step{12, event.phase == Phase::kRollout ? 0 : 7, event};
    REQUIRE(parse_step_event(to_string(step)) == step);
  }
  REQUIRE(find_event({Phase::kForward, 0, Op::kDown, "dx"}) == nullptr);
  REQUIRE(find_event({Phase::kForward, -1, Op::kDown, "y"}) == nullptr);
  REQUIRE(find_event({Phase::kReduce, 1, Op::kGradient, "model.layers.2.mlp.down_proj.weight"}) ==
          nullptr);
}

TEST_CASE("inputs are events of the table that come before, but for the state of the step before") {
  for (const Event& event : all_events()) {
    for (const ResolvedInput& input : event_inputs(event, kLayers)) {
      CAPTURE(to_string(event), to_string(input.event));
      if (input.event.tensor.empty()) continue;
      REQUIRE(find_event(input.event) != nullptr);
      const bool rollout = event.phase == Phase::kRollout;
      if (input.before) {
        REQUIRE(input.event.phase == Phase::kOptimizer);
      } else if (!rollout || event.op != Op::kBatch) {  // whose tokens the rollout itself draws
        REQUIRE(event_order(input.event) < event_order(event));
      }
    }
  }
}

TEST_CASE("layers ascend, and descend in the backward") {
  const auto order = [](const char* text) { return event_order(parse_event(text)); };
  REQUIRE(order("forward/-/embedding/y") < order("forward/0/input_norm/y"));
  REQUIRE(order("forward/0/down/y") < order("forward/1/input_norm/y"));
  REQUIRE(order("forward/1/down/y") < order("forward/-/final_norm/y"));
  REQUIRE(order("forward/-/log_prob/entropy") < order("objective/-/targets/advantage"));
  REQUIRE(order("backward/-/final_norm/dx") < order("backward/1/down/dx"));
  REQUIRE(order("backward/1/input_norm/dx") < order("backward/0/down/dx"));
  REQUIRE(order("reduce/-/gradient/model.embed_tokens.weight") <
          order("reduce/0/gradient/model.layers.0.mlp.up_proj.weight"));
  REQUIRE(order("reduce/1/gradient/model.layers.1.mlp.up_proj.weight") <
          order("reduce/-/gradient/model.norm.weight"));
}

TEST_CASE("the table has a gradient, two moments and a weight of every parameter of every model") {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    ModelConfig config = engine::test::small_model(architecture);
    const ParameterTable parameters = make_parameters(config);
    EventOrder last{};
    for (const Parameter& p : parameters.list) {
      CAPTURE(p.name);
      const Event gradient{Phase::kReduce, p.layer, Op::kGradient, p.name};
      REQUIRE(find_event(gradient) != nullptr);
      for (const Op op : {Op::kExpAvg, Op::kExpAvgSq, Op::kWeight}) {
        REQUIRE(find_event({Phase::kOptimizer, p.layer, op, p.name}) != nullptr);
      }
      REQUIRE(last < event_order(gradient));  // the order of the parameters
      last = event_order(gradient);
    }
  }
}

TEST_CASE("rows are cut where their heads and segments are") {
  const ModelConfig c =
      engine::test::small_model(Architecture::kQwen3);  // 6 and 2 heads of 24, F 100
  REQUIRE(row_cuts(Width::kHidden, c).empty());
  REQUIRE(row_cuts(Width::kQueries, c) == std::vector<int64_t>{72});  // T = 2: 3 heads each
  REQUIRE(row_cuts(Width::kHeads, c) == std::vector<int64_t>{3});
  REQUIRE(row_cuts(Width::kKeys, c) == std::vector<int64_t>{24});
  REQUIRE(row_cuts(Width::kKvHeads, c) == std::vector<int64_t>{1});
  REQUIRE(row_cuts(Width::kIntermediate, c) == std::vector<int64_t>{12, 25, 37, 50, 62, 75, 87});
}

TEST_CASE("a wrong name of an event says what would be right") {
  using Catch::Matchers::Contains;
  CHECK_THAT(message_of("down/dx"), Contains("ROLLOUT.STEP/, two numbers"));
  CHECK_THAT(message_of("3.0/backward/1/down"), Contains("ROLLOUT.STEP/PHASE/LAYER/OP/TENSOR"));
  CHECK_THAT(message_of("3.x/backward/1/down/dx"), Contains("two numbers"));
  CHECK_THAT(message_of("3.0/back/1/down/dx"), Contains("rollout, forward, objective, backward"));
  CHECK_THAT(message_of("3.0/backward/1/dawn/dx"), Contains("it has log_prob, final_norm, down"));
  CHECK_THAT(message_of("3.0/backward/-/down/dx"), Contains("belongs to a layer"));
  CHECK_THAT(message_of("3.0/backward/1/final_norm/dx"), Contains("belongs to no layer"));
  CHECK_THAT(message_of("3.0/backward/one/down/dx"), Contains("`one` is no layer"));
  CHECK_THAT(message_of("3.0/forward/1/qkv/qkv"), Contains("has q, k, v"));
  CHECK_THAT(message_of("3.0/reduce/1/gradient/mlp.up_proj.weight"), Contains("model.layers.N."));
  CHECK_THAT(message_of("3.1/rollout/-/sample/token"), Contains("write 3.0"));
}
