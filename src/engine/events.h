#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/view.h"

/// The closed table of what a step lets others see (phases and operations in canonical order).
namespace rlreplay::engine {

enum class Phase : uint8_t {
  kRollout,
  kForward,
  kObjective,
  kBackward,
  kReduce,
  kClip,
  kOptimizer
};

enum class Op : uint8_t {
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
  kLogits,
  kLogProb,
  kLoss,
  kGradient,
  kNorm,
  kAdamW,
};

std::string_view name(Phase phase);
std::string_view name(Op op);

/// The coordinates of the rows of a per-token tensor: sample id and position of each.
struct RowCoordinates {
  const uint64_t* sample = nullptr;
  const int32_t* position = nullptr;
};

/// One output of one operation.
struct Event {
  Phase phase = Phase::kForward;
  int layer = -1;  // -1 where there is none
  Op op = Op::kEmbedding;
  std::string_view tensor;
};

/// Receives events while a step runs. The engine knows no files: a sink stores what it wants.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// A tensor with a row per token. Rows of one event may come in several calls, a sample's rows
  /// in ascending position; coordinates tell which.
  virtual void rows(const Event& event, kernels::Matrix<const float> values,
                    const RowCoordinates& coordinates) = 0;
  /// A parameter's tensor, whole.
  virtual void parameter(const Event& event, std::string_view parameter,
                         kernels::Matrix<const int64_t> values) = 0;
  virtual void parameter(const Event& event, std::string_view parameter,
                         kernels::Matrix<const float> values) = 0;
  virtual void scalar(const Event& event, double value) = 0;
};

}  // namespace rlreplay::engine
