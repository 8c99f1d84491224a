#include "src/engine/torch/convert.h"

#include <cmath>

#include "src/base/error.h"

namespace rlreplay::aten {

at::ScalarType scalar_type(Precision precision) {
  return precision == Precision::kFloat64 ? at::kDouble : at::kFloat;
}

at::Tensor to_tensor(const Array& array, Precision precision) {
  const auto values =
      at::from_blob(const_cast<double*>(array.values.data()),
                    {static_cast<int64_t>(array.values.size())}, at::TensorOptions(at::kDouble));
  int64_t elements = 1;
  for (const int64_t n : array.shape) elements *= n;
  check(elements == values.numel(), "an array's shape must hold exactly its values");
  return values.reshape(array.shape)
      .to(scalar_type(precision), /*non_blocking=*/false,
          /*copy=*/true);
}

at::Tensor to_parameter(const Array& array, Precision precision) {
  return to_tensor(array, precision).requires_grad_(true);
}

at::Tensor to_integers(const Array& array) {
  for (const double value : array.values) {
    check(value == std::floor(value), "an array of ids must hold integers");
  }
  return to_tensor(array, Precision::kFloat64).to(at::kLong);
}

Array to_array(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const auto values = tensor.detach().to(at::kDouble).contiguous();
  const double* data = values.const_data_ptr<double>();
  return {values.sizes().vec(), {data, data + values.numel()}};
}

}  // namespace rlreplay::aten
