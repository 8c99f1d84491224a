#pragma once

#include "src/engine/torch/array.h"

/// Oracles of row operations: forward, and the gradients by autograd.
namespace rlreplay::aten {

struct RmsNormResult {
  Array y;
  Array dx;
  Array dw;
};

/// `at::rms_norm` over the last axis. Shapes: x, dy [rows, n]; w [n].
RmsNormResult rms_norm(const Array& x, const Array& w, double eps, const Array& dy,
                       Precision precision);

struct RotaryResult {
  Array y;
  Array dx;
};

/// x cos + rotate_half(x) sin, as model code in Python has it.
/// Shapes: x, dy [T, H, D]; cos, sin [T, D/2].
RotaryResult rotary(const Array& x, const Array& cos, const Array& sin, const Array& dy,
                    Precision precision);

struct SwigluResult {
  Array out;
  Array dgate;
  Array dup;
};

/// silu(gate) up. Shapes: all [T, F].
SwigluResult swiglu(const Array& gate, const Array& up, const Array& dout, Precision precision);

}  // namespace rlreplay::aten
