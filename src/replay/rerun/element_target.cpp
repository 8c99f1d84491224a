#include "src/replay/rerun/element_target.h"

#include <algorithm>

#include "src/base/error.h"

namespace rlreplay::replay {

using engine::Kind;

void refuse_element(const ElementQuestion& q, const std::string& why) {
  throw Error(ErrorCode::kUsage, to_string(q.at) + ":" + std::to_string(q.index) + ": " + why);
}

ElementTarget find_target(const ElementQuestion& q, std::span<const Sample> samples,
                          const ModelConfig& model, const ParameterTable& parameters) {
  ElementTarget out;
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

std::string place_text(const ElementTarget& t) {
  const std::string column = "column " + std::to_string(t.element.column);
  if (t.parameter != nullptr) {
    return t.parameter->is_vector() ? "element " + std::to_string(t.element.column)
                                    : "row " + std::to_string(t.element.row) + ", " + column;
  }
  if (!is_per_token(t.spec->kind)) return "one number";
  return "sample " + std::to_string(t.element.sample) + ", token " + std::to_string(t.element.row) +
         (t.columns > 1 ? ", " + column : "");
}

bool is_by_token(const ElementTarget& t, const ModelConfig& model) {
  return t.parameter->role != Role::kHead && !(t.parameter->role == Role::kEmbedding && model.tied);
}

std::vector<std::vector<int64_t>> factor_columns(const ElementTarget& t, const ModelConfig& model) {
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

const char* formula_of(const ElementTarget& t, const ModelConfig& model) {
  if (t.spec->kind != Kind::kParameterSum) return "";
  if (!is_by_token(t, model)) {
    return "a sum over samples, each taken alone: its leaves are products with gradients of "
           "logits, which are no event";
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

}  // namespace rlreplay::replay
