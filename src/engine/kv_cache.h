#pragma once

#include <cstdint>
#include <vector>

#include "kernels/view.h"
#include "src/base/buffer.h"
#include "src/engine/model.h"

namespace rlreplay::engine {

/// Keys and values of one sample, by position: of the layers and kv heads that the model has here.
class KvCache {
 public:
  KvCache(const Model& model, int64_t capacity)
      : capacity_(capacity),
        heads_(model.shard().kv_heads.size()),
        dim_(model.config().head_dim),
        data_(static_cast<size_t>(model.shard().layer_count() * 2 * capacity * heads_ * dim_)) {}

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
