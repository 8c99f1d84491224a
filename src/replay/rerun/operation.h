#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/order.h"
#include "kernels/view.h"

/// One operation apart from its step: by a kernel set, and in binary64.
namespace rlreplay::replay {

enum class Form : uint8_t {
  kLinear,          // x w^T (+ bias) (+ residual)
  kLinearBackward,  // dy w
  kNorm,            // (x r) w
  kNormScale,       // r of each head
  kSwiGlu,          // silu(gate) up
  kSwiGluGate,      // its dgate, from dout, gate, up
  kSwiGluUp         // its dup
};

struct Operation {
  Form form = Form::kLinear;
  std::vector<kernels::Matrix<const float>> rows;     // inputs by token, as docs/events.md has them
  std::vector<kernels::Matrix<const float>> weights;  // likewise
  kernels::DotOrder order;                            // of a product
  int64_t heads = 1;                                  // of a norm: vectors a row
  float eps = 0;
  int64_t columns = 0;  // of the output
};

/// Shapes: [tokens, columns]. Order: the contract's (docs/numerics.md).
std::vector<float> compute(const Operation& op, const kernels::KernelSet& kernels,
                           ThreadPool& pool);

/// The same from the formulas, in binary64 and in an order of its own.
std::vector<double> compute_binary64(const Operation& op, ThreadPool& pool);

}  // namespace rlreplay::replay
