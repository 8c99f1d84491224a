#pragma once

#include <cstdint>

#include "src/engine/torch/array.h"

namespace rlreplay::aten {

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
AttentionResult attention(const Array& q, const Array& k, const Array& v, const Array& dout,
                          int64_t position, Precision precision);

}  // namespace rlreplay::aten
