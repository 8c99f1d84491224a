#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/parameters.h"
#include "src/base/rows_view.h"
#include "src/events/event_record.h"

namespace rlreplay::engine {

/// How the tensor of an event is digested (docs/numerics.md section 8).
struct DigestPlan {
  TensorId id;
  std::vector<int64_t> dims;  // without the count of tokens
  std::vector<int64_t> cuts;
};

/// Errors: kInternal for an event outside of the table or a parameter that the model lacks.
[[nodiscard]] DigestPlan digest_plan(const Event& event, const ModelConfig& config,
                                     const ParameterTable& parameters);

/// What one row says of a tensor.
struct RowSummary {
  Digest digest;  // zero where an element is not finite
  double min = 0, max = 0, sum = 0, square_sum = 0;
  int64_t finite = 0;
  int64_t nonfinite = 0;
  int64_t first_nonfinite = -1;  // column
};

/// Row `row` of `values` under its coordinates: (sample, position) of a token, (row) of a
/// parameter. `with_stats`: also min, max and the sums.
[[nodiscard]] RowSummary summarize_row(const DigestPlan& plan, const RowsView& values, int64_t row,
                                       std::span<const uint64_t> coordinates, bool with_stats);

/// The rows' sums in order, and their statistics.
struct TensorSummary {
  Digest digest;
  NonFinite nonfinite;
  std::optional<Stats> stats;
};
class Summing {
 public:
  void add(const RowSummary& row, const Element& at);
  [[nodiscard]] TensorSummary result(bool with_stats) const;

 private:
  TensorSummary out_;
  double sum_ = 0, square_sum_ = 0;
  int64_t finite_ = 0;
  Stats range_;
};

}  // namespace rlreplay::engine
