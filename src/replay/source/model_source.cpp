#include "src/replay/source/model_source.h"

#include <algorithm>

#include "src/replay/source/demo.h"
#include "src/task/find_tokenizer.h"

namespace rlreplay::replay {

engine::WeightReader ModelSource::reader(const engine::Runtime& runtime) const {
  const auto parameters = make_parameters(config());
  auto weights = std::make_shared<Buffer<float>>(static_cast<size_t>(parameters.elements));
  load(runtime, parameters, {weights->data(), weights->size()});
  return [weights](const Parameter& p, kernels::Range rows, std::span<float> out) {
    std::copy_n(weights->data() + p.offset + rows.begin * p.cols, out.size(), out.data());
  };
}

std::unique_ptr<ModelSource> find_model(const std::string& name, int64_t seed) {
  check_model_name(name);
  if (name == kDemo) return open_demo({static_cast<uint64_t>(seed), DemoOptions{}.warm_steps});
  return open_checkpoint(name);
}

std::vector<foreign::StoredTensor> stored_tensors(const ParameterTable& parameters,
                                                  std::span<const float> weights) {
  std::vector<foreign::StoredTensor> out;
  for (const Parameter& p : parameters.list) {
    foreign::StoredTensor& tensor = out.emplace_back();
    tensor.name = p.name;
    tensor.dtype = DType::kF32;
    if (!p.is_vector()) tensor.shape.push_back(p.rows);
    tensor.shape.push_back(p.cols);
    const auto* data = reinterpret_cast<const unsigned char*>(weights.data() + p.offset);
    tensor.data = {data, static_cast<size_t>(p.size()) * sizeof(float)};
  }
  return out;
}

}  // namespace rlreplay::replay
