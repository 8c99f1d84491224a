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
  /// A row of the same from the formulas, in binary64 and in an order of its own; `out` is zero.
  void (*row64)(const Operation& op, int64_t row, std::span<double> out);
};

/// Nothing for what has no reference in binary64.
[[nodiscard]] std::optional<OperationForm> form_of(const engine::Event& event);

/// Shapes: [count, columns], of both.
std::vector<float> compute(const Operation& op, const engine::Runtime& runtime);
std::vector<double> compute_binary64(const Operation& op, ThreadPool& pool);

}  // namespace rlreplay::replay
