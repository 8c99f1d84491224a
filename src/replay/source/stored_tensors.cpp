#include "src/replay/source/stored_tensors.h"

namespace rlreplay::replay {

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
