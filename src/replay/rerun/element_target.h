#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/parameters.h"
#include "src/events/event_rows.h"
#include "src/replay/rerun/element_sink.h"
#include "src/replay/rerun/why.h"

/// The element that a question is about: its event, its place, and what meets in it.
namespace rlreplay::replay {

/// The element in its tensor, and how wide the tensor is.
struct ElementTarget {
  const engine::EventSpec* spec = nullptr;
  const Parameter* parameter = nullptr;  // of gradients, weights and moments
  engine::Element element;
  int64_t columns = 1;

  [[nodiscard]] TokenPlace token() const { return {element.sample, element.row}; }
  /// Where the element stands among all parameters.
  [[nodiscard]] int64_t of_all() const {
    return parameter->offset + element.row * parameter->cols + element.column;
  }
  [[nodiscard]] bool is_gradient() const { return spec->kind == engine::Kind::kParameterSum; }
};

/// Throws kUsage, naming the question and saying what is wrong with it.
[[noreturn]] void refuse_element(const ElementQuestion& q, const std::string& why);

/// The element that a question names in a step of these samples.
/// Errors: kUsage for an element that the step has not.
[[nodiscard]] ElementTarget find_target(const ElementQuestion& q, std::span<const Sample> samples,
                                        const ModelConfig& model, const ParameterTable& parameters);

/// `sample 3, token 5, column 2`, `row 1, column 7`, ...
[[nodiscard]] std::string place_text(const ElementTarget& t);

/// Whether what a gradient's element adds up is known by tokens: not of logits, which are no event.
[[nodiscard]] bool is_by_token(const ElementTarget& t, const ModelConfig& model);

/// Columns of a gradient's factors that meet in the element; none where is_by_token() is not.
[[nodiscard]] std::vector<std::vector<int64_t>> factor_columns(const ElementTarget& t,
                                                               const ModelConfig& model);

/// How a gradient's element is added up; empty of other elements.
[[nodiscard]] const char* formula_of(const ElementTarget& t, const ModelConfig& model);

}  // namespace rlreplay::replay
