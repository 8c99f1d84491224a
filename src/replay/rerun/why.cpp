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

namespace rlreplay::replay {
namespace {

using engine::Event;
using engine::EventSpec;
using engine::Kind;
using engine::Reach;

[[noreturn]] void refuse_element(const ElementQuestion& q, const std::string& why) {
  throw Error(ErrorCode::kUsage, to_string(q.at) + ":" + std::to_string(q.index) + ": " + why);
}

/// The element in its tensor, and how wide the tensor is.
struct Target {
  const EventSpec* spec = nullptr;
  const Parameter* parameter = nullptr;
  engine::Element element;
  int64_t columns = 1;

  TokenPlace token() const { return {element.sample, element.row}; }
  int64_t of_all() const {
    return parameter->offset + element.row * parameter->cols + element.column;
  }
};

Target find_target(const ElementQuestion& q, std::span<const Sample> samples,
                   const ModelConfig& model, const ParameterTable& parameters) {
  Target out;
  out.spec = find_event(q.at.event);
  if (out.spec == nullptr || q.at.event.layer >= model.layers) {
    refuse_element(q, "there is no such event");
  }
  if (out.spec->phase == engine::Phase::kRollout) {
    refuse_element(q, "it is of a rollout: the forward of its step has the same numbers");
  }
  int64_t rows = 1;
  engine::RowSet by_token;
  if (is_parameter(out.spec->kind)) {
    const auto p = std::ranges::find(parameters.list, q.at.event.tensor, &Parameter::name);
    if (p == parameters.list.end()) {
      refuse_element(q, "the model has no parameter " + q.at.event.tensor);
    }
    out.parameter = &*p;
    rows = p->rows;
    out.columns = p->cols;
  } else if (is_per_token(out.spec->kind)) {
    by_token = event_rows(*out.spec, engine::sample_shapes(samples));
    rows = row_count(by_token);
    out.columns = row_width(out.spec->width, model);
  }
  if (q.index >= rows * out.columns) {
    refuse_element(q, "the tensor is [" + std::to_string(rows) + ", " +
                          std::to_string(out.columns) + "]: an index into it is 0 to " +
                          std::to_string(rows * out.columns - 1));
  }
  const int64_t row = q.index / out.columns;
  out.element = by_token.empty() ? engine::Element{0, row, 0} : row_at(by_token, row).value();
  out.element.column = q.index % out.columns;
  return out;
}

std::string place_text(const Target& t) {
  const std::string column = "column " + std::to_string(t.element.column);
  if (t.parameter != nullptr) {
    return t.parameter->is_vector() ? "element " + std::to_string(t.element.column)
                                    : "row " + std::to_string(t.element.row) + ", " + column;
  }
  if (!is_per_token(t.spec->kind)) return "one number";
  return "sample " + std::to_string(t.element.sample) + ", token " + std::to_string(t.element.row) +
         (t.columns > 1 ? ", " + column : "");
}

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

/// Whether what a gradient's element adds up is known by tokens: not of logits, which are no event.
bool is_by_token(const Target& t, const ModelConfig& model) {
  return t.parameter->role != Role::kHead && !(t.parameter->role == Role::kEmbedding && model.tied);
}

/// Columns of a gradient's factors that meet in the element.
std::vector<std::vector<int64_t>> factor_columns(const Target& t, const ModelConfig& model) {
  const int64_t row = t.element.row, column = t.element.column;
  switch (t.parameter->role) {
    case Role::kMatrix:
      return {{row}, {column}};
    case Role::kBias:
      return {{column}};
    case Role::kNorm:
      return {{column}, {column}, {0}};
    case Role::kEmbedding:
      return {{column}, {0}};
    case Role::kHeadNorm: {
      std::vector<int64_t> of_heads, heads;
      for (int64_t h = 0; h < t.parameter->heads; ++h) {
        of_heads.push_back(h * model.head_dim + column);
        heads.push_back(h);
      }
      return {of_heads, of_heads, heads};
    }
    case Role::kHead:
      return {};
  }
  return {};
}

const char* formula_of(const Target& t, const ModelConfig& model) {
  if (t.spec->kind != Kind::kParameterSum) return "";
  if (!is_by_token(t, model)) {
    return "a sum over samples, each taken alone: its leaves are products with gradients of "
           "logits, "
           "which are no event";
  }
  switch (t.parameter->role) {
    case Role::kMatrix:
      return "a sum over leaves, each one fma chain of dy x over its tokens, rounded to 2^-S";
    case Role::kBias:
      return "a sum over tokens of dy, each rounded to 2^-S";
    case Role::kEmbedding:
      return "a sum of dx over the tokens with this id, each rounded to 2^-S";
    default:
      return "a sum over tokens, and heads where there are some, of dy (x r), each rounded to 2^-S";
  }
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
std::vector<LeafPart> leaf_parts(const Target& t, const ElementSink& sink, size_t factors,
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

/// Where a row of an input stands that a row of the event reads alone.
std::optional<TokenPlace> input_token(const Target& t, Reach reach) {
  TokenPlace out = t.token();
  if (reach == Reach::kPrevious) --out.second;
  if (reach == Reach::kNext) ++out.second;
  const bool one = reach == Reach::kRow || reach == Reach::kPrevious || reach == Reach::kNext;
  return one && is_per_token(t.spec->kind) ? std::optional(out) : std::nullopt;
}

/// The numbers of the inputs that stand where the element does, after that of the element itself.
std::vector<WantedNumbers> wanted_numbers(const Event& event, const Target& t,
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

/// A weight or moment at the element, as the step found it.
std::optional<double> value_before(const Target& t, const engine::ResolvedInput& input,
                                   const StateSpans<const float>& state) {
  if (t.parameter == nullptr || input.event.tensor != t.parameter->name) return std::nullopt;
  const auto at = static_cast<size_t>(t.of_all());
  if (input.event.op == engine::Op::kWeight) return static_cast<double>(state.weights[at]);
  if (input.event.op == engine::Op::kExpAvg) return static_cast<double>(state.first_moments[at]);
  return static_cast<double>(state.second_moments[at]);
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
  const Target target =
      find_target(question, recorded->samples, model, trainer.backend().parameters());
  const Event& event = question.at.event;
  const auto inputs = engine::event_inputs(event, model);
  const bool gradient = target.spec->kind == Kind::kParameterSum;
  const bool by_token = gradient && is_by_token(target, model);
  std::vector<WantedNumbers> wanted;
  if (by_token) {
    const auto columns = factor_columns(target, model);
    for (size_t i = 0; i < columns.size(); ++i) {
      wanted.push_back({inputs[i].event, columns[i], std::nullopt, 0});
    }
  } else {
    wanted = wanted_numbers(event, target, inputs, model);
  }
  const size_t factors = wanted.size();
  ElementOrigin out{question, place_text(target), formula_of(target, model), {}, {}, {}, 0, {}, {}};
  read_state(record, id, trainer.backend());
  std::vector<std::optional<double>> before;
  for (const auto& input : inputs) {
    const bool known = input.before && target.parameter != nullptr;
    before.push_back(known ? value_before(target, input, trainer.backend().state()) : std::nullopt);
  }
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
  for (size_t i = 0; i < inputs.size(); ++i) {
    const EventSpec* spec = inputs[i].event.tensor.empty() ? nullptr : find_event(inputs[i].event);
    const bool rows = spec != nullptr && !inputs[i].before && is_per_token(spec->kind);
    std::string name = inputs[i].before ? digest_name(inputs[i].event) + " before the step"
                                        : to_string(inputs[i].event);
    std::optional<double> value = before[i];
    if (!gradient && !value) value = sink.number(i + 1);
    out.inputs.push_back({std::move(name), reach_text(inputs[i].reach, rows), value});
  }
  if (!gradient) {
    out.value = sink.number(0);
    return out;
  }
  const auto at = static_cast<size_t>(target.of_all());
  out.sum = trainer.backend().exact_gradients()->sums().data()[at];
  out.value = std::ldexp(static_cast<double>(*out.sum), -out.scale);
  if (by_token) {
    out.parts = leaf_parts(target, sink, factors, out.scale);
    const bool norm = factors == 3;
    out.factors = target.parameter->role == Role::kMatrix ? std::vector<std::string>{"dy", "x"}
                  : norm                                  ? std::vector<std::string>{"dy", "x", "r"}
                                                          : std::vector<std::string>{"dy"};
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
