#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include <algorithm>
#include <cstring>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/items.h"
#include "kernels/cpu/token_partials.h"
#include "kernels/cpu/token_sum-inl.h"
#include "kernels/cpu/vectors-inl.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

void embedding(const Embedding& op, ThreadPool& pool) {
  each_row(pool, op.out.rows, op.out.cols, [&](int64_t t, int) {
    const int64_t row = int64_t{op.ids[t]} - op.first_id;
    if (row < 0 || row >= op.table.rows) return;
    std::memcpy(op.out.row(t), op.table.row(row), static_cast<size_t>(op.out.cols) * sizeof(float));
  });
}

/// Columns [begin, begin + n) of a row of the sum += a; touches nothing behind them.
void contribute_part(const float* a, int64_t n, const TokenRounding& rounding,
                     const TokenVector& tokens, const TokenSum& to, int64_t row, int64_t begin) {
  int64_t* sum = to.sum.row(row) + begin;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    tokens.add(Whole().load(a + i), sum + i, to.element(row, begin + i), n - i);
  }
  for (; i < n; ++i) contribute(rounding, a[i], to, row, begin + i);
}

/// Tokens with one id add to one row, so work is cut by columns.
void embedding_tokens(const EmbeddingTokens& op, ThreadPool& pool) {
  constexpr int64_t kColumns = 512;  // shorter pieces of rows waste the prefetcher
  const auto rounding = token_rounding(op.dtable);
  pool.run(ceil_div(op.dx.cols, kColumns), [&](int64_t item, int) HWY_ATTR {
    const TokenVector tokens(rounding, op.dtable.rejected);
    const int64_t begin = item * kColumns, n = std::min(kColumns, op.dx.cols - begin);
    for (int64_t t = 0; t < op.dx.rows; ++t) {
      const int64_t row = int64_t{op.ids[t]} - op.first_id;
      if (row < 0 || row >= op.dtable.sum.rows) continue;
      contribute_part(op.dx.row(t) + begin, n, rounding, tokens, op.dtable, row, begin);
    }
  });
}

void bias_row(const float* dy, int64_t n, const TokenVector& tokens, int64_t* sum) {
  each_vector(
      n, [&](auto part, int64_t i) HWY_ATTR { tokens.add(part.load(dy + i), sum + i, i, n - i); });
}

void bias_tokens(const BiasTokens& op, ThreadPool& pool) {
  TokenPartials partials(pool, op.dy.cols);
  const auto rounding = token_rounding(op.dbias);
  each_item(pool, op.dy.rows, op.dy.cols, [&](Range rows, int worker) HWY_ATTR {
    const TokenVector tokens(rounding, op.dbias.rejected);
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      if (op.counts != nullptr && op.counts[t] == 0) continue;
      bias_row(op.dy.row(t), op.dy.cols, tokens, partials.of(worker));
    }
  });
  partials.add_to(op.dbias.sum.row(0));
}

}  // namespace

void fill_embedding(KernelSet& set) {
  set.embedding = embedding;
  set.embedding_tokens = embedding_tokens;
  set.bias_tokens = bias_tokens;
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_embedding(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_embedding), HWY_CHOOSE_AVX2(fill_embedding),
         HWY_CHOOSE_NEON(fill_embedding))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
