#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"
#include "tests/kernels/support.h"

/// One product with its data on guarded views, run by any kernel set.
namespace rlreplay::kernels::test {

/// The pools of 1, 2 and 4 threads.
inline const std::vector<std::unique_ptr<ThreadPool>>& pools() {
  static const auto all = [] {
    std::vector<std::unique_ptr<ThreadPool>> out;
    for (const int threads : {1, 2, 4}) out.push_back(std::make_unique<ThreadPool>(threads));
    return out;
  }();
  return all;
}

/// A weight as it is stored: parts stacked by rows, on views of their own.
struct Weight {
  std::vector<Guarded<float>> parts;
  Inner inner = Inner::kColumns;

  Weight(Inner which, const std::vector<int64_t>& part_rows, int64_t cols) : inner(which) {
    for (const int64_t rows : part_rows) parts.emplace_back(rows, cols);
  }
  PackedWeight pack(const KernelSet& set, ThreadPool& pool) const {
    std::vector<Matrix<const float>> views;
    for (const auto& part : parts) views.push_back(part.view());
    PackedWeight out;
    set.pack_weight({views, inner}, out, pool);
    return out;
  }
  /// Element of the inner and the outer axis.
  float at(int64_t k, int64_t n) const {
    int64_t row = inner == Inner::kColumns ? n : k;
    const int64_t col = inner == Inner::kColumns ? k : n;
    size_t part = 0;
    for (; row >= parts[part].view().rows; ++part) row -= parts[part].view().rows;
    return parts[part].view()(row, col);
  }
};

template <class Fill>
void fill(Guarded<float>& to, const Fill& next) {
  for (int64_t r = 0; r < to.view().rows; ++r) {
    for (int64_t c = 0; c < to.view().cols; ++c) to(r, c) = next();
  }
}

/// The result of x w (+ bias) (+ residual); requires that nothing outside y was written.
struct ProductInput {
  const Guarded<float>& x;
  const Weight& w;
  const DotOrder& order;
  const std::vector<float>* bias = nullptr;
  const Guarded<float>* residual = nullptr;
};

inline Guarded<float> product(const KernelSet& set, const ProductInput& in, ThreadPool& pool) {
  const PackedWeight packed = in.w.pack(set, pool);
  Guarded<float> y(in.x.view().rows, packed.n, 1, 3);
  Matmul op;
  op.x = in.x.view();
  op.w = &packed;
  op.order = &in.order;
  if (in.bias != nullptr) op.bias = in.bias->data();
  if (in.residual != nullptr) op.residual = in.residual->view();
  op.y = y.view();
  set.matmul(op, pool);
  return y;
}

}  // namespace rlreplay::kernels::test
