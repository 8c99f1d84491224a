#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "src/base/model_config.h"
#include "src/base/parameters.h"
#include "src/base/sample.h"
#include "src/engine/torch/run_model.h"

/// For the files of this folder alone.
namespace rlreplay::aten {

/// How the tokens of a batch see each other: given rotated q [T, H, D] and k, v [T, G, D] of a
/// layer, the mixed values [T, H D].
using Attend = std::function<at::Tensor(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v)>;

/// The decoder's layers as functions of rows, on weights that somebody else owns.
class Network {
 public:
  /// `weights`: one tensor a parameter, in the table's order. All outlive the network. `parts`: the
  /// products of attention's output and of the MLP's are made of so many, their inner axis cut as
  /// ranks of tensor parallelism cut it, and added from left to right.
  Network(const ModelConfig& config, const ParameterTable& parameters,
          const std::vector<at::Tensor>& weights, kernels::Rope rope, int parts = 1);

  /// [T, C] after the final norm.
  at::Tensor hidden(std::span<const int64_t> ids, std::span<const int64_t> positions,
                    const Attend& attend);

  /// [T, V] over the temperature. 0 counts as 1.
  at::Tensor logits(const at::Tensor& hidden, double temperature) const;

 private:
  const at::Tensor& weight(int i) const { return weights_[static_cast<size_t>(i)]; }
  void need_angles(int64_t positions);
  at::Tensor rotate(const at::Tensor& x) const;
  at::Tensor norm(const at::Tensor& x, int w) const;
  at::Tensor project(const at::Tensor& x, int w, int bias) const;
  at::Tensor row_parallel(const at::Tensor& x, int w) const;
  at::Tensor layer(const at::Tensor& x, int64_t index, const Attend& attend) const;

  const ModelConfig& config_;
  const ParameterTable& parameters_;
  const std::vector<at::Tensor>& weights_;
  kernels::Rope rope_;
  const int parts_;
  at::Tensor all_cos_, all_sin_;  // [positions, D]
  at::Tensor cos_, sin_;          // [T, 1, D], of the present rows
};

/// Tokens of whole samples, one after the other, and how they attend: each to its own sample.
struct Packed {
  std::vector<int64_t> ids;
  std::vector<int64_t> positions;
  std::vector<int64_t> lengths;

  void add(std::span<const int32_t> tokens);
};

/// q [T, H, D], k, v [T, G, D] of packed samples, causally: [T, H D].
[[nodiscard]] at::Tensor attend_packed(const std::vector<int64_t>& lengths, const at::Tensor& q,
                                       const at::Tensor& k, const at::Tensor& v);

}  // namespace rlreplay::aten
