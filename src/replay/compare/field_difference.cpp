#include "src/replay/compare/field_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <type_traits>

#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::replay {
namespace {

template <class T>
constexpr bool is_text = std::is_same_v<T, std::string_view>;

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

/// The distance of two floats in ulps; nothing for numbers on both sides of zero, of which billions
/// of ulps say nothing.
template <class X, class Y>
std::optional<uint64_t> ulps_of(X x, Y y) {
  if constexpr (std::is_floating_point_v<X> && std::is_same_v<X, Y>) {
    const bool across = std::signbit(x) != std::signbit(y) && !(x == y);
    const auto ulps = across ? std::nullopt : ulp_distance(x, y);
    if (ulps) return static_cast<uint64_t>(std::abs(*ulps));
  }
  return std::nullopt;
}

/// Bucket i: distances in [2^i, 2^(i+1)) ulps; the last also has those beyond, and what has none.
void count_ulps(FieldDifference& of, const std::optional<uint64_t>& ulps) {
  const size_t last = of.ulps.size() - 1;
  if (ulps == 0u) return;  // zeros of different sign
  const size_t bucket = ulps ? static_cast<size_t>(std::bit_width(*ulps)) - 1 : last;
  ++of.ulps[std::min(bucket, last)];
}

/// Rows of named columns, by name.
std::map<std::string, std::vector<double>> by_column(const std::optional<FieldValues>& of) {
  std::map<std::string, std::vector<double>> out;
  if (!of || of->columns == nullptr) return out;
  const auto values = std::get<std::span<const double>>(of->values);
  const std::vector<std::string>& names = *of->columns;
  for (const std::string& name : names) out[name];
  for (size_t i = 0; i < values.size(); ++i) out[names[i % names.size()]].push_back(values[i]);
  return out;
}

}  // namespace

bool is_unrecorded(const std::string& field, const ValueDifference& at) {
  return field.ends_with("/events") && at.a.empty() != at.b.empty();
}

std::string place_text(const ValueDifference& at) {
  std::string out = "rollout " + std::to_string(at.rollout_id);
  if (at.step_id) out += ", step " + std::to_string(*at.step_id);
  if (at.rank) out += ", rank " + std::to_string(*at.rank);
  if (at.sample) out += ", sample " + std::to_string(*at.sample);
  if (at.token) out += ", token " + std::to_string(*at.token);
  return out;
}

FieldDifference& FieldComparison::field(const std::string& name, bool judged) {
  const auto [at, added] = by_name_.emplace(name, fields.size());
  if (!added) return fields[at->second];
  FieldDifference fresh;
  fresh.field = name;
  fresh.judged = judged;
  return fields.emplace_back(std::move(fresh));
}

void FieldComparison::compare(FieldDifference& of, const std::optional<FieldValues>& a,
                              const std::optional<FieldValues>& b) {
  if (!a && !b) return;
  if (!a || !b) return missing(of, a.has_value(), "recorded");
  std::visit([&](auto x, auto y) { compare_lists(of, *a, x, y); }, a->values, b->values);
}

void FieldComparison::compare_columns(const std::string& name, const std::optional<FieldValues>& a,
                                      const std::optional<FieldValues>& b) {
  const auto in_a = by_column(a), in_b = by_column(b);
  std::set<std::string> columns;
  for (const auto* side : {&in_a, &in_b}) {
    for (const auto& [column, values] : *side) columns.insert(column);
  }
  const auto values_of = [](const auto& side, const std::string& column) {
    const auto at = side.find(column);
    return at == side.end() ? std::nullopt
                            : std::optional(FieldValues{std::span<const double>(at->second)});
  };
  for (const std::string& column : columns) {
    compare(field(name + "/" + column), values_of(in_a, column), values_of(in_b, column));
  }
}

template <class X, class Y>
void FieldComparison::compare_lists(FieldDifference& of, const FieldValues& where, X x, Y y) {
  if constexpr (is_text<X> && is_text<Y>) {
    ++of.compared;
    if (x != y) differs(of, std::string(x), std::string(y));
  } else if constexpr (is_text<X> || is_text<Y>) {
    ++of.compared;
    differs(of, is_text<X> ? "a text" : "numbers", is_text<Y> ? "a text" : "numbers");
  } else if constexpr (std::is_floating_point_v<typename X::value_type> !=
                       std::is_floating_point_v<typename Y::value_type>) {
    ++of.compared;
    constexpr bool is_float = std::is_floating_point_v<typename X::value_type>;
    differs(of, is_float ? "floats" : "integers", is_float ? "integers" : "floats");
  } else {
    const size_t both = std::min(x.size(), y.size()), most = std::max(x.size(), y.size());
    of.compared += most;
    for (size_t i = 0; i < both; ++i) {
      compare_values(of, where.token ? std::optional(*where.token + i) : std::nullopt, x[i], y[i]);
    }
    if (both == most) return;
    of.different += most - both;
    ValueDifference found = place_;
    if (where.token) found.token = *where.token + both;
    if (x.size() > both) found.a = shortest(x[both]);
    if (y.size() > both) found.b = shortest(y[both]);
    note(of, std::move(found));
  }
}

template <class X, class Y>
void FieldComparison::compare_values(FieldDifference& of, std::optional<uint64_t> token, X x, Y y) {
  of.nan += is_nan(x) || is_nan(y);
  if (same_value(x, y)) return;
  const double apart = std::abs(static_cast<double>(x) - static_cast<double>(y));
  const double tolerance = tolerance_of(of.field);
  if (tolerance > 0 && apart <= tolerance) {
    ++of.tolerated;
    return;
  }
  ++of.different;
  if (apart > of.max_difference) of.max_difference = apart;  // not where one is NaN
  const auto ulps = ulps_of(x, y);
  if constexpr (std::is_floating_point_v<X>) count_ulps(of, ulps);
  if (of.first && first) return;
  ValueDifference found = place_;
  if (token) found.token = token;
  found.a = shortest(x);
  found.b = shortest(y);
  found.apart = apart;
  found.ulps = ulps;
  note(of, std::move(found));
}

void FieldComparison::missing(FieldDifference& of, bool in_a, const std::string& what) {
  ++of.missing;
  ValueDifference found = place_;
  (in_a ? found.a : found.b) = what;
  note(of, std::move(found));
}

void FieldComparison::missing_part(FieldDifference& of, const std::string& a,
                                   const std::string& b) {
  ++of.missing;
  ValueDifference found = place_;
  found.a = a;
  found.b = b;
  note(of, std::move(found));
}

void FieldComparison::differs(FieldDifference& of, const std::string& a, const std::string& b) {
  ++of.different;
  ValueDifference found = place_;
  found.a = a;
  found.b = b;
  note(of, std::move(found));
}

double FieldComparison::tolerance_of(const std::string& name) const {
  // A tolerance may leave out what stands before the first slash, and may be for all columns of it.
  const size_t kind = name.find('/'), column = name.find('/', kind + 1);
  for (const std::string& whole : {name, name.substr(0, column)}) {
    for (const std::string& text : {whole, whole.substr(kind + 1)}) {
      if (const auto it = tolerances_.find(text); it != tolerances_.end()) return it->second;
    }
  }
  return 0;
}

void FieldComparison::note(FieldDifference& of, ValueDifference difference) {
  const bool says_more = !is_unrecorded(of.field, difference);
  const auto stays = [&](const std::string& field, const std::optional<ValueDifference>& known) {
    return known && !(says_more && is_unrecorded(field, *known));
  };
  if (!stays(of.field, of.first)) of.first = difference;
  if (stays(first_field, first)) return;
  first = std::move(difference);
  first_field = of.field;
}

}  // namespace rlreplay::replay
