#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/view.h"
#include "src/base/buffer.h"

/// The cosines and sines of rotary embeddings, computed once a model by a fixed binary64 program.
namespace rlreplay {
class ThreadPool;
}

namespace rlreplay::kernels {

/// kHf: the inverse frequency and the angle are rounded to binary32, as in the engines that trained
/// the published checkpoints. kExact: everything in binary64, one rounding at the end.
enum class Rope { kHf, kExact };

/// How frequencies are stretched for long sequences: kLinear divides all of them by `factor`,
/// kLlama3 the low ones alone, with a smooth passage.
/// Source: transformers, modeling_rope_utils.py (_compute_llama3_parameters).
enum class RopeScaling { kNone, kLinear, kLlama3 };

[[nodiscard]] std::string_view to_string(Rope rope);
[[nodiscard]] std::string_view to_string(RopeScaling scaling);

/// What a checkpoint's configuration says. head_size: rotated elements of a head, even.
struct RopeConfig {
  int64_t head_size = 0;
  double theta = 10000;
  Rope rope = Rope::kHf;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;           // linear and llama3
  double low_freq_factor = 1;  // llama3, and below
  double high_freq_factor = 4;
  double original_max_position_embeddings = 8192;
};

/// Inverse frequency of pair i < head_size / 2, in radians a position.
/// Errors: kUnsupported for values that no checkpoint has (odd head size, theta not above 0, ...).
[[nodiscard]] double inverse_frequency(const RopeConfig& config, int64_t i);

/// The cosines and sines of all positions from 0 on. Shapes: cos, sin [positions, head_size / 2].
class RotaryTable {
 public:
  /// Errors: kUnsupported as above, and for more positions than angles can be reduced for.
  RotaryTable(const RopeConfig& config, int64_t positions, ThreadPool& pool);

  Matrix<const float> cos() const { return {cos_.data(), positions_, pairs_}; }
  Matrix<const float> sin() const { return {sin_.data(), positions_, pairs_}; }

 private:
  int64_t positions_;
  int64_t pairs_;
  Buffer<float> cos_;
  Buffer<float> sin_;
};

}  // namespace rlreplay::kernels
