#pragma once

#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"
#include "tests/kernels/support.h"

namespace rlreplay::kernels::test {

inline bool full() { return std::getenv("RLREPLAY_FULL") != nullptr; }

inline std::vector<KernelSet> all_sets() {
  std::vector<KernelSet> out = {reference_kernels()};
  for (const auto& set : cpu_kernel_sets()) out.push_back(set);
  return out;
}

struct Rules {
  bool greedy = false;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 0x123456789abcdef0;
  uint8_t stream = 1;
};

inline std::vector<Rules> rules_to_try(int64_t vocab) {
  std::vector<Rules> out = {{.greedy = true}};
  for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{2}, vocab / 3, vocab, vocab + 5}) {
    for (const double p : {1.0, 1e-9, 0.5, 0.9, 0.999}) out.push_back({.top_k = k, .top_p = p});
  }
  return out;
}

/// Rows of logits with their maximum, their sum and what is to be drawn.
struct Problem {
  Problem(int64_t rows, int64_t vocab)
      : logits(rows, vocab),
        draws(static_cast<size_t>(rows)),
        max(draws.size()),
        sum(draws.size()) {}

  int64_t rows() const { return static_cast<int64_t>(draws.size()); }
  int64_t vocab() const { return logits.view().cols; }

  void finish() {
    for (int64_t t = 0; t < rows(); ++t) {
      const float* row = logits.view().row(t);
      const float m = *std::max_element(row, row + vocab());
      double z = 0;
      for (int64_t i = 0; i < vocab(); ++i) z += std::exp(static_cast<double>(row[i]) - m);
      max[static_cast<size_t>(t)] = m;
      sum[static_cast<size_t>(t)] = static_cast<float>(z);
    }
  }

  std::vector<int32_t> draw(const KernelSet& set, const Rules& rules, ThreadPool& pool) const {
    std::vector<int32_t> ids(draws.size(), -7);
    set.draw_tokens({.logits = logits.view(),
                     .max = max.data(),
                     .sum = sum.data(),
                     .draws = draws,
                     .seed = rules.seed,
                     .stream = rules.stream,
                     .greedy = rules.greedy,
                     .top_k = rules.top_k,
                     .top_p = rules.top_p,
                     .ids = ids.data()},
                    pool);
    return ids;
  }

  Problem part(int64_t first, int64_t count) const {
    Problem out(count, vocab());
    for (int64_t t = 0; t < count; ++t) {
      const size_t from = static_cast<size_t>(first + t), to = static_cast<size_t>(t);
      for (int64_t i = 0; i < vocab(); ++i) out.logits(t, i) = logits.view()(first + t, i);
      out.draws[to] = draws[from], out.max[to] = max[from], out.sum[to] = sum[from];
    }
    return out;
  }

  Guarded<float> logits;
  std::vector<Draw> draws;
  std::vector<float> max, sum;
};

/// What the rules of docs/numerics.md section 6 allow, computed without sorting and in exact
/// integers: every id looks at all others. Probabilities are renormalised in binary64.
inline std::vector<double> exact_distribution(const std::vector<float>& row, float max, float sum,
                                              const Rules& rules) {
  const size_t vocab = row.size();
  std::vector<uint64_t> mass(vocab);
  std::vector<size_t> rank(vocab);
  for (size_t i = 0; i < vocab; ++i) {
    // Far from the borders of rounding here, so that libm may stand for the contract's exp.
    mass[i] = static_cast<uint64_t>(std::exp(static_cast<double>(row[i]) - max) / sum * 0x1p32);
    for (size_t j = 0; j < vocab; ++j) {
      rank[i] += row[j] > row[i] || (row[j] == row[i] && j < i) ? 1 : 0;
    }
  }
  const size_t k = rules.top_k > 0 ? static_cast<size_t>(rules.top_k) : vocab;
  __extension__ using Wide = unsigned __int128;
  Wide kept = 0;
  for (size_t i = 0; i < vocab; ++i) kept += rank[i] < k ? mass[i] : 0;
  std::vector<double> out(vocab);
  double total = 0;
  for (size_t i = 0; i < vocab; ++i) {
    Wide before = 0;
    for (size_t j = 0; j < vocab; ++j) before += rank[j] < rank[i] ? mass[j] : 0;
    const Wide p = static_cast<Wide>(std::floor(rules.top_p * 0x1p24));
    const bool in_p = rules.top_p >= 1 || rank[i] == 0 || before * 0x1000000 < p * kept;
    if (rank[i] >= k || !in_p) continue;
    out[i] = std::exp(static_cast<double>(row[i]) - max);
    total += out[i];
  }
  for (double& p : out) p /= total;
  return out;
}

}  // namespace rlreplay::kernels::test
