#include "src/replay/recomputed_difference.h"

#include <algorithm>

#include "src/base/available_memory.h"
#include "src/base/error.h"
#include "src/engine/event_rows.h"
#include "src/replay/machine.h"
#include "src/replay/recorded_step.h"
#include "src/replay/run_difference.h"
#include "src/replay/trainer.h"

namespace rlreplay::replay {
namespace {

constexpr const char* kWithValues = "ops+values";

/// Bytes that all values of a step take.
int64_t value_bytes(const RecordedRun& record, const StepId& step) {
  const ModelConfig model = record.config().model;
  int64_t tokens = 0;
  for (const RecordedStep& s : read_recorded_rollout(record, step.rollout).steps) {
    if (s.id != step) continue;
    for (const engine::Sample& sample : s.samples) {
      tokens += static_cast<int64_t>(sample.tokens.size());
    }
  }
  int64_t out = 0;
  for (const engine::EventSpec& spec : engine::event_table()) {
    if (!is_per_token(spec.kind)) continue;
    const int64_t layers = spec.layered ? model.layers : 1;
    out += tokens * layers * row_width(spec.width, model) *
           static_cast<int64_t>(size_of(dtype_of(spec.kind)));
  }
  // Weights and moments, and gradients as integers before and after the clip.
  return out + engine::make_parameters(model).elements * 32;
}

std::string unfit(const DifferenceSide& side, const StepId& step) {
  if (side.options.kernels != "portable") {
    return "kernels of another set show too few of the values between";
  }
  if (imported_from(side.record.dump().meta(), side.record.path())) {
    return side.record.path() + " was imported and holds no weights";
  }
  if (side.record.dump().find("train", step.group()).size() != 1) {
    return side.record.path() + " does not hold the step of one rank";
  }
  if (side.record.states().empty() || side.record.states().front() > step) {
    return side.record.path() + " holds no weights from which the step can be reached";
  }
  const int64_t available = static_cast<int64_t>(available_memory());
  if (3 * value_bytes(side.record, step) > available) {
    return "all values of the step would not fit into memory";
  }
  return {};
}

RecomputedStep recompute(const DifferenceSide& side, const StepId& step) {
  RunOptions options = side.options;
  options.record = kWithValues;
  Machine machine(options);
  const auto model = recorded_model(side.record);
  Trainer trainer(machine.runtime(), options, *model, {false, true, longest_prompt(side.record)});
  return recompute_step(side.record, options, side.plan, step, trainer, machine.pool());
}

/// What a dump holds of a step, without the rollout's.
bool is_as_recorded(const DifferenceSide& side, const StepId& step,
                    const RecomputedStep& computed) {
  return compare_steps(side.record.step_events(step), computed.events).identical();
}

}  // namespace

bool lacks_element(const StepDifference& difference) {
  if (!difference.origin || difference.origin->event.phase == engine::Phase::kRollout) return false;
  return !difference.origin->value || difference.origin->kind == OriginClass::kInterval;
}

RecomputedDifference recompute_difference(const DifferenceSide& a, const DifferenceSide& b,
                                          const StepId& step) {
  RecomputedDifference out;
  for (const DifferenceSide* side : {&a, &b}) {
    const std::string why = unfit(*side, step);
    if (why.empty()) continue;
    out.note = "the element is not known: " + why;
    return out;
  }
  try {
    const RecomputedStep in_a = recompute(a, step);
    const RecomputedStep in_b = recompute(b, step);
    for (const auto& [side, computed] : {std::pair(&a, &in_a), std::pair(&b, &in_b)}) {
      if (!side->as_recorded || is_as_recorded(*side, step, *computed)) continue;
      out.note = "the element is not known: this program computes step " + step.name() +
                 " otherwise than " + side->record.path() + " recorded it";
      return out;
    }
    StateBefore before;
    if (in_a.before && in_b.before) before = {&*in_a.before, &*in_b.before, {}};
    if (&a.record != &b.record) before.differing = differing_state(a.record, b.record, step);
    out.step = compare_steps(in_a.events, in_b.events, before);
    out.note = "step " + step.name() + " was computed again with values on both sides";
    if (out.step->identical()) {
      out.step.reset();
      out.note = "the element is not known: computed again, both sides agree";
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    out.note = std::string("the element is not known: ") + error.what();
  }
  return out;
}

}  // namespace rlreplay::replay
