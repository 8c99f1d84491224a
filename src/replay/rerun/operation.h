#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/rotary_table.h"
#include "kernels/view.h"
#include "src/base/model_config.h"
#include "src/engine/head.h"
#include "src/engine/row_batch.h"
#include "src/engine/runtime.h"

/// One operation apart from its step: by a kernel set, and in binary64.
namespace rlreplay::replay {

/// An operation with its inputs: views of memory that others own.
struct Operation {
  engine::Event event;
  ModelConfig model;
  float temperature = 1;
  engine::RowBatch batch;                             // all tokens of the step
  engine::ScoredRows scored;                          // those before a token of a response
  std::optional<kernels::RotaryTable> rotary;         // of a rotation
  std::vector<kernels::Matrix<const float>> rows;     // inputs by token, as docs/events.md has them
  std::vector<kernels::Matrix<const float>> weights;  // whole, as docs/events.md has them
  int64_t count = 0, columns = 0;                     // of the output
};

/// How an operation is computed.
struct OperationForm {
  /// Order: the contract's (docs/numerics.md).
  void (*compute)(const Operation& op, const engine::Runtime& runtime, kernels::Matrix<float> out);
  /// A row of what `compute` gives, by the formulas in binary64 and in an order of its own; `out`
  /// is zero before.
  void (*row64)(const Operation& op, int64_t row, std::span<double> out);
};

/// How the operation of an event is computed; nothing for what has no reference in binary64.
[[nodiscard]] std::optional<OperationForm> form_of(const engine::Event& event);

/// All rows of an operation that has a form, by kernels and in binary64. Shapes: [count, columns].
[[nodiscard]] std::vector<float> compute(const Operation& op, const engine::Runtime& runtime);
[[nodiscard]] std::vector<double> compute_binary64(const Operation& op, ThreadPool& pool);

}  // namespace rlreplay::replay
