#pragma once

#include <span>

#include <ATen/ATen.h>

#include "src/base/sample.h"
#include "src/engine/torch/network.h"

/// For the files of this folder alone.
namespace rlreplay::aten {

/// The scores of response tokens of packed samples, one after the other: [N].
struct RowScores {
  at::Tensor log_prob, entropy;
};

/// `hidden`: [T, C] of the whole samples. Without `entropy_gradient` the entropy is a constant, and
/// nothing is kept for its backward.
[[nodiscard]] RowScores score_rows(const Network& network, const at::Tensor& hidden,
                                   std::span<const Sample> samples, double temperature,
                                   bool entropy_gradient);

/// The network's [T, C] of whole samples.
[[nodiscard]] at::Tensor hidden_of(Network& network, std::span<const Sample> samples);

}  // namespace rlreplay::aten
