#include "src/replay/rerun/why.h"

#include <algorithm>
#include <cmath>

#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/events/event_rows.h"
#include "src/replay/capture/state_data.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/element_sink.h"
#include "src/replay/rerun/element_target.h"

namespace rlreplay::replay {
namespace {

using engine::Event;
using engine::EventSpec;
using engine::Reach;

std::string reach_text(Reach reach, bool by_token) {
  if (!by_token) return "whole";
  switch (reach) {
    case Reach::kRow:
      return "its row";
    case Reach::kPrefix:
      return "rows of its sample up to it";
    case Reach::kSuffix:
      return "rows of its sample from it on";
    case Reach::kPrevious:
      return "the row before it";
    case Reach::kNext:
      return "the row behind it";
    case Reach::kAll:
      return "all rows";
  }
  return "";
}

/// A leaf's sum by the rules of the contract (docs/numerics.md section 2).
int64_t leaf_sum(const std::vector<TokenPart>& tokens, Role role, int scale) {
  const kernels::TokenRounding rounding{INFINITY, std::ldexp(1.0, scale)};
  const auto f = [](double x) { return static_cast<float>(x); };
  float chain = 0;
  int64_t out = 0;
  for (const TokenPart& t : tokens) {
    const std::vector<double>& x = t.factors;
    if (role == Role::kMatrix) {
      chain = std::fma(f(x[0]), f(x[1]), chain);
    } else {
      const float part = x.size() == 3 ? f(x[0]) * (f(x[1]) * f(x[2])) : f(x[0]);
      out = kernels::add_wrapping(out, rounding.round(part));
    }
  }
  return role == Role::kMatrix ? rounding.round(chain) : out;
}

/// The leaves that contributed to an element, by sample, of the factors that a step has shown.
std::vector<LeafPart> leaf_parts(const ElementTarget& t, const ElementSink& sink, size_t factors,
                                 int scale) {
  std::map<std::pair<uint64_t, int64_t>, LeafPart> leaves;
  for (const auto& [place, first] : sink.kept(0)) {
    const bool embedding = t.parameter->role == Role::kEmbedding;
    const auto row = static_cast<double>(t.element.row);
    if (embedding && sink.kept(1).at(place).front() != row) continue;
    const int64_t leaf = place.second / kernels::kTokenLeaf;
    LeafPart& part = leaves[{place.first, leaf}];
    part.sample = place.first;
    part.leaf = leaf;
    for (size_t head = 0; head < first.size(); ++head) {
      TokenPart token{place.second, {first[head]}, first[head]};
      for (size_t i = 1; !embedding && i < factors; ++i) {
        token.factors.push_back(sink.kept(i).at(place)[head]);
        token.product *= token.factors.back();
      }
      part.tokens.push_back(std::move(token));
    }
  }
  std::vector<LeafPart> out;
  for (auto& [place, part] : leaves) {
    part.sum = leaf_sum(part.tokens, t.parameter->role, scale);
    for (const TokenPart& token : part.tokens) part.products += token.product;
    part.rest = std::ldexp(static_cast<double>(part.sum), -scale) - part.products;
    out.push_back(std::move(part));
  }
  return out;
}

/// The token of an input's row, where a row of the event reads one row alone; else nothing.
std::optional<TokenPlace> input_token(const ElementTarget& t, Reach reach) {
  TokenPlace out = t.token();
  if (reach == Reach::kPrevious) --out.second;
  if (reach == Reach::kNext) ++out.second;
  const bool one = reach == Reach::kRow || reach == Reach::kPrevious || reach == Reach::kNext;
  return one && is_per_token(t.spec->kind) ? std::optional(out) : std::nullopt;
}

/// The numbers of the inputs that stand where the element does, after that of the element itself.
std::vector<WantedNumbers> wanted_numbers(const Event& event, const ElementTarget& t,
                                          std::span<const engine::ResolvedInput> inputs,
                                          const ModelConfig& model) {
  std::vector<WantedNumbers> out;
  const auto own = is_per_token(t.spec->kind) ? std::optional(t.token()) : std::nullopt;
  out.push_back({event, {t.element.column}, own, t.element.row});
  for (const engine::ResolvedInput& input : inputs) {
    WantedNumbers& wanted = out.emplace_back();
    const EventSpec* spec = input.event.tensor.empty() ? nullptr : find_event(input.event);
    if (spec == nullptr || input.before) continue;
    wanted.event = input.event;
    wanted.token = input_token(t, input.reach);
    if (is_parameter(spec->kind)) {
      wanted.columns = {t.element.column};
      wanted.row = t.element.row;
    } else if (!is_per_token(spec->kind)) {
      wanted.columns = {0};
    } else if (wanted.token) {
      const int64_t width = row_width(spec->width, model);
      if (width == 1) wanted.columns = {0};
      if (width == t.columns) wanted.columns = {t.element.column};
    }
  }
  return out;
}

/// The factors of a gradient that is known by tokens, in the order of factor_columns(); otherwise
/// the element and the numbers of its inputs.
std::vector<WantedNumbers> numbers_to_keep(const Event& event, const ElementTarget& t,
                                           std::span<const engine::ResolvedInput> inputs,
                                           const ModelConfig& model) {
  if (!t.is_gradient() || !is_by_token(t, model)) return wanted_numbers(event, t, inputs, model);
  std::vector<WantedNumbers> out;
  for (std::vector<int64_t>& columns : factor_columns(t, model)) {
    out.push_back({inputs[out.size()].event, std::move(columns), std::nullopt, 0});
  }
  return out;
}

/// A weight or moment at the element, as the step found it.
std::optional<double> value_before(const ElementTarget& t, const engine::ResolvedInput& input,
                                   const StateSpans<const float>& state) {
  if (!input.before || t.parameter == nullptr || input.event.tensor != t.parameter->name) {
    return std::nullopt;
  }
  const auto at = static_cast<size_t>(t.of_all());
  if (input.event.op == engine::Op::kWeight) return static_cast<double>(state.weights[at]);
  if (input.event.op == engine::Op::kExpAvg) return static_cast<double>(state.first_moments[at]);
  return static_cast<double>(state.second_moments[at]);
}

/// The inputs by name, with the values that the state before the step gives.
std::vector<ElementInput> named_inputs(const ElementTarget& t,
                                       std::span<const engine::ResolvedInput> inputs,
                                       const StateSpans<const float>& state) {
  std::vector<ElementInput> out;
  for (const engine::ResolvedInput& input : inputs) {
    const EventSpec* spec = input.event.tensor.empty() ? nullptr : find_event(input.event);
    const bool rows = spec != nullptr && !input.before && is_per_token(spec->kind);
    out.push_back(
        {input.before ? digest_name(input.event) + " before the step" : to_string(input.event),
         reach_text(input.reach, rows), value_before(t, input, state)});
  }
  return out;
}

/// What wanted_numbers() asked for, as the step that was taken again has shown it.
void add_values(const ElementSink& sink, ElementOrigin& out) {
  out.value = sink.number(0);
  for (size_t i = 0; i < out.inputs.size(); ++i) {
    if (!out.inputs[i].value) out.inputs[i].value = sink.number(i + 1);
  }
}

std::vector<std::string> factor_names(Role role, size_t factors) {
  if (role == Role::kMatrix) return {"dy", "x"};
  return factors == 3 ? std::vector<std::string>{"dy", "x", "r"} : std::vector<std::string>{"dy"};
}

}  // namespace

ElementQuestion parse_element(std::string_view text) {
  const size_t at = text.rfind(':');
  const auto index =
      at == std::string_view::npos ? std::nullopt : parse_number<int64_t>(text.substr(at + 1));
  if (!index || *index < 0) {
    throw Error(ErrorCode::kUsage,
                "`" + std::string(text) +
                    "` is no EVENT:INDEX: write an event and an index from 0, as "
                    "`3.0/backward/1/down/dx:17`");
  }
  return {engine::parse_step_event(text.substr(0, at)), *index};
}

bool ElementOrigin::adds_up() const {
  int64_t out = 0;
  for (const LeafPart& part : parts) out = kernels::add_wrapping(out, part.sum);
  return sum == out;
}

ElementOrigin find_origin(const RecordedRun& record, const RunOptions& options,
                          const ElementQuestion& question, Trainer& trainer, ThreadPool& pool) {
  const StepId id{question.at.rollout_id, question.at.step_id};
  const auto step = std::ranges::find(record.steps(), id);
  if (step == record.steps().end()) refuse_element(question, "the dump has no step " + id.name());
  check_state(record, id);
  const RecordedRollout rollout = read_recorded_rollout(record, id.rollout);
  const auto recorded = std::ranges::find(rollout.steps, id, &RecordedStep::id);
  const ModelConfig& model = trainer.backend().config();
  const ElementTarget target =
      find_target(question, recorded->samples, model, trainer.backend().parameters());
  const auto inputs = engine::event_inputs(question.at.event, model);
  ElementOrigin out{question, place_text(target), formula_of(target, model), {}, {}, {}, 0, {}, {}};

  // The step again, from the state before it.
  read_state(record, id, trainer.backend());
  out.inputs = named_inputs(target, inputs, trainer.backend().state());
  std::vector<WantedNumbers> wanted = numbers_to_keep(question.at.event, target, inputs, model);
  const size_t factors = wanted.size();
  ElementSink sink(std::move(wanted));
  ReplayPlan plan;
  plan.steps = {step - record.steps().begin(), step - record.steps().begin()};
  plan.each_step = true;
  plan.observer = &sink;
  out.identical = replay_training(record, options, plan, trainer, pool, nullptr,
                                  [&](const ReplayedStep& taken) {
                                    out.events = taken.events;
                                    out.scale = taken.outcome.result.scale;
                                  });
  if (!target.is_gradient()) {
    add_values(sink, out);
    return out;
  }

  // A gradient: its exact sum, and what each leaf, or else each sample, gave to it.
  const auto at = static_cast<size_t>(target.of_all());
  out.sum = trainer.backend().exact_gradients()->sums().data()[at];
  out.value = std::ldexp(static_cast<double>(*out.sum), -out.scale);
  if (is_by_token(target, model)) {
    out.parts = leaf_parts(target, sink, factors, out.scale);
    out.factors = factor_names(target.parameter->role, factors);
    return out;
  }
  for (const auto& [sample, sum] :
       element_by_sample(record, options, id, target.of_all(), trainer, pool)) {
    LeafPart& part = out.parts.emplace_back();
    part.sample = sample;
    part.sum = sum;
  }
  return out;
}

}  // namespace rlreplay::replay
