#pragma once

#include <cstdint>
#include <functional>
#include <vector>

/// Closures that run stock float32 `scaled_dot_product_attention` on tensors that they own. Grouped
/// heads are given by `enable_gqa` or by repeated keys and values, whichever was faster in a trial.
namespace rlreplay::aten {

struct AttentionBench {
  std::vector<int64_t> lengths;  // samples, one call each
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t size = 64;
};

/// Causal attention of whole samples; q, k, v [1, heads, T, D] are views of [T, heads, D].
std::function<void()> attention_forward_bench(const AttentionBench& shape);

/// The same and its gradients for q, k and v.
std::function<void()> attention_training_bench(const AttentionBench& shape);

/// One query each of `batch` samples that have `keys` keys, in one call.
std::function<void()> attention_decode_bench(int64_t batch, int64_t keys, int64_t heads,
                                             int64_t kv_heads, int64_t size);

}  // namespace rlreplay::aten
