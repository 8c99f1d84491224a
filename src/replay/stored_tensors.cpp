#include "src/replay/stored_tensors.h"

namespace rlreplay::replay {

std::vector<foreign::StoredTensor> stored_tensors(const engine::Model& model) {
  std::vector<foreign::StoredTensor> out;
  int index = 0;
  for (const engine::Parameter& p : model.parameters().list) {
    foreign::StoredTensor& tensor = out.emplace_back();
    tensor.name = p.name;
    tensor.dtype = DType::kF32;
    if (!p.is_vector()) tensor.shape.push_back(p.rows);
    tensor.shape.push_back(p.cols);
    const auto* data = reinterpret_cast<const unsigned char*>(model.weight(index));
    tensor.data = {data, static_cast<size_t>(p.size()) * sizeof(float)};
    ++index;
  }
  return out;
}

}  // namespace rlreplay::replay
