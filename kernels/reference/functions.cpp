#include "kernels/functions.h"

#include "kernels/contract.h"

namespace rlreplay::kernels {
namespace {

template <float (*function)(float)>
void each(std::span<const float> x, float* y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] = function(x[i]);
}

void apply(Function function, std::span<const float> x, float* y) {
  using contract::Scalar;
  switch (function) {
    case Function::kExp:
      return each<contract::exp<Scalar>>(x, y);
    case Function::kLog:
      return each<contract::log<Scalar>>(x, y);
    case Function::kExpm1:
      return each<contract::expm1<Scalar>>(x, y);
    case Function::kK3:
      return each<contract::k3<Scalar>>(x, y);
    case Function::kSigmoid:
      return each<contract::sigmoid<Scalar>>(x, y);
    case Function::kSilu:
      return each<contract::silu<Scalar>>(x, y);
    case Function::kTanh:
      return each<contract::tanh<Scalar>>(x, y);
    case Function::kRsqrt:
      return each<contract::rsqrt<Scalar>>(x, y);
  }
}

}  // namespace

FunctionSet scalar_functions() { return {"scalar", apply}; }

}  // namespace rlreplay::kernels
