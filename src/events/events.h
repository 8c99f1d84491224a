#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/view.h"
#include "src/base/rows_view.h"

/// What a step lets others see. Which events there are is said by src/events/table.h.
namespace rlreplay::engine {

/// The phases of a step, in order.
enum class Phase : uint8_t {
  kRollout,
  kForward,
  kObjective,
  kBackward,
  kReduce,
  kClip,
  kOptimizer
};

/// What computes: an operation, or a few that run as one.
enum class Op : uint8_t {
  kBatch,
  kEmbedding,
  kInputNorm,
  kQkv,
  kQkNorm,
  kRotary,
  kAttention,
  kOutput,
  kPostNorm,
  kGateUp,
  kSwiGlu,
  kDown,
  kFinalNorm,
  kLogProb,
  kSample,
  kTargets,
  kScale,
  kTerms,
  kLoss,
  kGradient,
  kClip,
  kExpAvg,
  kExpAvgSq,
  kWeight,
};

/// The names in `3.0/backward/1/down/dx`.
[[nodiscard]] std::string_view name(Phase phase);
[[nodiscard]] std::string_view name(Op op);

/// One output of one operation of a step.
struct Event {
  Phase phase = Phase::kForward;
  int layer = -1;  // -1 where there is none
  Op op = Op::kEmbedding;
  std::string tensor;  // of a parameter: its name on disk

  friend auto operator<=>(const Event&, const Event&) = default;
};

/// The coordinates of the rows of a per-token tensor: sample id and position of each. What is told
/// of a token of the response (a log-probability, an advantage) stands at that token's own place.
struct RowCoordinates {
  const uint64_t* sample = nullptr;
  const int32_t* position = nullptr;
};

/// Row-major elements that a sink may look at and change before anything reads them.
struct EventView {
  DType dtype = DType::kF32;
  std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  template <class T>
  static EventView of(kernels::Matrix<T> m) {
    return {dtype_of<T>(), reinterpret_cast<std::byte*>(m.data), m.rows, m.cols, m.stride};
  }
  template <class T>
  static EventView of(T& scalar) {
    return of(kernels::Matrix<T>(&scalar, 1, 1));
  }
  std::byte* at(int64_t row, int64_t col) const {
    return data + static_cast<size_t>(row * stride + col) * size_of(dtype);
  }
  RowsView view() const { return {dtype, data, rows, cols, stride}; }
};

/// Receives events while a rollout or a step runs, each before its value is read by what follows:
/// a change made here is a change of the computation. The engine knows no files: a sink stores what
/// it wants.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// Whether `rows` or `whole` shall be called for this event.
  [[nodiscard]] virtual bool wants(const Event& event) const = 0;
  /// A tensor with a row per token. Rows of one event come in several calls, in any order of
  /// samples, a sample's in ascending position, each row once.
  virtual void rows(const Event& event, const EventView& values,
                    const RowCoordinates& coordinates) = 0;
  /// A parameter's tensor or a scalar, whole.
  virtual void whole(const Event& event, const EventView& values) = 0;
  /// Whether `part` shall be called for what a rank holds of a parameter's tensor. The whole tensor
  /// is shown besides, once ranks have put it together.
  [[nodiscard]] virtual bool wants_part(const Event& /*event*/, int /*rank*/) const {
    return false;
  }
  /// `values` begin at `row` and `column` of the whole; other ranks may hold the same elements.
  virtual void part(const Event& /*event*/, int /*rank*/, const EventView& /*values*/,
                    int64_t /*row*/, int64_t /*column*/) {}
  /// The phases forward, objective and backward begin anew: what they emitted did not happen.
  virtual void restart() = 0;
};

}  // namespace rlreplay::engine
