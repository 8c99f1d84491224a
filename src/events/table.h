#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "src/base/model_config.h"
#include "src/events/events.h"

/// The closed table of events: what a step emits, from what each value follows, and in which order
/// a reader takes them. docs/events.md is printed from it.
namespace rlreplay::engine {

/// The element type of an event, and whether it has a row per token, a row or an element per place
/// of a parameter, or one value.
enum class Kind : uint8_t {
  kRows,          // f32, a row per token
  kRows64,        // f64, a row per token
  kTokens,        // i32, one per token
  kParameterSum,  // i64, the shape of a parameter
  kParameter,     // f32, the shape of a parameter
  kScalar,        // f64
  kScalar32,      // f32
  kInteger,       // i64
};

/// The length of a row; of a parameter, the axis along which its rows may be cut (kHidden: none).
enum class Width : uint8_t { kOne, kHidden, kQueries, kKeys, kHeads, kKvHeads, kIntermediate };

/// How much is recorded; each includes the one before.
enum class Granularity : uint8_t {
  kSteps,    // scalars and a digest of every weight, gradient and moment
  kTensors,  // also what crosses layers, and the objective's numbers by token
  kOps,      // everything
};

/// Which models and batches have an event or an input.
enum class When : uint8_t {
  kAlways,
  kHeadNorms,  // the model has query and key norms
  kNoHeadNorms,
  kBias,  // q, k, v have biases
  kTied,  // the output head is the embedding
  kUntied,
  kReference,        // the samples have a reference model's log-probabilities
  kRolloutLogProbs,  // the samples have the rollout's log-probabilities
};

/// Whether the model has it, as far as the model says.
[[nodiscard]] bool has(const ModelConfig& model, When when);

/// Where an input stands, seen from the event's layer.
enum class At : uint8_t {
  kHere,   // the same layer
  kNone,   // outside of the layers
  kBelow,  // the stream into the layer: down/y below it, embedding/y for the first one
  kAbove,  // its gradient from the layer above, final_norm/dx for the last one
  kFirst,  // the first layer
  kLast,   // the last layer
};

/// Which rows of a per-token input a row depends on: its own, those of its sample up to or from its
/// position, that of the token before or after it, or all rows of all samples.
enum class Reach : uint8_t { kRow, kPrefix, kSuffix, kPrevious, kNext, kAll };

/// A value that an event is computed from: another event, or (`before`) a weight or moment as the
/// step before left it.
struct Input {
  Phase phase = Phase::kForward;
  Op op = Op::kEmbedding;
  std::string_view tensor;  // empty: every event of the operation
  Reach reach = Reach::kRow;
  At at = At::kHere;
  When when = When::kAlways;
  bool before = false;
};

/// One line of the table.
struct EventSpec {
  Phase phase = Phase::kForward;
  bool layered = false;
  Op op = Op::kEmbedding;
  std::string_view tensor;  // of a layer's parameter: without `model.layers.N.`
  Kind kind = Kind::kRows;
  Width width = Width::kOne;
  Granularity granularity = Granularity::kOps;
  When when = When::kAlways;
  std::vector<Input> inputs;  // none: given from outside
};

/// All events, in canonical order within a layer; a phase's layers stand together.
[[nodiscard]] const std::vector<EventSpec>& event_table();

/// The line of an event, null where there is none.
[[nodiscard]] const EventSpec* find_event(const Event& event);

/// Whether an event of a kind has the shape of a parameter, or a row or element a token; what has
/// neither is one value.
[[nodiscard]] bool is_parameter(Kind kind);
[[nodiscard]] bool is_per_token(Kind kind);
[[nodiscard]] DType dtype_of(Kind kind);

/// The name on the command line and in dumps: "steps", "tensors", "ops".
[[nodiscard]] std::string_view name(Granularity granularity);

/// The canonical order of events: by phase, then as they are computed, layers ascending and in the
/// backward descending. Errors: kInternal for an event outside of the table.
struct EventOrder {
  Phase phase;
  int section;  // before, in or after the layers
  int layer;
  int line;
  friend auto operator<=>(const EventOrder&, const EventOrder&) = default;
};
[[nodiscard]] EventOrder event_order(const Event& event);

/// The name on disk of a line's parameter.
[[nodiscard]] std::string parameter_name(std::string_view tensor, int layer);

/// What `event` is computed from, in a model of `layers` layers.
struct ResolvedInput {
  Event event;  // an empty tensor: every event of the operation
  Reach reach = Reach::kRow;
  When when = When::kAlways;
  bool before = false;
};
[[nodiscard]] std::vector<ResolvedInput> event_inputs(const Event& event, int64_t layers);

/// The inputs of `event` that exist in such a model.
[[nodiscard]] std::vector<ResolvedInput> event_inputs(const Event& event, const ModelConfig& model);

/// Elements of a row, by model.
[[nodiscard]] int64_t row_width(Width width, const ModelConfig& config);

/// Where tensor parallelism may cut a row, so where a digest's blocks end (docs/numerics.md
/// section 8).
[[nodiscard]] std::vector<int64_t> row_cuts(Width width, const ModelConfig& config);

}  // namespace rlreplay::engine
