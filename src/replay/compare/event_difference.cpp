#include "src/replay/compare/event_difference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/events/event_rows.h"
#include "src/events/name.h"

namespace rlreplay::replay {
namespace {

using engine::Element;
using engine::EventRecord;
using engine::StepEvents;

bool is_signed(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

/// Bits of the fraction and of the exponent of the short floats; nothing of other types.
struct ShortFloat {
  int fraction = 0;
  int exponent = 0;
};
std::optional<ShortFloat> short_float(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return ShortFloat{10, 5};
    case DType::kBF16:
      return ShortFloat{7, 8};
    case DType::kF8E4M3:
      return ShortFloat{3, 4};
    case DType::kF8E5M2:
      return ShortFloat{2, 5};
    default:
      return std::nullopt;
  }
}

double value_of(const ShortFloat& form, DType dtype, uint64_t bits) {
  const int64_t fraction = static_cast<int64_t>(bits) & ((1 << form.fraction) - 1);
  const int64_t most = (1 << form.exponent) - 1;
  const int64_t exponent = static_cast<int64_t>(bits >> form.fraction) & most;
  const bool negative = (bits >> (form.fraction + form.exponent) & 1) != 0;
  const int bias = static_cast<int>(most / 2);
  double out = 0;
  if (dtype == DType::kF8E4M3 ? exponent == most && fraction == 7 : exponent == most) {
    const bool infinite = dtype != DType::kF8E4M3 && fraction == 0;
    out = infinite ? std::numeric_limits<double>::infinity()
                   : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    out = std::ldexp(static_cast<double>(fraction), 1 - bias - form.fraction);
  } else {
    out = std::ldexp(static_cast<double>(fraction + (int64_t{1} << form.fraction)),
                     static_cast<int>(exponent) - bias - form.fraction);
  }
  return negative ? -out : out;
}

/// Where a short float stands among all of its type; both zeros are one place.
int64_t rank_of(const ShortFloat& form, uint64_t bits) {
  const int64_t magnitude =
      static_cast<int64_t>(bits) & ((int64_t{1} << (form.fraction + form.exponent)) - 1);
  return (bits >> (form.fraction + form.exponent) & 1) != 0 ? -magnitude : magnitude;
}

float float_of(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

std::optional<int64_t> steps_between(const RecordedValue& a, const RecordedValue& b) {
  if (a.dtype == DType::kF32) return ulp_distance(float_of(a.bits), float_of(b.bits));
  if (a.dtype == DType::kF64) {
    return ulp_distance(std::bit_cast<double>(a.bits), std::bit_cast<double>(b.bits));
  }
  if (const auto form = short_float(a.dtype)) {
    if (std::isnan(a.number()) || std::isnan(b.number())) return {};
    return rank_of(*form, b.bits) - rank_of(*form, a.bits);
  }
  int64_t distance = 0;
  if (a.dtype == DType::kU64 && std::max(a.bits, b.bits) >> 63 != 0) return {};
  const auto from = static_cast<int64_t>(a.bits), to = static_cast<int64_t>(b.bits);
  if (__builtin_sub_overflow(to, from, &distance)) return {};
  return distance;
}

/// The places of a record's rows, ascending.
std::vector<Element> places(const StepEvents& events, const EventRecord& record) {
  std::vector<Element> out;
  out.reserve(static_cast<size_t>(record.rows));
  if (record.row_set < 0) {
    for (int64_t row = 0; row < record.rows; ++row) out.push_back({0, row, 0});
    return out;
  }
  for (const engine::RowRun& run : events.row_sets[static_cast<size_t>(record.row_set)]) {
    for (int64_t i = 0; i < run.count; ++i) out.push_back({run.sample, run.position + i, 0});
  }
  return out;
}

/// A place and its row in both records, -1 where one lacks it.
struct Pair {
  Element at;
  int64_t a = -1;
  int64_t b = -1;
};

std::vector<Pair> paired(const std::vector<Element>& a, const std::vector<Element>& b) {
  std::vector<Pair> out;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool in_a = i < a.size() && (j == b.size() || a[i] <= b[j]);
    const bool in_b = j < b.size() && (i == a.size() || b[j] <= a[i]);
    Pair pair{in_a ? a[i] : b[j], -1, -1};
    if (in_a) pair.a = static_cast<int64_t>(i++);
    if (in_b) pair.b = static_cast<int64_t>(j++);
    out.push_back(pair);
  }
  return out;
}

size_t row_bytes(const EventRecord& r) { return static_cast<size_t>(r.cols) * size_of(r.dtype); }

const std::byte* row_data(const EventRecord& r, int64_t row) {
  return r.values.data() + static_cast<size_t>(row) * row_bytes(r);
}

bool has_rows(const EventRecord& a, const EventRecord& b) {
  const bool values = !a.values.empty() && !b.values.empty();
  const bool digests = !a.row_digests.empty() && !b.row_digests.empty();
  return a.cols == b.cols && a.dtype == b.dtype && (values || digests);
}

bool same_row(const EventRecord& a, int64_t row_a, const EventRecord& b, int64_t row_b) {
  if (!a.values.empty() && !b.values.empty()) {
    return std::memcmp(row_data(a, row_a), row_data(b, row_b), row_bytes(a)) == 0;
  }
  return a.row_digests[static_cast<size_t>(row_a)] == b.row_digests[static_cast<size_t>(row_b)];
}

/// Calls use(column, a, b) for the elements of a row that differ.
template <class Use>
void each_difference(const EventRecord& a, int64_t row_a, const EventRecord& b, int64_t row_b,
                     Use use) {
  for (int64_t c = 0; c < a.cols; ++c) {
    const RecordedValue in_a = recorded_value(a, row_a * a.cols + c),
                        in_b = recorded_value(b, row_b * b.cols + c);
    if (in_a.bits != in_b.bits) use(c, in_a, in_b);
  }
}

void count_elements(const EventRecord& a, const EventRecord& b, const Pair& pair,
                    EventDifference& out) {
  each_difference(a, pair.a, b, pair.b, [&](int64_t column, const auto& x, const auto& y) {
    const auto ulps = steps_between(x, y);
    if (!out.first) {
      out.first = {{pair.at.sample, pair.at.row, column}, pair.a * a.cols + column, x, y, ulps};
    }
    out.elements += 1;
    if (!ulps) return;
    const auto distance = static_cast<uint64_t>(std::abs(*ulps));
    out.largest_ulps = std::max(out.largest_ulps.value_or(0), static_cast<int64_t>(distance));
    if (distance > 0) out.ulps_by_power[static_cast<size_t>(std::bit_width(distance)) - 1] += 1;
  });
}

bool same_stats(const EventRecord& a, const EventRecord& b) {
  if (!a.stats || !b.stats) return true;
  const auto same = [&](double engine::Stats::*field) {
    return same_value(*a.stats.*field, *b.stats.*field);
  };
  return same(&engine::Stats::min) && same(&engine::Stats::max) && same(&engine::Stats::mean) &&
         same(&engine::Stats::rms);
}

}  // namespace

RecordedValue recorded_value(const EventRecord& event, int64_t index) {
  RecordedValue out{event.dtype, 0};
  const size_t size = size_of(event.dtype);
  std::memcpy(&out.bits, event.values.data() + static_cast<size_t>(index) * size, size);
  const auto shift = static_cast<int>(64 - 8 * size);
  if (is_signed(event.dtype)) {
    out.bits = static_cast<uint64_t>(static_cast<int64_t>(out.bits << shift) >> shift);
  }
  return out;
}

double RecordedValue::number() const {
  if (dtype == DType::kF32) return static_cast<double>(float_of(bits));
  if (dtype == DType::kF64) return std::bit_cast<double>(bits);
  if (const auto form = short_float(dtype)) return value_of(*form, dtype, bits);
  if (dtype == DType::kE8M0) {
    return bits == 255 ? std::numeric_limits<double>::quiet_NaN()
                       : std::ldexp(1.0, static_cast<int>(bits) - 127);
  }
  if (dtype == DType::kU64) return static_cast<double>(bits);
  return static_cast<double>(static_cast<int64_t>(bits));
}

std::string RecordedValue::hex_bits() const {
  return hex(bits, static_cast<int>(2 * size_of(dtype)));
}

std::string RecordedValue::text() const {
  if (dtype == DType::kF32) return shortest(float_of(bits));
  if (dtype == DType::kF64) return shortest(std::bit_cast<double>(bits));
  if (short_float(dtype) || dtype == DType::kE8M0) return shortest(number());
  if (dtype == DType::kU64) return std::to_string(bits);
  return std::to_string(static_cast<int64_t>(bits));
}

std::vector<EventPair> paired_events(const StepEvents& a, const StepEvents& b) {
  std::map<engine::EventOrder, EventPair> both;
  std::map<engine::Event, size_t> named;
  std::vector<EventPair> others;  // of other tables, in stored order
  const auto add = [&](const StepEvents& events, const EventRecord* EventPair::*side) {
    for (const EventRecord& r : events.events) {
      if (!is_named(r.event)) {
        both[event_order(r.event)].*side = &r;
        continue;
      }
      const auto [at, fresh] = named.emplace(r.event, others.size());
      if (fresh) others.emplace_back();
      others[at->second].*side = &r;
    }
  };
  add(a, &EventPair::first);
  add(b, &EventPair::second);
  std::vector<EventPair> out;
  for (const auto& [order, pair] : both) out.push_back(pair);
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

std::optional<EventDifference> compare_event(const StepEvents& a, const EventRecord& in_a,
                                             const StepEvents& b, const EventRecord& in_b) {
  if (in_a.same_value(in_b)) return {};
  EventDifference out;
  out.event = in_b.event;
  out.rank = in_b.rank;
  out.per_token = in_b.row_set >= 0;
  if (!has_rows(in_a, in_b) || (in_a.row_set < 0) != (in_b.row_set < 0)) return out;
  const bool values = !in_a.values.empty() && !in_b.values.empty();
  for (const Pair& pair : paired(places(a, in_a), places(b, in_b))) {
    const bool both = pair.a >= 0 && pair.b >= 0;
    if (both && same_row(in_a, pair.a, in_b, pair.b)) continue;
    out.rows.push_back(pair.at);
    if (both && values) count_elements(in_a, in_b, pair, out);
  }
  // A difference that the rows do not show (numbers that are not finite) may be in any of them.
  out.rows_known = !out.rows.empty();
  return out;
}

std::optional<EventDifference::Value> first_value_in(const StepEvents& a, const EventRecord& in_a,
                                                     const StepEvents& b, const EventRecord& in_b,
                                                     const Element& row) {
  if (in_a.values.empty() || in_b.values.empty() || in_a.cols != in_b.cols) return {};
  const auto find = [&](const StepEvents& events, const EventRecord& record) {
    if (record.row_set < 0) return row.row < record.rows ? row.row : -1;
    return index_of(events.row_sets[static_cast<size_t>(record.row_set)], row.sample, row.row);
  };
  const int64_t row_a = find(a, in_a), row_b = find(b, in_b);
  if (row_a < 0 || row_b < 0) return {};
  std::optional<EventDifference::Value> out;
  each_difference(in_a, row_a, in_b, row_b, [&](int64_t column, const auto& x, const auto& y) {
    if (out) return;
    out = {{row.sample, row.row, column}, row_a * in_a.cols + column, x, y, steps_between(x, y)};
  });
  return out;
}

int detail_of(const EventRecord& r) {
  return int{r.row_set >= 0} + int{!r.values.empty()} + int{!r.row_digests.empty()} +
         int{r.stats.has_value()};
}

std::string differing_part(const StepEvents& a, const EventRecord& in_a, const StepEvents& b,
                           const EventRecord& in_b) {
  const auto rows = [](const StepEvents& events, const EventRecord& r) {
    return events.row_sets[static_cast<size_t>(r.row_set)];
  };
  const auto differ = [](const auto& x, const auto& y) {
    return !x.empty() && !y.empty() && x != y;
  };
  if (!in_a.same_value(in_b)) return "digest";
  if (in_a.row_set >= 0 && in_b.row_set >= 0 && rows(a, in_a) != rows(b, in_b)) return "rows";
  if (differ(in_a.values, in_b.values)) return "values";
  if (differ(in_a.row_digests, in_b.row_digests)) return "digests of rows";
  return same_stats(in_a, in_b) ? "" : "statistics";
}

}  // namespace rlreplay::replay
