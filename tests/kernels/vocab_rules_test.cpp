#include "kernels/contract.h"
#include "tests/kernels/rows_rules.h"
#include "tests/kernels/vocab_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

using contract::Scalar;

/// The tests' own copy of section 6 for one row, with a switch for each rule.
struct VocabRules {
  RowRules row;
  bool index_restarts = true;
  bool combines_by_tree = true;
  bool divides_first = true;        // l = logit / T before the maximum is subtracted
  bool subtracts_max_first = true;  // (l_y - m) - log Z
  bool inverts_sum = true;          // exp(l - m) div(1, Z)
  bool divides_gradient_last = true;
};

struct VocabRow {
  std::vector<float> z, e, dlogits;
  float sum = 0, log_prob = 0, entropy = 0;
};

float combine(const std::vector<float>& s, bool by_tree) {
  if (by_tree) return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  float total = 0;
  for (const float x : s) total += x;
  return total;
}

VocabRow vocab_by(const VocabRules& rules, std::vector<float> l, int32_t label, float c, float ce,
                  float temperature) {
  VocabRow out;
  float m = -INFINITY;
  for (float& x : l) {
    if (rules.divides_first) x = x / temperature;
    m = std::max(m, x);
  }
  const auto n = static_cast<int64_t>(l.size());
  const auto shifted = [&](int64_t i) {
    const float x = l[static_cast<size_t>(i)] - m;
    return rules.divides_first ? x : x / temperature;
  };
  const auto weight = [&](int64_t i) { return contract::exp<Scalar>(shifted(i)); };
  for (int64_t s = 0; s < kVocabSegments; ++s) {
    const Range range = segment(n, kVocabSegments, s);
    RowRules row = rules.row;
    if (!rules.index_restarts) row.first_index = range.begin;
    const auto p = [&](int64_t i) { return weight(range.begin + i); };
    out.z.push_back(row_by(row, range.size(), p, [](int64_t) { return 1.0f; }));
    out.e.push_back(
        row_by(row, range.size(), p, [&](int64_t i) { return shifted(range.begin + i); }));
  }
  out.sum = combine(out.z, rules.combines_by_tree);
  const float e = combine(out.e, rules.combines_by_tree);
  const float log_z = contract::log<Scalar>(out.sum);
  out.log_prob = rules.subtracts_max_first ? shifted(label) - log_z
                                           : l[static_cast<size_t>(label)] - (m + log_z);
  out.entropy = log_z - e / out.sum;
  for (int64_t i = 0; i < n; ++i) {
    const float p = rules.inverts_sum ? weight(i) * (1.0f / out.sum) : weight(i) / out.sum;
    const float taken = i == label ? 1.0f : 0.0f;
    const float shift = (shifted(i) - log_z) + out.entropy;
    if (rules.divides_gradient_last) {
      out.dlogits.push_back(fmaf(ce * p, shift, (p - taken) * c) / temperature);
    } else {
      out.dlogits.push_back(fmaf((ce / temperature) * p, shift, (p - taken) * (c / temperature)));
    }
  }
  return out;
}

std::string bytes_of_row(const VocabRow& row) {
  return bytes_of(row.z) + bytes_of(row.e) +
         bytes_of(std::vector<float>{row.sum, row.log_prob, row.entropy}) + bytes_of(row.dlogits);
}

}  // namespace

TEST_CASE("vocab: the tests' own copy gives every set's bits, and a broken rule does not") {
  Random random(51);
  const int64_t cols = 8 * 5000 + 37;
  std::vector<std::pair<const char*, VocabRules>> broken = {
      {"index goes on over segments", {.row = {}, .index_restarts = false}},
      {"segments in a chain", {.row = {}, .combines_by_tree = false}},
      {"temperature after the maximum", {.row = {}, .divides_first = false}},
      {"maximum added to log Z", {.row = {}, .subtracts_max_first = false}},
      {"exp(l - m) / Z", {.row = {}, .inverts_sum = false}},
      {"temperature into the weights", {.row = {}, .divides_gradient_last = false}}};
  for (const auto& row : broken_rows()) broken.push_back({row.name, {.row = row.rules}});

  const int64_t rows = 4;
  Guarded<float> logits(rows, cols);
  logits.fill_normal(random, 3);
  const float temperature = 0.7f;
  const Loss loss = random_loss(random, rows, cols);
  const auto by = [&](const VocabRules& rules) {
    std::vector<VocabRow> out;
    for (int64_t t = 0; t < rows; ++t) {
      const auto i = static_cast<size_t>(t);
      const float* l = logits.view().row(t);
      out.push_back(
          vocab_by(rules, {l, l + cols}, loss.labels[i], loss.c[i], loss.ce[i], temperature));
    }
    return out;
  };
  const auto want = by({});
  std::vector<const KernelSet*> sets = {&reference_kernels()};
  for (const auto& set : cpu_kernel_sets()) sets.push_back(&set);
  for (const auto* set : sets) {
    const auto got = run_vocab(*set, *pools()[1], logits, cols, loss, {.temperature = temperature});
    for (int64_t t = 0; t < rows; ++t) {
      const auto i = static_cast<size_t>(t);
      CAPTURE(set->name, t);
      REQUIRE(got.sum[i] == want[i].sum);
      REQUIRE(got.log_prob[i] == want[i].log_prob);
      REQUIRE(got.entropy[i] == want[i].entropy);
      if (loss.c[i] == 0 && loss.ce[i] == 0) continue;  // +0 by rule
      const bool equal = got.row_bytes(t).substr(5 * sizeof(float)) == bytes_of(want[i].dlogits);
      REQUIRE(equal);
    }
  }
  for (const auto& [name, rules] : broken) {
    CAPTURE(name);
    const auto other = by(rules);
    bool seen = false;
    for (size_t i = 0; i < want.size(); ++i) {
      seen = seen || bytes_of_row(other[i]) != bytes_of_row(want[i]);
    }
    CHECK(seen);
  }
}

TEST_CASE("vocab_sums: lanes start from +0") {
  // All weights of the segment vanish; -0 would be left if a lane began with its first product.
  const std::vector<float> l(32, -500.0f);
  const float max = 0;
  const Range all = {0, 32};
  const auto p = [](int64_t) { return 0.0f; };
  const auto x = [](int64_t) { return -500.0f; };
  REQUIRE(std::signbit(row_by({.starts_from_zero = false}, 32, p, x)));
  require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
    float z = 1, e = 1;
    set.vocab_sums({{l.data(), 1, 32}, &max, {&all, 1}, {&z, 1, 1}, {&e, 1, 1}}, pool);
    REQUIRE(std::bit_cast<uint32_t>(z) == 0);
    REQUIRE(std::bit_cast<uint32_t>(e) == 0);
    return std::string();
  });
}
