#include "src/replay/exchange/data_difference.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <set>

#include "format/group_io.h"
#include "format/partial_read.h"
#include "format/unit.h"
#include "src/replay/exchange/sample_table.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::UnitRecord;

/// A float's place on the line of all floats of its width.
template <class Float, class Bits>
std::optional<uint64_t> distance(Float a, Float b) {
  const auto bits_a = std::bit_cast<Bits>(a);
  const auto bits_b = std::bit_cast<Bits>(b);
  if (bits_a == bits_b) return 0;
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  const auto magnitude = [](Bits bits) { return static_cast<uint64_t>(bits & ~kSign); };
  if ((bits_a & kSign) == (bits_b & kSign)) {
    const uint64_t x = magnitude(bits_a);
    const uint64_t y = magnitude(bits_b);
    return x > y ? x - y : y - x;
  }
  return magnitude(bits_a) + magnitude(bits_b) + 1;
}

template <class T>
std::string text_of(T value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class T>
constexpr bool is_float = std::is_same_v<T, float> || std::is_same_v<T, double>;

/// Which units of a kind hold a group.
using Units = std::vector<const UnitRecord*>;
using Groups = std::map<std::pair<int64_t, int64_t>, Units>;

/// "3" as (3, -1), "3-0" as (3, 0).
std::optional<std::pair<int64_t, int64_t>> group_number(const std::string& group) {
  const size_t dash = group.find('-', 1);
  const auto number = [](std::string_view text) -> std::optional<int64_t> {
    int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
    return value;
  };
  const auto rollout = number(std::string_view(group).substr(0, dash));
  if (!rollout) return std::nullopt;
  if (dash == group.npos) return std::pair(*rollout, int64_t{-1});
  const auto step = number(std::string_view(group).substr(dash + 1));
  if (!step) return std::nullopt;
  return std::pair(*rollout, *step);
}

Groups groups_of(const DumpReader& dump) {
  Groups groups;
  for (const UnitRecord& unit : dump.units()) {
    const std::string_view kind = format::kind_of(unit.path);
    if (kind != "rollout" && kind != "train") continue;
    for (const std::string& group : unit.groups) {
      if (const auto number = group_number(group)) groups[*number].push_back(&unit);
    }
  }
  for (auto& [group, units] : groups) {
    std::sort(units.begin(), units.end(), [](const UnitRecord* x, const UnitRecord* y) {
      return format::rank_of(x->path) < format::rank_of(y->path);
    });
  }
  return groups;
}

bool same_units(const Units& a, const Units& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const UnitRecord* x, const UnitRecord* y) { return x->content == y->content; });
}

class Comparer {
 public:
  Comparer(const DumpReader& a, const DumpReader& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options) {}

  DataDifference run() {
    const Groups in_a = groups_of(a_);
    const Groups in_b = groups_of(b_);
    std::set<std::pair<int64_t, int64_t>> all;
    for (const auto& [group, units] : in_a) all.insert(group);
    for (const auto& [group, units] : in_b) all.insert(group);
    for (const auto& group : all) {
      const auto a = in_a.find(group);
      const auto b = in_b.find(group);
      rollout_id_ = group.first;
      step_id_ = group.second < 0 ? std::nullopt : std::optional(group.second);
      if (a == in_a.end() || b == in_b.end()) {
        made_.only.push_back(name() + " is only in " + (b == in_b.end() ? "A" : "B"));
        continue;
      }
      ++made_.groups;
      if (same_units(a->second, b->second)) {
        ++made_.groups_equal;
      } else {
        compare_group(a->second, b->second);
      }
    }
    made_.identical = made_.only.empty();
    for (const FieldDifference& field : made_.fields) {
      made_.identical = made_.identical && field.is_equal();
    }
    return std::move(made_);
  }

 private:
  std::string name() const {
    const std::string rollout = "rollout " + std::to_string(rollout_id_);
    return step_id_ ? "step " + std::to_string(*step_id_) + " of " + rollout : rollout;
  }

  std::string group() const {
    return std::to_string(rollout_id_) + (step_id_ ? "-" + std::to_string(*step_id_) : "");
  }

  void compare_group(Units a, Units b) {
    if (step_id_ && a.size() == b.size()) drop_equal_ranks(a, b);
    std::vector<Opened> left, right;
    for (const UnitRecord* unit : a) left.push_back(open(a_, *unit));
    for (const UnitRecord* unit : b) right.push_back(open(b_, *unit));
    std::vector<std::string> equal;
    if (left.size() == 1 && right.size() == 1) equal = equal_columns(left.front(), right.front());
    made_.datasets_equal += equal.size();
    if (step_id_) return compare_steps(left, right, equal);
    const auto data_a = read_rollout(a_, left.front(), equal);
    const auto data_b = read_rollout(b_, right.front(), equal);
    compare(SampleTable::of(data_a), SampleTable::of(data_b));
  }

  /// A unit in memory, and whether it holds more of the group than events.
  struct Opened {
    format::UnitReader unit;
    int64_t rank;
  };

  Opened open(const DumpReader& dump, const UnitRecord& record) {
    made_.bytes_read += record.size;
    return {dump.open_unit(record), format::rank_of(record.path)};
  }

  /// Ranks that hold the same in both dumps.
  static void drop_equal_ranks(Units& a, Units& b) {
    std::set<int64_t> equal;
    for (const UnitRecord* x : a) {
      for (const UnitRecord* y : b) {
        const bool same_rank = format::rank_of(x->path) == format::rank_of(y->path);
        if (same_rank && x->content == y->content) equal.insert(format::rank_of(x->path));
      }
    }
    const auto drop = [&](const UnitRecord* unit) {
      return equal.contains(format::rank_of(unit->path));
    };
    std::erase_if(a, drop);
    std::erase_if(b, drop);
  }

  /// Names of optional columns whose bytes are equal in both units, where their rows are.
  std::vector<std::string> equal_columns(const Opened& a, const Opened& b) const {
    const auto equal = [&](const std::string& name) {
      const auto *x = a.unit.find(group() + "/" + name), *y = b.unit.find(group() + "/" + name);
      if (x == nullptr || y == nullptr) return x == y;
      return x->hash == y->hash && x->dtype == y->dtype && x->shape == y->shape;
    };
    std::vector<std::string> out;
    if (!equal("sample_id") || !equal("offsets") || !equal("prompt_length")) return out;
    const auto add = [&](const std::string& name) {
      const bool there = a.unit.find(group() + "/" + name) != nullptr;
      const bool companions =
          equal(format::presence_name(name)) && equal(format::offsets_name(name));
      if (there && equal(name) && companions) out.push_back(name);
    };
    for (const char* name : {"loss_mask", "rewards", "token_weights", "group_id", "finish",
                             "prompt_text", "response_text", "label_text"}) {
      add(name);
    }
    for (const format::TokenColumnField& field : format::kTokenColumnFields) {
      add(std::string(field.name));
    }
    if (step_id_) add("tokens");  // a rollout is not read without
    return out;
  }

  void compare_steps(const std::vector<Opened>& left, const std::vector<Opened>& right,
                     const std::vector<std::string>& equal) {
    const auto data_a = read_ranks(a_, left, equal), data_b = read_ranks(b_, right, equal);
    ranks_.clear();
    note_ranks(data_a, left);
    note_ranks(data_b, right);
    compare(SampleTable::of(data_a), SampleTable::of(data_b));
    compare_scalars(data_a, data_b);
    ranks_.clear();
  }

  format::RolloutData read_rollout(const DumpReader& dump, const Opened& from,
                                   const std::vector<std::string>& equal) const {
    if (from.unit.find(group() + "/sample_id") == nullptr) return {};  // events alone
    return read_rollout_data(dump, from.unit, group(), equal);
  }

  std::vector<format::TrainData> read_ranks(const DumpReader& dump, const std::vector<Opened>& from,
                                            const std::vector<std::string>& equal) const {
    std::vector<format::TrainData> ranks;
    for (const Opened& opened : from) {
      const bool events_alone = opened.unit.find(group() + "/sample_id") == nullptr;
      ranks.push_back(events_alone ? format::TrainData{}
                                   : read_train_data(dump, opened.unit, group(), equal));
    }
    return ranks;
  }

  void note_ranks(const std::vector<format::TrainData>& ranks, const std::vector<Opened>& from) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      for (const uint64_t id : ranks[r].sample_id) ranks_.emplace(id, from[r].rank);
    }
  }

  void compare(const SampleTable& a, const SampleTable& b) {
    compare_ids(a, b);
    for (size_t f = 0; f < a.fields().size(); ++f) {
      for (const auto& [id, row_a] : a.rows()) {
        const auto row_b = b.rows().find(id);
        if (row_b == b.rows().end()) continue;
        sample_ = id;
        compare_cells(a.fields()[f].name, a.fields()[f].values(row_a),
                      b.fields()[f].values(row_b->second));
      }
    }
  }

  void compare_ids(const SampleTable& a, const SampleTable& b) {
    const std::string name = step_id_ ? "train/samples" : "rollout/samples";
    const auto missing = [&](const SampleTable& from, const SampleTable& other, bool in_a) {
      for (const auto& [id, row] : from.rows()) {
        if (other.rows().contains(id)) continue;
        sample_ = id;
        FieldDifference& of = field(name);
        ++of.missing;
        note(of, std::nullopt, in_a ? "there" : "", in_a ? "" : "there", std::nullopt);
      }
    };
    missing(a, b, true);
    missing(b, a, false);
  }

  void compare_cells(const std::string& name, const std::optional<FieldValues>& a,
                     const std::optional<FieldValues>& b) {
    if (!a && !b) return;
    FieldDifference& of = field(name);
    if (!a || !b) {
      ++of.missing;
      return note(of, std::nullopt, a ? "recorded" : "", b ? "recorded" : "", std::nullopt);
    }
    std::visit([&](auto x, auto y) { compare_lists(of, *a, x, y); }, a->values, b->values);
  }

  template <class X, class Y>
  void compare_lists(FieldDifference& of, const FieldValues& where, X x, Y y) {
    if constexpr (std::is_same_v<X, std::string_view> || std::is_same_v<Y, std::string_view>) {
      if constexpr (std::is_same_v<X, Y>) compare_texts(of, x, y);
    } else {
      const double tolerance = tolerance_of(of.field);
      const size_t both = std::min(x.size(), y.size());
      of.compared += both;
      for (size_t i = 0; i < both; ++i) compare_values(of, where, i, x[i], y[i], tolerance);
      if (x.size() == y.size()) return;
      of.different += std::max(x.size(), y.size()) - both;
      note(of, place(where, both), x.size() > both ? text_of(x[both]) : "",
           y.size() > both ? text_of(y[both]) : "", std::nullopt);
    }
  }

  static std::optional<uint64_t> place(const FieldValues& where, size_t i) {
    return where.token ? std::optional(*where.token + i) : std::nullopt;
  }

  void compare_texts(FieldDifference& of, std::string_view a, std::string_view b) {
    ++of.compared;
    if (a == b) return;
    ++of.different;
    note(of, std::nullopt, std::string(a), std::string(b), std::nullopt);
  }

  template <class X, class Y>
  void compare_values(FieldDifference& of, const FieldValues& where, size_t i, X x, Y y,
                      double tolerance) {
    std::optional<uint64_t> ulps;
    if constexpr (is_float<X> && std::is_same_v<X, Y>) {
      ulps = ulps_between(x, y);
      if (ulps == 0u) return;
    } else if constexpr (std::is_same_v<X, Y>) {
      if (x == y) return;
    } else {
      if (static_cast<double>(x) == static_cast<double>(y)) return;
    }
    const double apart = std::abs(static_cast<double>(x) - static_cast<double>(y));
    if (apart <= tolerance) return;
    ++of.different;
    if (apart > of.max_difference) of.max_difference = apart;  // not where one is NaN
    if constexpr (is_float<X>) {
      const size_t last = of.ulps.size() - 1;
      const size_t bucket = ulps ? static_cast<size_t>(std::bit_width(*ulps)) - 1 : last;
      ++of.ulps[std::min(bucket, last)];
    }
    note(of, place(where, i), text_of(x), text_of(y), ulps);
  }

  void compare_scalars(const std::vector<format::TrainData>& a,
                       const std::vector<format::TrainData>& b) {
    const auto find = [](const std::vector<format::TrainData>& ranks) {
      std::map<std::string, double> found;
      for (const format::TrainData& data : ranks) {
        if (!data.scalars) continue;
        for (size_t i = 0; i < data.scalars->names.size(); ++i) {
          found.emplace(data.scalars->names[i], data.scalars->values[i]);
        }
      }
      return found;
    };
    const auto right = find(b);
    for (const auto& [name, value] : find(a)) {
      const auto other = right.find(name);
      if (other == right.end()) continue;
      FieldDifference& of = field("train/" + name);
      ++of.compared;
      sample_.reset();
      compare_values(of, {}, 0, value, other->second, tolerance_of(of.field));
    }
  }

  double tolerance_of(const std::string& name) const {
    auto it = options_.tolerance.find(name);
    if (it == options_.tolerance.end()) {
      it = options_.tolerance.find(name.substr(name.find('/') + 1));
    }
    return it == options_.tolerance.end() ? 0 : it->second;
  }

  FieldDifference& field(const std::string& name) {
    for (FieldDifference& known : made_.fields) {
      if (known.field == name) return known;
    }
    FieldDifference fresh;
    fresh.field = name;
    return made_.fields.emplace_back(std::move(fresh));
  }

  void note(FieldDifference& of, std::optional<uint64_t> token, std::string a, std::string b,
            std::optional<uint64_t> ulps) {
    if (of.first && made_.first) return;
    const ValueDifference difference{rollout_id_,  step_id_,     sample_, token,
                                     std::move(a), std::move(b), ulps,    rank()};
    if (!of.first) of.first = difference;
    if (made_.first) return;
    made_.first = difference;
    made_.first_field = of.field;
  }

  std::optional<int64_t> rank() const {
    const auto at = sample_ ? ranks_.find(*sample_) : ranks_.end();
    return at == ranks_.end() ? std::nullopt : std::optional(at->second);
  }

  const DumpReader& a_;
  const DumpReader& b_;
  const DiffOptions& options_;
  std::map<uint64_t, int64_t> ranks_;  // of the step's samples
  DataDifference made_;
  int64_t rollout_id_ = 0;
  std::optional<int64_t> step_id_;
  std::optional<uint64_t> sample_;
};

}  // namespace

std::optional<uint64_t> ulps_between(float a, float b) { return distance<float, uint32_t>(a, b); }
std::optional<uint64_t> ulps_between(double a, double b) {
  return distance<double, uint64_t>(a, b);
}

DataDifference compare_data(const DumpReader& a, const DumpReader& b, const DiffOptions& options) {
  return Comparer(a, b, options).run();
}

}  // namespace rlreplay::replay
