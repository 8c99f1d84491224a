#include "src/events/table.h"

#include <algorithm>

#include "kernels/order.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/events/lines.h"

namespace rlreplay::engine {
namespace {

constexpr std::string_view kLayerPrefix = "model.layers.";

/// The tensor as the table writes it, or nothing where the name is of another layer.
std::string_view without_layer(const Event& event) {
  const std::string prefix = parameter_name("", event.layer);
  const std::string_view tensor = event.tensor;
  return tensor.starts_with(prefix) ? tensor.substr(prefix.size()) : std::string_view();
}

bool is_line_of(const EventSpec& spec, const Event& event) {
  if (spec.phase != event.phase || spec.op != event.op || event.layer < -1) return false;
  if (spec.layered != (event.layer >= 0)) return false;
  if (spec.layered && is_parameter(spec.kind)) return without_layer(event) == spec.tensor;
  return event.tensor == spec.tensor;
}

int layer_at(At at, int layer, int layers) {
  switch (at) {
    case At::kHere:
      return layer;
    case At::kNone:
      return -1;
    case At::kBelow:
      return layer - 1;
    case At::kAbove:
      return layer + 1 < layers ? layer + 1 : -1;
    case At::kFirst:
      return 0;
    case At::kLast:
      return layers - 1;
  }
  return -1;
}

Event input_event(const Input& input, int layer, int layers) {
  const int at = layer_at(input.at, layer, layers);
  if (input.at == At::kBelow && at < 0) return {input.phase, -1, Op::kEmbedding, "y"};
  if (input.at == At::kAbove && at < 0) return {input.phase, -1, Op::kFinalNorm, "dx"};
  const bool parameter = input.before || input.op == Op::kGradient;
  const bool named = !input.tensor.empty();
  return {input.phase, at, input.op,
          parameter && named ? parameter_name(input.tensor, at) : std::string(input.tensor)};
}

}  // namespace

bool has(const ModelConfig& model, When when) {
  switch (when) {
    case When::kHeadNorms:
      return model.qk_norm;
    case When::kNoHeadNorms:
      return !model.qk_norm;
    case When::kBias:
      return model.qkv_bias;
    case When::kTied:
      return model.tied;
    case When::kUntied:
      return !model.tied;
    default:
      return true;
  }
}

const std::vector<EventSpec>& event_table() {
  static const std::vector<EventSpec> table = make_event_lines();
  return table;
}

const EventSpec* find_event(const Event& event) {
  const auto& table = event_table();
  const auto it =
      std::ranges::find_if(table, [&](const EventSpec& spec) { return is_line_of(spec, event); });
  return it == table.end() ? nullptr : &*it;
}

bool is_parameter(Kind kind) { return kind == Kind::kParameterSum || kind == Kind::kParameter; }

bool is_per_token(Kind kind) {
  return kind == Kind::kRows || kind == Kind::kRows64 || kind == Kind::kTokens;
}

DType dtype_of(Kind kind) {
  switch (kind) {
    case Kind::kRows:
    case Kind::kParameter:
    case Kind::kScalar32:
      return DType::kF32;
    case Kind::kTokens:
      return DType::kI32;
    case Kind::kParameterSum:
    case Kind::kInteger:
      return DType::kI64;
    case Kind::kRows64:
    case Kind::kScalar:
      return DType::kF64;
  }
  return DType::kF32;
}

std::string_view name(Granularity granularity) {
  switch (granularity) {
    case Granularity::kSteps:
      return "steps";
    case Granularity::kTensors:
      return "tensors";
    case Granularity::kOps:
      return "ops";
  }
  return "?";
}

EventOrder event_order(const Event& event) {
  const auto& table = event_table();
  const EventSpec* spec = find_event(event);
  check(spec != nullptr, "an event is not in the table");
  const auto layered = std::ranges::find_if(
      table, [&](const EventSpec& line) { return line.phase == event.phase && line.layered; });
  const bool after = layered != table.end() && spec > &*layered;
  const int section = spec->layered ? 1 : (after ? 2 : 0);
  const int layer = event.phase == Phase::kBackward ? -event.layer : event.layer;
  return {event.phase, section, spec->layered ? layer : 0, static_cast<int>(spec - table.data())};
}

std::string parameter_name(std::string_view tensor, int layer) {
  if (layer < 0) return std::string(tensor);
  return std::string(kLayerPrefix) + std::to_string(layer) + "." + std::string(tensor);
}

std::vector<ResolvedInput> event_inputs(const Event& event, int64_t layers) {
  const EventSpec* spec = find_event(event);
  check(spec != nullptr, "an event is not in the table");
  std::vector<ResolvedInput> out;
  for (const Input& input : spec->inputs) {
    out.push_back({input_event(input, event.layer, static_cast<int>(layers)), input.reach,
                   input.when, input.before});
  }
  return out;
}

std::vector<ResolvedInput> event_inputs(const Event& event, const ModelConfig& model) {
  std::vector<ResolvedInput> out = event_inputs(event, model.layers);
  std::erase_if(out, [&](const ResolvedInput& input) { return !has(model, input.when); });
  return out;
}

int64_t row_width(Width width, const ModelConfig& c) {
  switch (width) {
    case Width::kOne:
      return 1;
    case Width::kHidden:
      return c.hidden;
    case Width::kQueries:
      return c.heads * c.head_dim;
    case Width::kKeys:
      return c.kv_heads * c.head_dim;
    case Width::kHeads:
      return c.heads;
    case Width::kKvHeads:
      return c.kv_heads;
    case Width::kIntermediate:
      return c.intermediate;
  }
  return 1;
}

std::vector<int64_t> row_cuts(Width width, const ModelConfig& c) {
  const int64_t n = row_width(width, c);
  switch (width) {
    case Width::kOne:
    case Width::kHidden:
      return {};
    case Width::kQueries:
    case Width::kHeads:
      return segment_cuts(n, kernels::attention_segments(c.heads));
    case Width::kKeys:
    case Width::kKvHeads:
      return segment_cuts(n, c.kv_heads);  // at heads: a kv head is the smallest shard
    case Width::kIntermediate:
      return segment_cuts(n, kernels::kAxisSegments);
  }
  return {};
}

}  // namespace rlreplay::engine
