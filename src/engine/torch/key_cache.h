#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "src/base/model_config.h"

/// For the files of this folder alone.
namespace rlreplay::aten {

/// One new token each of the first samples of a cache.
struct DecodeRows {
  at::Tensor slots, positions;  // [B]
  at::Tensor mask;              // [B, 1, 1, keys]: 0, or minus infinity beyond the position
};

/// Keys and values of several samples, each padded to the same capacity, so that one call attends
/// to all of them.
class KeyCache {
 public:
  KeyCache(const ModelConfig& config, at::ScalarType type, int64_t samples, int64_t capacity);

  /// Whole prompts: k, v [T, G, D] of packed samples of these lengths go to the rows from `first`.
  void fill(int64_t layer, int64_t first, const std::vector<int64_t>& lengths, const at::Tensor& k,
            const at::Tensor& v);

  /// Sample i gets a token at positions[i].
  DecodeRows rows(std::span<const int64_t> positions) const;

  /// Adds k, v [B, G, D]; q [B, H, D] sees all keys of its sample: [B, H D].
  at::Tensor attend(int64_t layer, const DecodeRows& rows, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v);

  void move(int64_t from, int64_t to);

 private:
  at::ScalarType type_;
  std::vector<at::Tensor> keys_, values_;  // a layer: [samples, capacity, G, D]
};

}  // namespace rlreplay::aten
