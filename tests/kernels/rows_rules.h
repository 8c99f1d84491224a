#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

/// The tests' own copy of the rules of `row` and of trees, with a switch for each rule: a rule that
/// is broken must be seen in the bits.
namespace rlreplay::kernels::test {

struct RowRules {
  int64_t lanes = 32;
  int64_t block = 1024;
  int64_t first_index = 0;  // the index that the first element has for lanes and blocks
  bool folds_far_lanes_first = true;
  bool folds_blocks_in_a_chain = true;
  bool fuses = true;
  bool starts_from_zero = true;
};

inline float fold_lanes(std::vector<float> lane, bool far_first) {
  const auto n = static_cast<int64_t>(lane.size());
  for (int64_t step = 1; step < n; step *= 2) {
    const int64_t distance = far_first ? n / 2 / step : step;
    auto next = lane;
    for (int64_t j = 0; j < n; ++j) {
      next[static_cast<size_t>(j)] =
          lane[static_cast<size_t>(j)] + lane[static_cast<size_t>(j ^ distance)];
    }
    lane = next;
  }
  return lane[0];
}

inline float fold_blocks(std::vector<float> blocks, const RowRules& rules) {
  if (rules.folds_blocks_in_a_chain) {
    float total = rules.starts_from_zero || blocks.empty() ? 0.0f : blocks[0];
    for (size_t i = rules.starts_from_zero ? 0 : 1; i < blocks.size(); ++i) total += blocks[i];
    return total;
  }
  while (blocks.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i < blocks.size(); i += 2) {
      next.push_back(i + 1 < blocks.size() ? blocks[i] + blocks[i + 1] : blocks[i]);
    }
    blocks = next;
  }
  return blocks.empty() ? 0.0f : blocks[0];
}

/// The sum of a(i) b(i), 0 <= i < n.
template <class A, class B>
float row_by(const RowRules& rules, int64_t n, A a, B b) {
  std::vector<float> blocks;
  for (int64_t i = 0; i < n;) {
    std::vector<float> lane(static_cast<size_t>(rules.lanes));
    std::vector<bool> begun(lane.size(), rules.starts_from_zero);
    do {
      const auto j = static_cast<size_t>((rules.first_index + i) % rules.lanes);
      if (!begun[j]) {
        lane[j] = a(i) * b(i);
      } else if (rules.fuses) {
        lane[j] = fmaf(a(i), b(i), lane[j]);
      } else {
        const float product = a(i) * b(i);
        lane[j] = lane[j] + product;
      }
      begun[j] = true;
      ++i;
    } while (i < n && (rules.first_index + i) % rules.block != 0);
    blocks.push_back(fold_lanes(lane, rules.folds_far_lanes_first));
  }
  return fold_blocks(blocks, rules);
}

/// One rule broken at a time, with its name.
struct BrokenRow {
  const char* name;
  RowRules rules;
};

inline std::vector<BrokenRow> broken_rows() {
  return {{"16 lanes", {.lanes = 16}},
          {"64 lanes", {.lanes = 64}},
          {"blocks of 512", {.block = 512}},
          {"blocks of 2048", {.block = 2048}},
          {"near lanes first", {.folds_far_lanes_first = false}},
          {"blocks by a tree", {.folds_blocks_in_a_chain = false}},
          {"multiply, then add", {.fuses = false}}};
}

}  // namespace rlreplay::kernels::test
