#include "src/engine/initialize.h"

#include <algorithm>
#include <cmath>

#include "kernels/philox.h"

namespace rlreplay::engine {
namespace {

/// Deviation of a matrix's elements.
double deviation(const Parameter& p, bool into_residual, int64_t layers) {
  const double squares =
      static_cast<double>(p.cols) * (into_residual ? 2.0 * static_cast<double>(layers) : 1.0);
  return 1.0 / std::sqrt(squares);
}

void fill_uniform(uint64_t seed, uint32_t parameter, float half_width, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 4) {
    const auto block = static_cast<uint64_t>(i / 4);
    const kernels::Words4 words = kernels::philox(
        {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), parameter, 0}}, seed);
    for (int64_t k = 0; k < std::min<int64_t>(4, count - i); ++k) {
      out[i + k] = (2.0f * kernels::open_unit(words.word[k]) - 1.0f) * half_width;
    }
  }
}

}  // namespace

void initialize(const Runtime& runtime, uint64_t seed, Model& model) {
  const ParameterTable& table = model.parameters();
  for (size_t i = 0; i < table.list.size(); ++i) {
    const Parameter& p = table.list[i];
    float* const out = model.weights().data() + p.offset;
    if (p.is_vector()) {
      std::fill_n(out, p.size(), p.role == Role::kBias ? 0.0f : 1.0f);
      continue;
    }
    const bool into_residual =
        std::any_of(table.layers.begin(), table.layers.end(), [&](const LayerParameters& layer) {
          return layer.o == static_cast<int>(i) || layer.down == static_cast<int>(i);
        });
    const double half_width = std::sqrt(3.0) * deviation(p, into_residual, model.config().layers);
    fill_uniform(seed, static_cast<uint32_t>(i), static_cast<float>(half_width), out, p.size());
  }
  model.pack(runtime, PackedFor::kTraining);
}

}  // namespace rlreplay::engine
