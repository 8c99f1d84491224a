#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/digest.h"
#include "src/events/table.h"

/// What is kept of the events of a step.
namespace rlreplay::engine {

/// Consecutive positions of one sample.
struct RowRun {
  uint64_t sample = 0;
  int64_t position = 0;
  int64_t count = 0;
  friend bool operator==(const RowRun&, const RowRun&) = default;
};

/// The rows of a per-token tensor, by sample id, then by position.
using RowSet = std::vector<RowRun>;

/// An element: of a per-token tensor by sample and position, of a parameter by row.
struct Element {
  uint64_t sample = 0;
  int64_t row = 0;
  int64_t column = 0;
  friend auto operator<=>(const Element&, const Element&) = default;
};

/// NaN and infinity are findings, not values: rows that hold one are left out of digests.
struct NonFinite {
  int64_t count = 0;
  Element first;
  friend bool operator==(const NonFinite&, const NonFinite&) = default;
};

/// Statistics of the finite elements, in binary64.
/// Order: a chain over each row's ascending elements, then a chain over the rows.
/// Units: an exact sum's are multiples of 2^-S.
struct Stats {
  double min = 0;
  double max = 0;
  double mean = 0;
  double rms = 0;
  friend bool operator==(const Stats&, const Stats&) = default;
};

/// One tensor of one event.
struct EventRecord {
  Event event;
  int rank = 0;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;  // without the count of tokens, at most 8; none for scalars
  int64_t rows = 1;
  int64_t cols = 1;
  Digest digest;
  NonFinite nonfinite;
  std::optional<Stats> stats;
  int row_set = -1;                 // in StepEvents::row_sets; -1: not per token, or not kept
  std::vector<Digest> row_digests;  // of every row, or none
  std::vector<std::byte> values;    // all elements, row-major, or none
  /// Whose differences explain its: of events that are not ours, where their table says it.
  std::optional<std::vector<Event>> parents = {};

  friend bool operator==(const EventRecord&, const EventRecord&) = default;
  [[nodiscard]] bool same_value(const EventRecord& other) const {
    return dims == other.dims && dtype == other.dtype && rows == other.rows &&
           digest == other.digest && nonfinite == other.nonfinite;
  }
};

/// The events of a rollout, of a step, or of both, in canonical order.
struct StepEvents {
  int64_t rollout_id = 0;
  int64_t step_id = 0;
  std::vector<RowSet> row_sets;
  std::vector<EventRecord> events;

  friend bool operator==(const StepEvents&, const StepEvents&) = default;
  [[nodiscard]] const EventRecord* find(const Event& event) const;
  /// The sum of the digests of an operation's tensors: of all weights, of all gradients.
  Digest total(Op op) const;
  /// Puts a rollout's events before its first step's.
  void prepend(StepEvents rollout);
};

/// What is kept. Scalars are always kept whole.
struct RecordOptions {
  Granularity granularity = Granularity::kSteps;
  bool stats = false;
  bool values = false;

  /// Whether rows have digests: of tensors with a row per token from `tensors` on, of parameters
  /// with `ops`. Instead of them, values are kept of tensors with one number per token, of token
  /// ids always.
  [[nodiscard]] bool row_digests(Kind kind) const {
    return granularity == Granularity::kOps ||
           (granularity == Granularity::kTensors && is_per_token(kind));
  }
};

/// `steps|tensors|ops[+stats][+values]`, in any order after the first. Errors: kUsage.
[[nodiscard]] RecordOptions parse_record_options(std::string_view text);
[[nodiscard]] std::string to_string(const RecordOptions& options);

}  // namespace rlreplay::engine
