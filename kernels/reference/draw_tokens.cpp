#include "kernels/draw_tokens.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/contract.h"
#include "kernels/reference/reference.h"
#include "src/base/thread_pool.h"

namespace rlreplay::kernels::reference {
namespace {

using contract::Scalar;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  float value = 0;
  int32_t id = 0;
};

/// All ids of a row by (value descending, id ascending).
std::vector<Candidate> ranked(const float* logits, int64_t vocab) {
  std::vector<Candidate> out;
  for (int64_t i = 0; i < vocab; ++i) {
    // A NaN is a finding, not an answer: it only must not confuse the order.
    const float value = logits[i] == logits[i] ? logits[i] : -kInfinity;
    out.push_back({value, static_cast<int32_t>(i)});
  }
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
  });
  return out;
}

void keep_top_p(const DrawTokens& op, int64_t t, std::vector<Candidate>& order) {
  const float inverse = 1.0f / op.sum[t];
  std::vector<uint64_t> mass;
  uint64_t kept = 0;
  for (const Candidate& c : order) {
    mass.push_back(integer_mass(contract::exp<Scalar>(c.value - op.max[t]) * inverse));
    kept += mass.back();
  }
  size_t n = 1;  // the first always stays
  for (uint64_t before = mass[0];
       n < order.size() && stays_in_top_p(before, top_p_units(op.top_p), kept); ++n) {
    before += mass[n];
  }
  order.resize(n);
}

float noise(const DrawTokens& op, const Draw& draw, int32_t id) {
  const auto counter = noise_counter(draw, op.stream, static_cast<uint32_t>(id / 4));
  const float u = open_unit(philox(counter, op.seed).word[id % 4]);
  return contract::log<Scalar>(-contract::log<Scalar>(u));
}

int32_t draw_row(const DrawTokens& op, int64_t t) {
  std::vector<Candidate> order = ranked(op.logits.row(t), op.logits.cols);
  if (op.greedy) return order[0].id;
  if (op.top_k > 0 && op.top_k < op.logits.cols) order.resize(static_cast<size_t>(op.top_k));
  if (op.top_p < 1) keep_top_p(op, t, order);
  std::sort(order.begin(), order.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  int32_t best = order[0].id;
  float best_score = -kInfinity;
  for (const Candidate& c : order) {
    const float score = c.value - noise(op, op.draws[static_cast<size_t>(t)], c.id);
    if (score > best_score) best_score = score, best = c.id;
  }
  return best;
}

void draw_tokens(const DrawTokens& op, ThreadPool& pool) {
  pool.run(op.logits.rows, [&](int64_t t, int) { op.ids[t] = draw_row(op, t); });
}

}  // namespace

void add_draw_tokens(KernelSet& set) { set.draw_tokens = draw_tokens; }

}  // namespace rlreplay::kernels::reference
