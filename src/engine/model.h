#pragma once

#include <cstdint>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/order.h"
#include "src/base/buffer.h"
#include "src/base/parameters.h"
#include "src/engine/runtime.h"
#include "src/engine/shard.h"

namespace rlreplay::engine {

/// Orders of summation of the products of a layer and of the head, fixed by the configuration. A
/// rank's are the subtrees over the segments that it holds, in its own columns.
struct Orders {
  kernels::DotOrder hidden;      // K = C: q, k, v, gate, up, head; dx of o and down
  kernels::DotOrder output;      // K = H D
  kernels::DotOrder down;        // K = F
  kernels::DotOrder qkv_dx;      // K = (H + 2 G) D, fused
  kernels::DotOrder gate_up_dx;  // K = 2 F, fused
  kernels::DotOrder head_dx;     // K = V
  std::vector<kernels::Range> vocab_segments;

  Orders(const ModelConfig& config, const Shard& shard);
};

/// The products of a layer, packed for forward and backward.
struct PackedLayer {
  kernels::PackedWeight qkv, qkv_dx, o, o_dx, gate_up, gate_up_dx, down, down_dx;
};

/// Which passes a model is packed for: a training step also goes backward.
enum class PackedFor { kForward, kTraining };

/// A model's weights, or a rank's part of them, with all that is derived from them. Layers are
/// counted from the first that it holds.
class Model {
 public:
  explicit Model(const ModelConfig& config);
  Model(const ModelConfig& config, const Shard& shard, const RankPlace& place);

  const ModelConfig& config() const { return config_; }  // of the whole model
  const Shard& shard() const { return shard_; }
  const ParameterTable& parameters() const { return parameters_.table; }
  const std::vector<Slice>& slices() const { return parameters_.slices; }
  const ShardTable& shard_table() const { return parameters_; }  // for tests and bench
  const Orders& orders() const { return orders_; }
  const PackedLayer& packed(int64_t layer) const { return packed_[static_cast<size_t>(layer)]; }
  const kernels::PackedWeight& packed_head() const { return head_; }
  const kernels::PackedWeight& packed_head_dx() const { return head_dx_; }

  /// The flat storage; after it changed, `pack` must run before the next product.
  Buffer<float>& weights() { return weights_; }
  const Buffer<float>& weights() const { return weights_; }
  const float* weight(int parameter) const {
    return weights_.data() + parameters()[parameter].offset;
  }
  /// The parameter's weights; null where the architecture has no such parameter.
  const float* weight_or_null(int parameter) const {
    return parameter < 0 ? nullptr : weight(parameter);
  }
  kernels::Matrix<const float> matrix(int parameter) const {
    const Parameter& p = parameters()[parameter];
    return {weight(parameter), p.rows, p.cols};
  }

  /// Packs every product anew, for the passes that need it.
  void pack(const Runtime& runtime, PackedFor passes);

 private:
  ModelConfig config_;
  Shard shard_;
  ShardTable parameters_;
  Orders orders_;
  Buffer<float> weights_;
  std::vector<PackedLayer> packed_;
  kernels::PackedWeight head_, head_dx_;
};

}  // namespace rlreplay::engine
