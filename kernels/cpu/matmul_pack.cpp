#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_pack.cpp"
#include <algorithm>
#include <array>
#include <cstring>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/matmul-inl.h"
#include "kernels/cpu/matmul_plan.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Calls visit(part, row of the part, rows, row of the stack) for the stacked rows `rows`, a piece
/// of a part at a time.
template <class Visit>
void visit_parts(std::span<const Matrix<const float>> parts, Range rows, const Visit& visit) {
  int64_t first = 0;
  for (const auto& part : parts) {
    const int64_t begin = std::max(rows.begin, first);
    const int64_t end = std::min(rows.end, first + part.rows);
    if (begin < end) visit(part, begin - first, end - begin, begin);
    first += part.rows;
  }
}

/// One panel of a weight whose columns are the inner axis: kPanel of its rows, transposed.
void pack_columns(const PackWeight& op, int64_t panel, PackedWeight& out) {
  float* to = out.data.data() + panel * out.k * kPanel;
  const Range rows = {panel * kPanel, std::min(out.n, (panel + 1) * kPanel)};
  if (rows.size() < kPanel) std::fill_n(to, out.k * kPanel, 0.0f);
  visit_parts(op.parts, rows, [&](const auto& part, int64_t row, int64_t count, int64_t stacked) {
    transpose(part.row(row), part.stride, count, out.k, to + stacked - rows.begin, kPanel);
  });
}

constexpr int64_t kPackRows = 32;  // rows of an item of pack_rows

/// Some rows of a weight whose rows are the inner axis, for all panels: runs of kPanel are copied.
void pack_rows(const PackWeight& op, Range rows, PackedWeight& out) {
  const int64_t panels = ceil_div(out.n, kPanel);
  visit_parts(op.parts, rows, [&](const auto& part, int64_t row, int64_t count, int64_t stacked) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      float* to = out.data.data() + (panel * out.k + stacked) * kPanel;
      const int64_t cols = std::min(out.n - panel * kPanel, kPanel);
      for (int64_t r = row; r < row + count; ++r, to += kPanel) {
        const float* from = part.row(r) + panel * kPanel;
        if (cols == kPanel) {
          std::memcpy(to, from, kPanel * sizeof(float));
        } else {
          std::fill(std::copy_n(from, cols, to), to + kPanel, 0.0f);
        }
      }
    }
  });
}

void pack_weight(const PackWeight& op, PackedWeight& out, ThreadPool& pool) {
  const PackedShape shape = packed_shape(op);
  const int64_t panels = ceil_div(shape.n, kPanel);
  out.k = shape.k;
  out.n = shape.n;
  out.panel = kPanel;
  out.data.resize(static_cast<size_t>(panels * shape.k * kPanel));
  if (op.inner == Inner::kColumns) {
    pool.run(panels, [&](int64_t panel, int) { pack_columns(op, panel, out); });
  } else {
    pool.run(ceil_div(shape.k, kPackRows), [&](int64_t item, int) {
      pack_rows(op, {item * kPackRows, std::min(shape.k, (item + 1) * kPackRows)}, out);
    });
  }
}

constexpr int64_t kMaxLevels = 32;  // of 2^32 parts

/// y of columns [i, i + kLanes) of row r. The open subtrees lie on a stack; part p closes one per
/// trailing one of its number.
template <class Load>
HWY_INLINE Simd::F tree_sum(size_t parts, const Load& load) {
  Simd::F stack[kMaxLevels];
  int top = -1;
  for (size_t p = 0; p < parts; ++p) {
    stack[++top] = load(p);
    for (size_t ones = p; ones & 1; ones >>= 1, --top) {
      stack[top - 1] = hn::Add(stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

void combine_row(const CombineSegments& op, int64_t r) {
  const Simd::D d;
  const float* residual = op.residual.data == nullptr ? nullptr : op.residual.row(r);
  for (int64_t i = 0; i < op.y.cols; i += kLanes) {
    const auto n = static_cast<size_t>(std::min(kLanes, op.y.cols - i));
    const auto load = [&](const float* from) HWY_ATTR {
      if (n == static_cast<size_t>(kLanes)) return hn::LoadU(d, from);
      HWY_ALIGN float lanes[kLanes] = {};
      std::copy_n(from, n, lanes);
      return hn::Load(d, lanes);
    };
    auto out =
        tree_sum(op.parts.size(), [&](size_t p) HWY_ATTR { return load(op.parts[p].row(r) + i); });
    if (op.bias != nullptr) out = hn::Add(out, load(op.bias + i));
    if (residual != nullptr) out = hn::Add(out, load(residual + i));
    if (n == static_cast<size_t>(kLanes)) {
      hn::StoreU(out, d, op.y.row(r) + i);
    } else {
      HWY_ALIGN float lanes[kLanes];
      hn::Store(out, d, lanes);
      std::copy_n(lanes, n, op.y.row(r) + i);
    }
  }
}

void combine_segments(const CombineSegments& op, ThreadPool& pool) {
  check_shapes(op);
  constexpr int64_t kRows = 16;  // rows of an item
  pool.run(ceil_div(op.y.rows, kRows), [&](int64_t item, int) {
    for (int64_t r = item * kRows; r < std::min(op.y.rows, (item + 1) * kRows); ++r) {
      combine_row(op, r);
    }
  });
}

}  // namespace

void fill_matmul_pack(KernelSet& set) {
  set.pack_weight = pack_weight;
  set.combine_segments = combine_segments;
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_matmul_pack(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_matmul_pack), HWY_CHOOSE_AVX2(fill_matmul_pack),
         HWY_CHOOSE_NEON(fill_matmul_pack))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
