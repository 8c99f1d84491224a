#include "format/foreign/tensor_content.h"

#include <cstddef>

namespace rlreplay::foreign {

void for_each_run(const Tree& tree, const Tensor& tensor, const std::function<void(Bytes)>& take) {
  if (tensor.count == 0) return;
  const Bytes data = tree.storage(tensor).data;
  const int64_t size = item_size(tensor.dtype);
  // The innermost dimensions that are dense make one run.
  size_t outer = tensor.shape.size();
  int64_t dense = 1;
  while (outer > 0 && (tensor.stride[outer - 1] == dense || tensor.shape[outer - 1] == 1)) {
    dense *= tensor.shape[--outer];
  }
  std::vector<int64_t> at(outer, 0);
  int64_t element = tensor.offset;
  for (int64_t done = 0; done < tensor.count; done += dense) {
    take(data.subspan(static_cast<size_t>(element * size), static_cast<size_t>(dense * size)));
    for (size_t d = outer; d-- > 0;) {
      element += tensor.stride[d];
      if (++at[d] < tensor.shape[d]) break;
      element -= tensor.stride[d] * tensor.shape[d];
      at[d] = 0;
    }
  }
}

Bytes contiguous_content(const Tree& tree, const Tensor& tensor, std::vector<uint8_t>& scratch) {
  Bytes single;
  size_t runs = 0;
  scratch.clear();
  for_each_run(tree, tensor, [&](Bytes run) {
    if (++runs == 1) {
      single = run;
      return;
    }
    if (runs == 2) scratch.assign(single.begin(), single.end());
    scratch.insert(scratch.end(), run.begin(), run.end());
  });
  return runs < 2 ? single : Bytes(scratch);
}

}  // namespace rlreplay::foreign
