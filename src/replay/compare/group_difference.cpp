#include "src/replay/compare/group_difference.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

#include "format/columns.h"
#include "format/meaning.h"
#include "format/train_ranks.h"
#include "format/unit.h"
#include "src/replay/compare/group_tensors.h"
#include "src/replay/compare/rank_difference.h"
#include "src/replay/compare/sample_table.h"
#include "src/replay/compare/stored_text.h"

namespace rlreplay::replay {
namespace {

using format::UnitReader;
using Fields = std::map<std::string, Hash>;

constexpr uint64_t kRowBytes = 128;  // of a sample in a SampleTable and beside it, by its id

/// Names of the fields whose hashes differ, or that only one has.
std::vector<std::string> differing(const Fields& a, const Fields& b) {
  std::vector<std::string> out;
  const auto other = [](const Fields& fields, const auto& field) {
    const auto at = fields.find(field.first);
    return at == fields.end() || at->second != field.second;
  };
  for (const auto& field : a) {
    if (other(b, field)) out.push_back(field.first);
  }
  for (const auto& field : b) {
    if (!a.contains(field.first)) out.push_back(field.first);
  }
  std::ranges::sort(out);
  return out;
}

std::vector<format::RolloutData> read_rollouts(const ContentGroup& group, const GroupUnits& from,
                                               format::HeldBytes& held) {
  std::vector<format::RolloutData> out;
  for (const UnitReader& unit : from.units) {
    if (holds_events_alone(unit, group.name)) continue;
    out.push_back(read_rollout_data(from.dump, unit, group.name, &held));
    held.hold(unit.record(), group.name, out.back().size() * kRowBytes);
  }
  return out;
}

std::vector<format::TrainRank> read_ranks(const ContentGroup& group, const GroupUnits& from,
                                          format::HeldBytes& held) {
  std::vector<format::TrainRank> ranks;
  for (const UnitReader& unit : from.units) {
    if (unit.find(group.name + "/sample_id") == nullptr) continue;
    ranks.push_back({read_train_data(from.dump, unit, group.name, &held), &unit.record(), {}});
  }
  join_slices(ranks, group.name, held);
  return ranks;
}

/// Codes by their names.
std::optional<FieldValues> named(const std::optional<FieldValues>& finish) {
  const auto* code = finish ? std::get_if<std::span<const uint8_t>>(&finish->values) : nullptr;
  if (code == nullptr || code->empty()) return finish;
  return FieldValues{format::to_string(static_cast<format::Finish>(code->front())), std::nullopt};
}

/// One rollout or step of two dumps: samples and events in their own forms, every other field as a
/// dataset, and last, where nothing of these differs, how the fields are stored.
class GroupComparer {
 public:
  GroupComparer(const ContentGroup& group, const GroupUnits& a, const GroupUnits& b, bool assembled,
                FieldComparison& values)
      : group_(group),
        a_(a),
        b_(b),
        left_(group.kind, group.name, a.dump, a.units),
        right_(group.kind, group.name, b.dump, b.units),
        assembled_(assembled),
        values_(values) {
    if (group.number) place_.rollout_id = group.number->rollout;
    if (group.number) place_.step_id = group.number->step;
  }

  bool run() {
    const uint64_t before = count(), unrecorded = missing_events();
    compare();
    const uint64_t lacking = missing_events() - unrecorded;
    return lacking > 0 && count() - before == lacking;
  }

 private:
  using Counts = std::map<std::string, uint64_t>;

  void compare() {
    values_.at(place_);
    const uint64_t all_before = count();
    const Counts before = counts();
    if (group_.kind == "rollout") compare_rollouts();
    if (group_.kind == "train") compare_steps();
    const std::vector<std::string> fields = differing(a_.fields, b_.fields);
    bool events = false;
    for (const std::string& name : fields) {
      if (name.starts_with("events/")) {
        if (!std::exchange(events, true)) {
          compare_recorded_events(group_, a_, b_, place_, values_);
        }
      } else if (!is_shown(name)) {
        compare_dataset(name);
      }
    }
    // What differs, where none of the forms above shows it.
    const Counts after = counts();
    const bool any = count() != all_before;
    const bool lacks = is_counted("samples", before, after);
    for (const std::string& name : fields) {
      // Samples that one lacks, and what other fields imply, make hashes differ that need no line.
      const bool by_others = lacks || name == "samples" || name == "removed" ||
                             name == "trajectory_tokens" || name.starts_with("events/");
      if (!(by_others ? any : is_counted(name, before, after))) add_unshown(name);
    }
  }

  /// A field that differs and that nothing was counted of.
  void add_unshown(const std::string& name) {
    FieldDifference& of = values_.field(group_.kind + "/" + name, is_judged(name));
    const auto unsaid = unsaid_.find(of.field);
    if (unsaid != unsaid_.end()) {
      for (const auto& [sample, of_a] : unsaid->second) {
        values_.at(place_of(sample));
        values_.missing(of, of_a, "recorded");
      }
      return;
    }
    values_.at(place_);
    ++of.compared;
    const auto [of_a, of_b] = stored_texts(a_, b_, group_.name, name);
    values_.differs(of, of_a, of_b);
  }

  /// How many values of each field were found to differ, to be missing or to be tolerated.
  Counts counts() const {
    Counts out;
    for (const FieldDifference& f : values_.fields) {
      out[f.field] = f.different + f.missing + f.tolerated;
    }
    return out;
  }

  uint64_t count() const {
    uint64_t out = 0;
    for (const FieldDifference& f : values_.fields) out += f.different + f.missing + f.tolerated;
    return out;
  }

  uint64_t missing_events() const {
    uint64_t out = 0;
    for (const FieldDifference& f : values_.fields) {
      if (f.field.ends_with("/events")) out += f.missing;
    }
    return out;
  }

  /// Whether a field of the content that differs was counted under a name that shows it.
  bool is_counted(const std::string& name, const Counts& before, const Counts& after) const {
    const std::string own = name.substr(0, name.find('/'));
    const std::string whole = group_.kind + "/" + name;
    const std::string scalar = "step/" + name.substr(name.find('/') + 1);
    const std::string shown[] = {
        whole, own == "scalars" && group_.kind == "train" ? scalar : group_.kind + "/" + own,
        whole == "rollout/tokens" ? "rollout/prompt" : whole};
    const auto changed = [&](const std::string& field) {
      const auto was = before.find(field), is = after.find(field);
      return is != after.end() && is->second != (was == before.end() ? 0 : was->second);
    };
    if (std::ranges::any_of(shown, changed)) return true;
    const std::string columns = whole + "/";
    for (auto at = after.lower_bound(columns); at != after.end() && at->first.starts_with(columns);
         ++at) {
      if (changed(at->first)) return true;
    }
    return false;
  }

  /// Whether a field of the content is one of columns and scalars, which tolerances are for.
  bool is_judged(const std::string& name) const {
    return group_.kind != "weights" && !name.starts_with("events/");
  }

  /// Whether the samples' fields or the scalars show a field of the content.
  bool is_shown(const std::string& name) const {
    if (group_.kind == "weights") return false;
    if (name == "samples") return true;
    if (name.starts_with("scalars/")) return group_.kind == "train";
    return format::find_known(group_.kind, name) != nullptr;
  }

  void compare_rollouts() {
    const auto left = read_rollouts(group_, a_, held_), right = read_rollouts(group_, b_, held_);
    compare_samples("rollout", SampleTable::of(std::span(left)), SampleTable::of(std::span(right)));
  }

  void compare_steps() {
    const auto read = [&](const GroupUnits& from) {
      std::vector<format::TrainRank> ranks = read_ranks(group_, from, held_);
      std::vector<format::TrainData> out;
      for (format::TrainRank& rank : ranks) {
        held_.hold(*rank.unit, group_.name, rank.data.size() * kRowBytes);
        for (const uint64_t id : rank.data.sample_id) {
          ranks_.emplace(id, format::rank_of(rank.unit->path));
        }
        out.push_back(std::move(rank.data));
      }
      return out;
    };
    const auto left = read(a_), right = read(b_);
    compare_samples("train", SampleTable::of(std::span(left)), SampleTable::of(std::span(right)));
    compare_scalars(group_, a_, b_, place_, values_);
  }

  ValueDifference place_of(uint64_t sample) const {
    ValueDifference out = place_;
    out.sample = sample;
    const auto at = ranks_.find(sample);
    if (at != ranks_.end() && !assembled_) out.rank = at->second;
    return out;
  }

  void compare_samples(const std::string& kind, const SampleTable& a, const SampleTable& b) {
    const auto lacks = [&](const SampleTable& from, const SampleTable& other, bool in_a) {
      for (const auto& [id, row] : from.rows()) {
        if (other.rows().contains(id)) continue;
        values_.at(place_of(id));
        values_.missing(values_.field(kind + "/samples"), in_a, "there");
      }
    };
    lacks(a, b, true);
    lacks(b, a, false);
    for (size_t f = 0; f < a.fields().size(); ++f) {
      for (const auto& [id, row_a] : a.rows()) {
        const auto row_b = b.rows().find(id);
        if (row_b == b.rows().end()) continue;
        auto x = a.fields()[f].values(row_a), y = b.fields()[f].values(row_b->second);
        if (!x && !y) continue;
        const std::string& name = a.fields()[f].name;
        if (!x || !y) unsaid_[name].emplace_back(id, x.has_value());
        if (!x && a.fields()[f].implied) x = a.fields()[f].implied(row_a);
        if (!y && b.fields()[f].implied) y = b.fields()[f].implied(row_b->second);
        values_.at(place_of(id));
        if (name == "rollout/finish") x = named(x), y = named(y);
        if ((x && x->columns != nullptr) || (y && y->columns != nullptr)) {
          values_.compare_columns(name, x, y);
        } else {
          values_.compare(values_.field(name), x, y);
        }
      }
    }
    values_.at(place_);
  }

  /// A dataset of a state, or one that is in none of the tables.
  void compare_dataset(const std::string& name) {
    const bool scalar = name.starts_with("scalars/");
    const std::string part = scalar ? name.substr(8) : name.substr(0, name.find('/'));
    FieldDifference& of = values_.field(group_.kind + "/" + part, is_judged(name));
    ValueDifference place = place_;
    place.tensor = name;
    values_.at(place);
    const bool in_a = a_.fields.contains(name);
    if (in_a != b_.fields.contains(name)) {
      place.rank = (in_a ? left_ : right_).holder(name);
      values_.at(place);
      return values_.missing(of, in_a, "recorded");
    }
    const std::string dataset = scalar ? "scalars" : name;
    const std::string left_shape = left_.shape(name), right_shape = right_.shape(name);
    if (left_shape != right_shape) {
      ++of.compared;
      return values_.differs(of, left_shape, right_shape);
    }
    const uint64_t before = of.different;
    compare_elements(of, dataset);
    if (of.different != before || compare_torn(of, dataset, place)) return;
    ++of.compared;
    const auto [of_a, of_b] = stored_texts(a_, b_, group_.name, name);
    values_.differs(of, of_a, of_b);
  }

  /// Says of a tensor whose units contradict each other, or do not hold all of it, who they are.
  bool compare_torn(FieldDifference& of, const std::string& dataset, ValueDifference place) {
    const auto in_a = left_.find_torn(dataset), in_b = right_.find_torn(dataset);
    if (!in_a && !in_b) return false;
    place.rank = (in_a ? in_a : in_b)->rank;
    values_.at(place);
    const std::string sound = "one value of each element";
    const auto text = [&](const auto& torn) { return torn ? torn->text : sound; };
    const bool lacks = (in_a && in_a->lacks) != (in_b && in_b->lacks);
    if (!lacks || (in_a && in_b)) {
      ++of.compared;
      values_.differs(of, text(in_a), text(in_b));
    } else {
      const std::string contradiction = compare_held(of, dataset, in_a.has_value());
      if (!contradiction.empty()) {
        values_.differs(of, in_a ? contradiction : sound, in_a ? sound : contradiction);
      }
      values_.missing_part(of, text(in_a), text(in_b));
    }
    return true;
  }

  /// A whole tensor, and what the other dump holds of it; returns what that contradicts itself in.
  std::string compare_held(FieldDifference& of, const std::string& dataset, bool lacks_in_a) {
    GroupTensors& part = lacks_in_a ? left_ : right_;
    const auto whole = (lacks_in_a ? right_ : left_).read(dataset);
    if (!whole || part.find_torn(dataset)->dtype != whole->first) return "";
    Buffer<std::byte> held(whole->second.size());
    std::memcpy(held.data(), whole->second.data(), held.size());
    const GroupTensors::Put put = part.put_over(dataset, held);
    const auto all = values_of(whole->first, {whole->second.data(), whole->second.size()});
    const auto some = values_of(whole->first, {held.data(), held.size()});
    const uint64_t compared = of.compared;
    if (all && some) values_.compare(of, lacks_in_a ? some : all, lacks_in_a ? all : some);
    of.compared = compared + put.count;
    return put.contradiction;
  }

  /// Large tensors piece by piece: zeros may decode to more than there is memory.
  void compare_elements(FieldDifference& of, const std::string& dataset) {
    constexpr uint64_t kHeld = uint64_t{16} << 20;
    using Bytes = std::span<const std::byte>;
    const auto in_a = left_.plain(dataset), in_b = right_.plain(dataset);
    if (in_a && in_b && std::max(in_a->dataset->bytes, in_b->dataset->bytes) > kHeld) {
      const DType of_a = in_a->dataset->dtype, of_b = in_b->dataset->dtype;
      const auto none_of_a = values_of(of_a, {}), none_of_b = values_of(of_b, {});
      const uint64_t before = of.different;
      if (none_of_a && none_of_b) values_.compare(of, none_of_a, none_of_b);
      if (of.different != before) return;  // of another type, which is told once
      return read_side_by_side(*in_a, *in_b, [&](Bytes a, Bytes b) {
        const auto left = values_of(of_a, a), right = values_of(of_b, b);
        if (left && right) values_.compare(of, left, right);
      });
    }
    const auto x = left_.read(dataset), y = right_.read(dataset);
    const auto values = [](const auto& read) {
      return read ? values_of(read->first, {read->second.data(), read->second.size()})
                  : std::nullopt;
    };
    const auto left = values(x), right = values(y);
    if (left && right) values_.compare(of, left, right);
  }

  const ContentGroup& group_;
  const GroupUnits& a_;
  const GroupUnits& b_;
  GroupTensors left_, right_;
  bool assembled_;
  FieldComparison& values_;
  std::map<uint64_t, int64_t> ranks_;  // of the step's samples
  // By field, the samples of which only one has a value, and whether A has: another may imply it.
  std::map<std::string, std::vector<std::pair<uint64_t, bool>>> unsaid_;
  ValueDifference place_;   // of the group
  format::HeldBytes held_;  // of both dumps
};

}  // namespace

std::string ContentGroup::text() const {
  if (!number) return kind + " " + name;
  const std::string rollout = "rollout " + std::to_string(number->rollout);
  if (!number->step) return rollout;
  const std::string step = "step " + std::to_string(*number->step) + " of " + rollout;
  return kind == "weights" ? "the state before " + step : step;
}

bool operator<(const ContentGroup& a, const ContentGroup& b) {
  const auto key = [](const ContentGroup& of) {
    const int order = of.kind == "rollout" ? 0 : of.kind == "weights" ? 1 : 2;
    return std::tuple(!of.number.has_value(), of.number.value_or(format::GroupName{}), order,
                      of.name);
  };
  return key(a) < key(b);
}

void check_group(const ContentGroup& group, const GroupUnits& of) {
  std::vector<format::Problem> problems;
  for (const format::UnitReader& unit : of.units) check_meaning(unit, problems);
  if (!problems.empty()) {
    const format::Problem& found = problems.front();
    throw format::FormatError(found.rule, found.message, found.path, found.dataset);
  }
  format::HeldBytes held;
  if (group.kind == "rollout") static_cast<void>(read_rollouts(group, of, held));
  if (group.kind == "train") static_cast<void>(read_ranks(group, of, held));
}

bool compare_group(const ContentGroup& group, const GroupUnits& a, const GroupUnits& b,
                   bool assembled, FieldComparison& values) {
  return GroupComparer(group, a, b, assembled, values).run();
}

}  // namespace rlreplay::replay
