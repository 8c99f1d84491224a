#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/model_config.h"

namespace rlreplay {

/// What a parameter is, which decides how its gradient is summed and whether it decays.
enum class Role { kEmbedding, kHead, kMatrix, kBias, kNorm, kHeadNorm };

/// One named tensor of the model and its place in the flat storage that weights, gradients and
/// moments share.
struct Parameter {
  std::string name;  // as on disk
  int layer = -1;    // -1 for the embedding, the final norm and the head
  Role role = Role::kMatrix;
  int64_t rows = 1;  // 1 for a vector
  int64_t cols = 0;
  int64_t offset = 0;  // elements before it in the flat storage
  int64_t heads = 1;   // contributions a token: heads of a query or key norm, else 1

  int64_t size() const { return rows * cols; }
  [[nodiscard]] bool is_vector() const {
    return role == Role::kBias || role == Role::kNorm || role == Role::kHeadNorm;
  }
};

/// Indices into ParameterTable::list; -1 where the architecture has none.
struct LayerParameters {
  int input_norm = -1;
  int q = -1, k = -1, v = -1;
  int q_bias = -1, k_bias = -1, v_bias = -1;
  int q_norm = -1, k_norm = -1;
  int o = -1;
  int post_norm = -1;
  int gate = -1, up = -1, down = -1;
};

/// Every parameter of a layer, in the flat storage's order.
inline constexpr std::array kLayerParameters = {
    &LayerParameters::input_norm, &LayerParameters::q,         &LayerParameters::k,
    &LayerParameters::v,          &LayerParameters::q_bias,    &LayerParameters::k_bias,
    &LayerParameters::v_bias,     &LayerParameters::q_norm,    &LayerParameters::k_norm,
    &LayerParameters::o,          &LayerParameters::post_norm, &LayerParameters::gate,
    &LayerParameters::up,         &LayerParameters::down};

/// All parameters of a model. In the flat storage q, k, v are adjacent, so are their biases, and
/// gate and up: each group is one product.
struct ParameterTable {
  std::vector<Parameter> list;
  int embedding = -1;
  std::vector<LayerParameters> layers;
  int final_norm = -1;
  int head = -1;  // the embedding where tied
  int64_t elements = 0;

  const Parameter& operator[](int i) const { return list[static_cast<size_t>(i)]; }
};

/// What a step changes, in the order of the flat storage; without training there are no moments.
template <class T>
struct StateSpans {
  std::span<T> weights;
  std::span<T> first_moments;
  std::span<T> second_moments;
};

/// The parameters of a model in canonical order: embedding, layers, final norm, and the head where
/// it is not the embedding.
[[nodiscard]] ParameterTable make_parameters(const ModelConfig& config);

}  // namespace rlreplay
