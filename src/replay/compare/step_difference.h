#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/replay/compare/event_difference.h"

namespace rlreplay::replay {

/// What the first difference of two records is.
enum class OriginClass : uint8_t {
  kOrigin,    // its inputs agree and it differs: it computed something else
  kInterval,  // what is recorded of its inputs agrees; an event between them is the origin
  kGiven,     // it is computed from nothing: the batch itself differs
  kCarrier,   // an input differs: the state before the step, or something that was not recorded
  kMissing,   // only one of the records has it
};
[[nodiscard]] std::string_view name(OriginClass kind);

/// The first event in canonical order whose inputs agree and whose values differ; where there is
/// none, the first that differs.
struct Origin {
  int64_t rollout_id = 0;
  int64_t step_id = 0;
  engine::Event event;
  int rank = 0;
  std::optional<engine::Element> row;           // where rows were recorded
  std::optional<EventDifference::Value> value;  // where values were
  bool inputs_equal = false;
  OriginClass kind = OriginClass::kOrigin;
  bool per_token = false;  // its rows are tokens
  int ranks = 1;           // that may have it, `rank` the first: one where it is known whose it is
};

/// What two records of one step differ in.
struct StepDifference {
  std::optional<Origin> origin;
  std::vector<EventDifference> events;  // in canonical order

  [[nodiscard]] bool identical() const { return !origin.has_value(); }
};

/// Tensors of a state.
using StateTensors = std::set<std::pair<engine::Op, std::string>>;

/// The weights and moments before the step: as the step before recorded them, or which of the
/// tensors are known to differ. Without either they are taken to agree.
struct StateBefore {
  const engine::StepEvents* a = nullptr;
  const engine::StepEvents* b = nullptr;
  StateTensors differing = {};
};

/// Events that only one side recorded because the other one recorded less are left out.
[[nodiscard]] StepDifference compare_steps(const engine::StepEvents& a, const engine::StepEvents& b,
                                           const StateBefore& before = {});

/// All differing events, up to `most`, that have a row whose inputs agree, in canonical order.
/// `events`: what compare_steps found.
[[nodiscard]] std::vector<Origin> find_origins(const engine::StepEvents& a,
                                               const engine::StepEvents& b,
                                               std::span<const EventDifference> events,
                                               const StateBefore& before, size_t most);

/// Whether a replay computes all events that were recorded. Errors: kUnsupported, naming the first
/// of another table than ours.
void check_computable(const engine::StepEvents& events, const std::string& where);

/// Whether the record of a difference could be finer: its element is not known, or not whether it
/// begins there.
[[nodiscard]] bool lacks_element(const StepDifference& difference);

}  // namespace rlreplay::replay
