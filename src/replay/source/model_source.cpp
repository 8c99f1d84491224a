#include "src/replay/source/model_source.h"

#include <algorithm>

namespace rlreplay::replay {

engine::WeightReader ModelSource::reader(const engine::Runtime& runtime) const {
  const auto parameters = make_parameters(config());
  auto weights = std::make_shared<Buffer<float>>(static_cast<size_t>(parameters.elements));
  load(runtime, parameters, {weights->data(), weights->size()});
  return [weights](const Parameter& p, kernels::Range rows, std::span<float> out) {
    std::copy_n(weights->data() + p.offset + rows.begin * p.cols, out.size(), out.data());
  };
}

}  // namespace rlreplay::replay
