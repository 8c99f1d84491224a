#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kernels/order.h"
#include "tests/kernels/rows_support.h"

/// From logits to log-probabilities and gradients, as an engine chains the operations, with the
/// vocabulary on any number of simulated ranks.
namespace rlreplay::kernels::test {

inline constexpr int64_t kVocabSegments = 8;

/// What the loss asks of every row.
struct Loss {
  std::vector<int32_t> labels;
  std::vector<float> c;
  std::vector<float> ce;

  Loss pick(const std::vector<int64_t>& rows) const {
    Loss out;
    for (const int64_t row : rows) {
      const auto i = static_cast<size_t>(row);
      out.labels.push_back(labels[i]);
      out.c.push_back(c[i]);
      out.ce.push_back(ce[i]);
    }
    return out;
  }
};

inline Loss random_loss(Random& random, int64_t rows, int64_t cols) {
  Loss out;
  for (int64_t t = 0; t < rows; ++t) {
    out.labels.push_back(static_cast<int32_t>(random.below(cols)));
    out.c.push_back(t % 4 == 3 ? 0.0f : random.normal());
    out.ce.push_back(t % 4 >= 2 ? 0.0f : 0.01f * random.normal());
  }
  return out;
}

struct VocabOptions {
  float temperature = 1;
  int64_t ranks = 1;
  bool in_place = false;
};

struct VocabResult {
  std::vector<float> max, sum, log_sum, log_prob, entropy;
  Guarded<float> dlogits;

  std::string row_bytes(int64_t t) const {
    const auto i = static_cast<size_t>(t);
    return bytes_of(std::vector<float>{max[i], sum[i], log_sum[i], log_prob[i], entropy[i]}) +
           std::string(reinterpret_cast<const char*>(dlogits.view().row(t)),
                       static_cast<size_t>(dlogits.view().cols) * sizeof(float));
  }
  std::string bytes() const {
    std::string out;
    for (int64_t t = 0; t < dlogits.view().rows; ++t) out += row_bytes(t);
    return out;
  }
};

/// One rank's columns as a matrix of its own.
struct VocabRank {
  Range columns;
  std::vector<Range> segments;
  Guarded<float> logits;
};

inline std::vector<VocabRank> cut_vocab(const Guarded<float>& logits, int64_t cols, int64_t ranks) {
  std::vector<VocabRank> out;
  const int64_t per_rank = kVocabSegments / ranks, rows = logits.view().rows;
  for (int64_t r = 0; r < ranks; ++r) {
    std::vector<Range> segments;
    const int64_t begin = segment(cols, kVocabSegments, r * per_rank).begin;
    for (int64_t s = r * per_rank; s < (r + 1) * per_rank; ++s) {
      const Range global = segment(cols, kVocabSegments, s);
      segments.push_back({global.begin - begin, global.end - begin});
    }
    const Range columns = {begin, begin + segments.back().end};
    Guarded<float> part(rows, columns.size(), 1 + r, 3);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        part(t, j - columns.begin) = logits.view()(t, j);
      }
    }
    out.push_back({columns, segments, part});
  }
  return out;
}

inline VocabResult run_vocab(const KernelSet& set, ThreadPool& pool, const Guarded<float>& logits,
                             int64_t cols, const Loss& loss, const VocabOptions& options) {
  const int64_t rows = logits.view().rows;
  const auto n = static_cast<size_t>(rows);
  auto ranks = cut_vocab(logits, cols, options.ranks);
  VocabResult out{std::vector<float>(n, -INFINITY),
                  std::vector<float>(n),
                  std::vector<float>(n),
                  std::vector<float>(n),
                  std::vector<float>(n),
                  {rows, cols}};
  std::vector<float> label_logits(n);
  Guarded<float> z(rows, kVocabSegments), e(rows, kVocabSegments);

  for (auto& rank : ranks) {
    std::vector<float> local(n + 1, -7.0f);
    set.vocab_max({rank.logits.view(), options.temperature, local.data()}, pool);
    for (size_t t = 0; t < n; ++t) {
      out.max[t] = std::max(out.max[t], local[t]);
      if (loss.labels[t] >= rank.columns.begin && loss.labels[t] < rank.columns.end) {
        label_logits[t] = rank.logits(static_cast<int64_t>(t), loss.labels[t] - rank.columns.begin);
      }
    }
    REQUIRE(local[n] == -7.0f);
  }
  int64_t first = 0;
  for (auto& rank : ranks) {
    const auto count = static_cast<int64_t>(rank.segments.size());
    Guarded<float> local_z(rows, count), local_e(rows, count);
    set.vocab_sums(
        {rank.logits.view(), out.max.data(), rank.segments, local_z.view(), local_e.view()}, pool);
    REQUIRE((local_z.intact() && local_e.intact() && rank.logits.intact()));
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t s = 0; s < count; ++s) {
        z(t, first + s) = local_z(t, s);
        e(t, first + s) = local_e(t, s);
      }
    }
    first += count;
  }
  set.log_prob({z.view(), e.view(), out.max.data(), label_logits.data(), out.sum.data(),
                out.log_sum.data(), out.log_prob.data(), out.entropy.data()},
               pool);
  for (auto& rank : ranks) {
    std::vector<int32_t> labels = loss.labels;
    for (auto& label : labels) label -= static_cast<int32_t>(rank.columns.begin);
    Guarded<float> apart(rows, rank.columns.size());
    auto& d = options.in_place ? rank.logits : apart;
    set.log_prob_backward({.logits = rank.logits.view(),
                           .max = out.max.data(),
                           .sum = out.sum.data(),
                           .log_sum = out.log_sum.data(),
                           .entropy = out.entropy.data(),
                           .labels = labels.data(),
                           .c = loss.c.data(),
                           .ce = loss.ce.data(),
                           .temperature = options.temperature,
                           .dlogits = d.view()},
                          pool);
    REQUIRE((d.intact() && rank.logits.intact()));
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < rank.columns.size(); ++j) {
        out.dlogits(t, rank.columns.begin + j) = d(t, j);
      }
    }
  }
  return out;
}

}  // namespace rlreplay::kernels::test
