#pragma once

#include <cstdint>
#include <vector>

#include "kernels/view.h"
#include "src/base/buffer.h"
#include "src/base/model_config.h"

namespace rlreplay::engine {

/// Keys and values of one sample, all layers, by position.
class KvCache {
 public:
  KvCache(const ModelConfig& config, int64_t capacity)
      : capacity_(capacity),
        heads_(config.kv_heads),
        dim_(config.head_dim),
        data_(static_cast<size_t>(config.layers * 2 * capacity * heads_ * dim_)) {}

  int64_t capacity() const { return capacity_; }
  kernels::Heads<float> keys(int64_t layer) { return view(2 * layer); }
  kernels::Heads<float> values(int64_t layer) { return view(2 * layer + 1); }

 private:
  kernels::Heads<float> view(int64_t index) {
    return {data_.data() + index * capacity_ * heads_ * dim_, capacity_, heads_, dim_};
  }
  int64_t capacity_, heads_, dim_;
  Buffer<float> data_;
};

}  // namespace rlreplay::engine
