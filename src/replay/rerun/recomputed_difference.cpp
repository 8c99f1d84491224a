#include "src/replay/rerun/recomputed_difference.h"

#include <algorithm>

#include "src/base/allocation.h"
#include "src/base/error.h"
#include "src/events/event_rows.h"
#include "src/replay/compare/causes.h"
#include "src/replay/compare/run_difference.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/run/machine.h"
#include "src/replay/run/trainer.h"

namespace rlreplay::replay {
namespace {

constexpr const char* kWithValues = "ops+values";
constexpr const char* kUnknown = "the element is not known: ";

/// Bytes that all values of a step take.
int64_t value_bytes(const RecordedRun& record, const StepId& step) {
  const ModelConfig model = record.config().model;
  int64_t tokens = 0;
  for (const RecordedStep& s : read_recorded_rollout(record, step.rollout).steps) {
    if (s.id != step) continue;
    for (const Sample& sample : s.samples) {
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
  return out + make_parameters(model).elements * 32;
}

std::string text_of(const Error& error) {
  return (error.where().empty() ? "" : error.where() + ": ") + error.what();
}

std::string no_weights(const RecordedRun& run) {
  return run.path() + " was imported and holds no weights";
}

std::string unfit(const DifferenceSide& side, const StepId& step) {
  if (side.options.kernels != "portable") {
    return "kernels of another set show too few of the values between";
  }
  if (side.record.is_imported()) return no_weights(side.record);
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

/// How the program that recorded differs from this one, after ": ": in its contract, else its
/// commit; empty where the record does not say.
std::string other_program(const DifferenceSide& side) {
  const std::vector<Cause> causes =
      replay_causes(side.record, side.options, computing(side.options));
  const auto named = [&](std::string_view kind, std::string_view begin) -> std::string {
    for (const Cause& cause : causes) {
      if (cause.kind == kind && cause.text.starts_with(begin)) return ": " + cause.text;
    }
    return {};
  };
  const std::string contract = named("contract", "");
  return contract.empty() ? named("program", "program.revision") : contract;
}

}  // namespace

RecomputedDifference recompute_difference(const DifferenceSide& a, const DifferenceSide& b,
                                          const StepId& step) {
  RecomputedDifference out;
  for (const DifferenceSide* side : {&a, &b}) {
    const std::string why = unfit(*side, step);
    if (why.empty()) continue;
    out.note = kUnknown + why;
    return out;
  }
  try {
    const RecomputedStep in_a = recompute(a, step);
    const RecomputedStep in_b = recompute(b, step);
    for (const auto& [side, computed] : {std::pair(&a, &in_a), std::pair(&b, &in_b)}) {
      if (!side->as_recorded || is_as_recorded(*side, step, *computed)) continue;
      out.note = std::string(kUnknown) + "this program computes step " + step.name() +
                 " otherwise than " + side->record.path() + " recorded it" + other_program(*side);
      return out;
    }
    StateBefore before;
    if (in_a.before && in_b.before) before = {&*in_a.before, &*in_b.before, {}};
    if (&a.record != &b.record) before.differing = differing_state(a.record, b.record, step);
    out.step = compare_steps(in_a.events, in_b.events, before);
    out.note = "step " + step.name() + " was computed again with values on both sides";
    if (out.step->identical()) {
      out.step.reset();
      out.note = std::string(kUnknown) + "computed again, both sides agree";
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    out.note = kUnknown + text_of(error);
  }
  return out;
}

std::string find_element(const RecordedRun& a, const RecordedRun& b, StepDifference& difference) {
  if (!lacks_element(difference)) return {};
  const StepId step{difference.origin->rollout_id, difference.origin->step_id};
  const auto side_of = [&](const RecordedRun& run) {
    DifferenceSide side{run, run.config().options};
    side.plan.steps.first = std::ranges::find(run.steps(), step) - run.steps().begin();
    return side;
  };
  try {
    for (const RecordedRun* run : {&a, &b}) {
      if (run->is_imported()) return kUnknown + no_weights(*run);
    }
    RecomputedDifference finer = recompute_difference(side_of(a), side_of(b), step);
    if (finer.step) difference = std::move(*finer.step);
    return finer.note;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return kUnknown + text_of(error);
  }
}

}  // namespace rlreplay::replay
