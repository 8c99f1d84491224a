#pragma once

#include <cstdint>
#include <vector>

/// Stock ATen operators, for comparison: oracles in float32 or float64 for the tests, baselines
/// for the benchmarks. Nothing here keeps the numeric contract.
namespace rlreplay::aten {

/// A tensor on its way in or out of libtorch, row-major; float32 and int64 values below 2^53 are
/// exact in it. No shape and no values: a tensor that is not given.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

/// The type in which an operator computes, and to which what it is given is rounded.
enum class Precision { kFloat32, kFloat64 };

/// Gradients are those for `dy`; `dbias` is empty without a bias.
struct LinearResult {
  Array y;
  Array dx;
  Array dw;
  Array dbias;
};

/// y = x w^T (+ bias) and, for the gradient `dy` of y, those of x, w and bias.
/// Shapes: x [M, K], w [N, K], bias [N] or not given, dy [M, N].
[[nodiscard]] LinearResult linear(const Array& x, const Array& w, const Array& bias,
                                  const Array& dy, Precision precision);

/// `lse` is the log of the sum of exponentials of a query's scores; gradients are those for `dout`.
struct AttentionResult {
  Array out;
  Array lse;
  Array dq;
  Array dk;
  Array dv;
};

/// Causal attention of one sample and its gradients, by the flash kernel that
/// `scaled_dot_product_attention` runs on CPUs; lse by separate operators.
/// Shapes: q, dout, out, dq [T, H, D]; k, v, dk, dv [position + T, G, D]; lse [T, H]. Query t sees
/// the keys 0 .. position + t; query head h uses kv head h / (H / G).
[[nodiscard]] AttentionResult attention(const Array& q, const Array& k, const Array& v,
                                        const Array& dout, int64_t position, Precision precision);

/// Gradients are those for `dy`.
struct RmsNormResult {
  Array y;
  Array dx;
  Array dw;
};

/// `at::rms_norm` over the last axis. Shapes: x, dy [rows, n]; w [n].
[[nodiscard]] RmsNormResult rms_norm(const Array& x, const Array& w, double eps, const Array& dy,
                                     Precision precision);

/// `dx` is the gradient for `dy`.
struct RotaryResult {
  Array y;
  Array dx;
};

/// x cos + rotate_half(x) sin, as model code in Python has it.
/// Shapes: x, dy [T, H, D]; cos, sin [T, D/2].
[[nodiscard]] RotaryResult rotary(const Array& x, const Array& cos, const Array& sin,
                                  const Array& dy, Precision precision);

/// Gradients are those for `dout`.
struct SwigluResult {
  Array out;
  Array dgate;
  Array dup;
};

/// silu(gate) up. Shapes: all [T, F].
[[nodiscard]] SwigluResult swiglu(const Array& gate, const Array& up, const Array& dout,
                                  Precision precision);

/// `dlogits` is the gradient of the sum that log_prob names.
struct LogProbResult {
  Array log_prob;
  Array entropy;
  Array dlogits;
};

/// Log-probability of each row's label and entropy under log_softmax(logits / temperature), and the
/// gradient of the sum over rows of -c log_prob - ce entropy.
/// Shapes: logits [T, V]; labels, c, ce [T].
[[nodiscard]] LogProbResult log_prob(const Array& logits, const Array& labels, const Array& c,
                                     const Array& ce, double temperature, Precision precision);

/// Moments and weights after the update.
struct AdamWResult {
  Array m;
  Array v;
  Array w;
};

/// One update by `at::_fused_adamw_`, torch.optim.AdamW's fused form. Shapes: all equal.
[[nodiscard]] AdamWResult adamw(const Array& grad, const Array& m, const Array& v, const Array& w,
                                double rate, double beta1, double beta2, double eps,
                                double weight_decay, int64_t step, Precision precision);

/// The number of threads that ATen's operators use from now on, in the whole process.
void set_threads(int threads);

}  // namespace rlreplay::aten
