#include "src/events/tensor_digest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "src/base/error.h"
#include "src/events/name.h"

namespace rlreplay::engine {
namespace {

template <class T>
bool is_finite(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isfinite(value);
  return true;
}

template <class T>
void scan(const std::byte* bytes, int64_t count, bool with_stats, RowSummary& out) {
  for (int64_t c = 0; c < count; ++c) {
    T value;
    std::memcpy(&value, bytes + static_cast<size_t>(c) * sizeof(T), sizeof(T));
    if (!is_finite(value)) {
      if (out.nonfinite++ == 0) out.first_nonfinite = c;
      continue;
    }
    if (!with_stats) continue;
    const auto x = static_cast<double>(value);
    out.min = out.finite == 0 ? x : std::min(out.min, x);
    out.max = out.finite == 0 ? x : std::max(out.max, x);
    out.sum += x;
    out.square_sum += x * x;
    out.finite += 1;
  }
}

/// Whether all are finite, in a loop that vectorizes.
bool all_finite(const std::byte* bytes, int64_t count) {
  uint32_t bad = 0;
  for (int64_t c = 0; c < count; ++c) {
    uint32_t bits;
    std::memcpy(&bits, bytes + static_cast<size_t>(c) * sizeof bits, sizeof bits);
    bad |= (bits & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  }
  return bad == 0;
}

void scan_row(const RowsView& values, int64_t row, bool with_stats, RowSummary& out) {
  const std::byte* bytes = values.at(row, 0);
  switch (values.dtype) {
    case DType::kF32:
      if (with_stats || !all_finite(bytes, values.cols)) {
        scan<float>(bytes, values.cols, with_stats, out);
      }
      return;
    case DType::kF64:
      return scan<double>(bytes, values.cols, with_stats, out);
    case DType::kI32:
      if (with_stats) scan<int32_t>(bytes, values.cols, true, out);
      return;
    case DType::kI64:
      if (with_stats) scan<int64_t>(bytes, values.cols, true, out);
      return;
    default:
      check(false, "an event has elements of a type that the table does not know");
  }
}

}  // namespace

DigestPlan digest_plan(const Event& event, const ModelConfig& config,
                       const ParameterTable& parameters) {
  const EventSpec* spec = find_event(event);
  check(spec != nullptr, "an event is not in the table");
  std::vector<int64_t> dims, cuts;
  if (is_parameter(spec->kind)) {
    const auto p = std::ranges::find(parameters.list, event.tensor, &Parameter::name);
    check(p != parameters.list.end(), "an event names a parameter that the model does not have");
    if (!p->is_vector()) dims.push_back(p->rows);
    dims.push_back(p->cols);
    cuts = row_cuts(spec->width, config);
  } else if (spec->width != Width::kOne) {
    dims.push_back(row_width(spec->width, config));
    cuts = row_cuts(spec->width, config);
  }
  return {TensorId(digest_name(event), dtype_of(spec->kind), dims), dims, cuts};
}

RowSummary summarize_row(const DigestPlan& plan, const RowsView& values, int64_t row,
                         std::span<const uint64_t> coordinates, bool with_stats) {
  RowSummary out;
  scan_row(values, row, with_stats, out);
  if (out.nonfinite > 0) return out;
  std::array<uint64_t, 3> at{};
  std::ranges::copy(coordinates, at.begin());
  // Parameters are always told their column; tokens where the row is cut.
  const bool column = coordinates.size() == 1 || !plan.cuts.empty();
  const auto key = std::span(at).first(coordinates.size() + (column ? 1 : 0));
  for (size_t i = 0; i <= plan.cuts.size(); ++i) {
    const int64_t begin = i == 0 ? 0 : plan.cuts[i - 1];
    const int64_t end = i == plan.cuts.size() ? values.cols : plan.cuts[i];
    at[coordinates.size()] = static_cast<uint64_t>(begin);
    out.digest += digest_block(
        plan.id, key,
        {values.at(row, begin), static_cast<size_t>(end - begin) * size_of(values.dtype)});
  }
  return out;
}

void Summing::add(const RowSummary& row, const Element& at) {
  out_.digest += row.digest;
  if (row.nonfinite > 0) {
    if (out_.nonfinite.count == 0) {
      out_.nonfinite.first = {at.sample, at.row, row.first_nonfinite};
    }
    out_.nonfinite.count += row.nonfinite;
  }
  if (row.finite == 0) return;
  range_.min = finite_ == 0 ? row.min : std::min(range_.min, row.min);
  range_.max = finite_ == 0 ? row.max : std::max(range_.max, row.max);
  sum_ += row.sum;
  square_sum_ += row.square_sum;
  finite_ += row.finite;
}

TensorSummary Summing::result(bool with_stats) const {
  TensorSummary out = out_;
  if (with_stats && finite_ > 0) {
    const auto n = static_cast<double>(finite_);
    out.stats = {range_.min, range_.max, sum_ / n, std::sqrt(square_sum_ / n)};
  }
  return out;
}

}  // namespace rlreplay::engine
