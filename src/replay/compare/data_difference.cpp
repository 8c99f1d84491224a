#include "src/replay/compare/data_difference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <tuple>
#include <utility>

#include "format/dump_content.h"
#include "format/group_io.h"
#include "format/group_name.h"
#include "format/rule.h"
#include "format/tables.h"
#include "format/unit.h"
#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/events/name.h"
#include "src/replay/compare/event_difference.h"
#include "src/replay/compare/sample_table.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/event_store.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {
namespace {

using engine::EventRecord;
using engine::StepEvents;
using format::DumpReader;
using format::GroupName;
using format::UnitReader;
using format::UnitRecord;
using Units = std::vector<const UnitRecord*>;

/// A group of a dump, in the order in which a run makes them: a rollout, then for each of its steps
/// the state before it and what it trained on.
struct Group {
  std::optional<GroupName> number;
  std::string kind, name;

  auto key() const {
    const int order = kind == "rollout" ? 0 : kind == "weights" ? 1 : 2;
    return std::tuple(!number.has_value(), number.value_or(GroupName{}), order, name);
  }
  friend bool operator<(const Group& a, const Group& b) { return a.key() < b.key(); }

  std::string text() const {
    if (!number) return kind + " " + name;
    const std::string rollout = "rollout " + std::to_string(number->rollout);
    if (!number->step) return rollout;
    const std::string step = "step " + std::to_string(*number->step) + " of " + rollout;
    return kind == "weights" ? "the state before " + step : step;
  }
};

void add_groups(const DumpReader& dump, std::set<Group>& groups) {
  for (const auto& [kind, name] : format::content_groups(dump)) {
    groups.insert({GroupName::parse(name), kind, name});
  }
}

/// "[16, 64]" of the first unit that has the dataset.
std::string shape_text(const std::vector<UnitReader>& units, const std::string& path) {
  for (const UnitReader& unit : units) {
    const format::StoredDataset* dataset = unit.find(path);
    if (dataset != nullptr) return format::shape_text(dataset->shape);
  }
  return "";
}

/// The names of scalars that our own runs record.
constexpr std::array kScalars = {"loss",          "pg_loss",   "entropy",    "kl",
                                 "clip_fraction", "grad_norm", "clip_scale", "lr"};

class Comparer {
 public:
  Comparer(const DumpReader& a, const DumpReader& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options), values_(options.tolerance) {}

  DataDifference run() {
    compare_options();
    std::set<Group> groups;
    add_groups(a_, groups);
    add_groups(b_, groups);
    for (const Group& group : groups) {
      if (!options_.last || !group.number || !(*options_.last < *group.number)) compare(group);
    }
    if (!options_.last) compare_contradictions();
    if (!options_.trust_hashes) check_bytes();
    check_tolerances();
    judge();
    return std::move(made_);
  }

 private:
  using Fields = std::map<std::string, Hash>;

  void compare_options() {
    const auto a = content_options(a_.meta(), "A"), b = content_options(b_.meta(), "B");
    const auto text = [](const auto& options, const std::string& name) {
      const auto at = options.find(name);
      return at == options.end() ? std::string() : at->second;
    };
    std::set<std::string> names;
    for (const auto& [name, value] : a) names.insert(name);
    for (const auto& [name, value] : b) names.insert(name);
    for (const std::string& name : names) {
      if (a.contains(name) && b.contains(name) && a.at(name) == b.at(name)) continue;
      made_.options.push_back({name, text(a, name), text(b, name)});
    }
  }

  /// What ranks hold beside the copy that an import takes shows where it contradicts that copy.
  void compare_contradictions() {
    const std::set<std::string> a = contradictions(a_), b = contradictions(b_);
    const auto add = [&](const auto& from, const auto& other, const char* name) {
      for (const std::string& found : from) {
        if (other.contains(found)) continue;
        made_.only.push_back(std::string("only the files of ") + name +
                             " contradict each other: " + found);
        made_.within_tolerance = false;
      }
    };
    add(a, b, "A");
    add(b, a, "B");
  }

  void compare(const Group& group) {
    const Units a = a_.find(group.kind, group.name), b = b_.find(group.kind, group.name);
    if (a.empty() || b.empty()) {
      made_.only.push_back(group.text() + " is only in " + (b.empty() ? "A" : "B"));
      if (group.kind != "weights") made_.within_tolerance = false;
      return;
    }
    ++made_.groups;
    if (format::same_content(a, b)) {
      ++made_.groups_equal;
      note_order(group, a, b);
      return;
    }
    const std::vector<UnitReader> left = open(a_, a), right = open(b_, b);
    const Fields in_a = fields(a_, left, group), in_b = fields(b_, right, group);
    if (in_a == in_b) return note_order(group, a, b);
    const uint64_t before = count(), unrecorded = missing_events();
    compare_group(group, left, right, in_a, in_b);
    const uint64_t lacking = missing_events() - unrecorded;
    made_.groups_differing.push_back(
        {group.kind, group.number, lacking > 0 && count() - before == lacking});
  }

  std::vector<UnitReader> open(const DumpReader& dump, const Units& units) {
    std::vector<UnitReader> out;
    for (const UnitRecord* unit : units) {
      made_.bytes_read += unit->size;
      opened_.insert(unit);
      out.push_back(dump.open_unit(*unit));
    }
    return out;
  }

  /// The order of samples is no part of what a group says. Units that hold it alike are not read.
  void note_order(const Group& group, const Units& a, const Units& b) {
    if (options_.trust_hashes || group.kind == "weights" || a.size() != b.size()) return;
    if (std::ranges::equal(a, b, {}, &UnitRecord::content, &UnitRecord::content)) return;
    const auto ids = [&](const DumpReader& dump, const std::vector<UnitReader>& units) {
      std::vector<std::vector<uint64_t>> out;
      for (const UnitReader& unit : units) {
        const format::GroupReader values(dump, unit, group.name);
        const format::StoredDataset* dataset = values.find("sample_id");
        if (dataset != nullptr) out.push_back(values.read<uint64_t>(*dataset));
      }
      return out;
    };
    auto in_a = ids(a_, open(a_, a)), in_b = ids(b_, open(b_, b));
    if (in_a == in_b) return;
    for (auto* lists : {&in_a, &in_b}) {
      for (auto& list : *lists) std::ranges::sort(list);
    }
    if (in_a == in_b) made_.reordered.push_back(group.text());
  }

  static Fields fields(const DumpReader& dump, const std::vector<UnitReader>& units,
                       const Group& group) {
    std::vector<format::GroupItems> items;
    for (const UnitReader& unit : units) {
      items.push_back(format::read_items(dump, unit, group.name));
    }
    return format::field_hashes(items);
  }

  void compare_group(const Group& group, const std::vector<UnitReader>& a,
                     const std::vector<UnitReader>& b, const Fields& in_a, const Fields& in_b) {
    place_ = {};
    if (group.number) place_.rollout_id = group.number->rollout;
    if (group.number) place_.step_id = group.number->step;
    values_.at(place_);
    unsaid_.clear();
    const uint64_t all_before = count();
    const std::map<std::string, uint64_t> before = counts();
    if (group.kind == "rollout") compare_rollouts(group, a, b);
    if (group.kind == "train") compare_steps(group, a, b);
    bool events = false;
    for (const std::string& name : differing(in_a, in_b)) {
      if (name.starts_with("events/")) {
        if (!std::exchange(events, true)) compare_events(group, a, b);
      } else if (!is_shown(group, name)) {
        compare_dataset(group, name, a, b, in_a.contains(name), in_b.contains(name));
      }
    }
    // What differs, where none of the forms above shows it.
    const std::map<std::string, uint64_t> after = counts();
    const bool any = count() != all_before;
    const bool lacks = is_counted(group, "samples", before, after);
    for (const std::string& name : differing(in_a, in_b)) {
      // Samples that one lacks, and what other fields imply, make hashes differ that need no line.
      const bool by_others = lacks || name == "samples" || name == "removed" ||
                             name == "trajectory_tokens" || name.starts_with("events/");
      if (by_others ? any : is_counted(group, name, before, after)) continue;
      FieldDifference& of = values_.field(group.kind + "/" + name, is_judged(group, name));
      const auto unsaid = unsaid_.find(of.field);
      if (unsaid != unsaid_.end()) {
        for (const auto& [place, of_a] : unsaid->second) {
          values_.at(place);
          values_.missing(of, of_a, "recorded");
        }
        continue;
      }
      values_.at(place_);
      ++of.compared;
      values_.differs(of, "stored otherwise", "stored otherwise");
    }
  }

  /// Names of the fields whose hashes differ, or that only one has.
  static std::vector<std::string> differing(const Fields& a, const Fields& b) {
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

  /// By field, what was counted of it.
  std::map<std::string, uint64_t> counts() const {
    std::map<std::string, uint64_t> out;
    for (const FieldDifference& f : values_.fields) {
      out[f.field] = f.different + f.missing + f.tolerated;
    }
    return out;
  }

  /// Whether a field of the content that differs was counted under a name that shows it.
  static bool is_counted(const Group& group, const std::string& name,
                         const std::map<std::string, uint64_t>& before,
                         const std::map<std::string, uint64_t>& after) {
    const std::string own = name.substr(0, name.find('/'));
    const std::string whole = group.kind + "/" + name;
    const std::string scalar = "step/" + name.substr(name.find('/') + 1);
    const std::string shown[] = {
        whole, own == "scalars" && group.kind == "train" ? scalar : group.kind + "/" + own,
        whole == "rollout/tokens" ? "rollout/prompt" : whole};
    return std::ranges::any_of(shown, [&](const std::string& field) {
      const auto was = before.find(field), is = after.find(field);
      return is != after.end() && is->second != (was == before.end() ? 0 : was->second);
    });
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

  /// Whether a field of the content is one of columns and scalars, which tolerances are for.
  static bool is_judged(const Group& group, const std::string& name) {
    return group.kind != "weights" && !name.starts_with("events/");
  }

  /// Whether the samples' fields or the scalars show a field of the content.
  static bool is_shown(const Group& group, const std::string& name) {
    if (group.kind == "weights") return false;
    if (name == "samples") return true;
    if (name.starts_with("scalars/")) return group.kind == "train";
    return format::find_known(group.kind, name) != nullptr;
  }

  void compare_rollouts(const Group& group, const std::vector<UnitReader>& a,
                        const std::vector<UnitReader>& b) {
    const auto read = [&](const DumpReader& dump, const std::vector<UnitReader>& units) {
      std::vector<format::RolloutData> out;
      format::HeldBytes held;
      for (const UnitReader& unit : units) {
        if (holds_events_alone(unit, group.name)) continue;
        out.push_back(read_rollout_data(dump, unit, group.name, &held));
      }
      return out;
    };
    const auto left = read(a_, a), right = read(b_, b);
    compare_samples("rollout", SampleTable::of(std::span(left)), SampleTable::of(std::span(right)));
  }

  void compare_steps(const Group& group, const std::vector<UnitReader>& a,
                     const std::vector<UnitReader>& b) {
    ranks_.clear();
    const auto read = [&](const DumpReader& dump, const std::vector<UnitReader>& units) {
      std::vector<format::TrainData> out;
      format::HeldBytes held;
      for (const UnitReader& unit : units) {
        if (unit.find(group.name + "/sample_id") == nullptr) continue;
        out.push_back(read_train_data(dump, unit, group.name, &held));
        for (const uint64_t id : out.back().sample_id) {
          ranks_.emplace(id, format::rank_of(unit.record().path));
        }
      }
      return out;
    };
    const auto left = read(a_, a), right = read(b_, b);
    compare_samples("train", SampleTable::of(std::span(left)), SampleTable::of(std::span(right)));
    ranks_.clear();
    compare_scalars(group, a, b);
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
        if (!x || !y) unsaid_[name].emplace_back(place_of(id), x.has_value());
        if (!x && a.fields()[f].implied) x = a.fields()[f].implied(row_a);
        if (!y && b.fields()[f].implied) y = b.fields()[f].implied(row_b->second);
        values_.at(place_of(id));
        if (name == "rollout/finish") x = named(x), y = named(y);
        values_.compare(values_.field(name), x, y);
      }
    }
    values_.at(place_);
  }

  /// Codes by their names.
  static std::optional<FieldValues> named(const std::optional<FieldValues>& finish) {
    const auto* code = finish ? std::get_if<std::span<const uint8_t>>(&finish->values) : nullptr;
    if (code == nullptr || code->empty()) return finish;
    return FieldValues{format::to_string(static_cast<format::Finish>(code->front())), std::nullopt};
  }

  /// What each rank says of a scalar.
  using Said = std::map<int64_t, double>;

  std::map<std::string, Said> read_scalars(const DumpReader& dump, const Group& group,
                                           const std::vector<UnitReader>& units) {
    std::map<std::string, Said> out;
    for (const UnitReader& unit : units) {
      std::optional<format::NamedColumns> scalars;
      format::GroupReader(dump, unit, group.name).named("scalars", scalars, 0);
      for (size_t i = 0; scalars && i < scalars->names.size(); ++i) {
        scalars_.insert(scalars->names[i]);
        out[scalars->names[i]].emplace(format::rank_of(unit.record().path), scalars->values[i]);
      }
    }
    return out;
  }

  /// What all ranks say is said once.
  static bool agree(const Said& said) {
    return std::ranges::all_of(
        said, [&](const auto& s) { return same_value(s.second, said.begin()->second); });
  }

  void compare_scalars(const Group& group, const std::vector<UnitReader>& a,
                       const std::vector<UnitReader>& b) {
    auto in_a = read_scalars(a_, group, a), in_b = read_scalars(b_, group, b);
    std::set<std::string> names;
    for (const auto* side : {&in_a, &in_b}) {
      for (const auto& [name, said] : *side) names.insert(name);
    }
    for (const std::string& name : names) {
      compare_scalar(values_.field("step/" + name), in_a[name], in_b[name]);
    }
  }

  void compare_scalar(FieldDifference& of, const Said& a, const Said& b) {
    const auto value = [](const Said& said, int64_t rank) -> std::optional<FieldValues> {
      const auto at = said.find(rank);
      if (at == said.end()) return std::nullopt;
      return FieldValues{std::span<const double>(&at->second, 1), std::nullopt};
    };
    values_.at(place_);
    if (agree(a) && agree(b)) {
      const auto first = [&](const Said& said) {
        return said.empty() ? std::nullopt : value(said, said.begin()->first);
      };
      return values_.compare(of, first(a), first(b));
    }
    std::set<int64_t> ranks;
    for (const Said* side : {&a, &b}) {
      for (const auto& [rank, number] : *side) ranks.insert(rank);
    }
    for (const int64_t rank : ranks) {
      ValueDifference place = place_;
      place.rank = rank;
      values_.at(place);
      values_.compare(of, value(a, rank), value(b, rank));
    }
  }

  void compare_events(const Group& group, const std::vector<UnitReader>& left,
                      const std::vector<UnitReader>& right) {
    const auto a = event_units(left, group.name), b = event_units(right, group.name);
    std::set<int64_t> ranks;
    for (const auto* side : {&a, &b}) {
      for (const auto& [rank, unit] : *side) ranks.insert(rank);
    }
    values_.field(group.kind + "/events", false);
    for (const int64_t rank : ranks) {
      const auto read = [&](const DumpReader& dump, const auto& units) {
        const auto unit = units.find(rank);
        return unit == units.end()
                   ? std::nullopt
                   : std::optional(read_events(dump, *unit->second, group.name, place_.rollout_id,
                                               place_.step_id.value_or(0)));
      };
      const ValueDifference before = place_;
      if (ranks.size() > 1) place_.rank = rank;
      compare_events(group, read(a_, a), read(b_, b));
      place_ = before;
    }
  }

  void compare_events(const Group& group, const std::optional<StepEvents>& left,
                      const std::optional<StepEvents>& right) {
    FieldDifference& of = values_.field(group.kind + "/events", false);
    values_.at(place_);
    if (!left && !right) return;
    if (!left || !right) return values_.missing(of, !right, "recorded");
    for (const auto& [x, y] : paired_events(*left, *right)) {
      ValueDifference place = place_;
      place.tensor = to_string((x != nullptr ? x : y)->event);
      values_.at(place);
      if (x == nullptr || y == nullptr) {
        values_.missing(of, x != nullptr, "recorded");
        continue;
      }
      const std::string what = differing_part(*left, *x, *right, *y);
      const int more = detail_of(*x) - detail_of(*y);
      if (what.empty() && more != 0) {
        values_.missing(of, more > 0, "recorded");
        continue;
      }
      ++of.compared;
      if (what == "digest") values_.differs(of, x->digest.hex(), y->digest.hex());
      if (!what.empty() && what != "digest") values_.differs(of, "other " + what, "other " + what);
    }
  }

  /// A dataset of a state, or one that is in none of the tables.
  void compare_dataset(const Group& group, const std::string& name,
                       const std::vector<UnitReader>& a, const std::vector<UnitReader>& b,
                       bool in_a, bool in_b) {
    const bool scalar = name.starts_with("scalars/");
    const std::string part = scalar ? name.substr(8) : name.substr(0, name.find('/'));
    FieldDifference& of = values_.field(group.kind + "/" + part, is_judged(group, name));
    ValueDifference place = place_;
    place.tensor = name;
    values_.at(place);
    if (in_a != in_b) return values_.missing(of, in_a, "recorded");
    const std::string left_shape = shape_text(a, group.name + "/" + name);
    const std::string right_shape = shape_text(b, group.name + "/" + name);
    if (left_shape != right_shape) {
      ++of.compared;
      return values_.differs(of, left_shape, right_shape);
    }
    const std::string dataset = scalar ? "scalars" : name;
    const auto x = format::read_dataset(a_, a, group.name, dataset);
    const auto y = format::read_dataset(b_, b, group.name, dataset);
    const auto values = [](const auto& read) {
      return read ? values_of(read->first, {read->second.data(), read->second.size()})
                  : std::nullopt;
    };
    const auto left = values(x), right = values(y);
    const uint64_t before = of.different;
    if (left && right) values_.compare(of, left, right);
    if (of.different != before) return;
    ++of.compared;
    values_.differs(of, "stored otherwise", "stored otherwise");
  }

  void check_bytes() {
    for (const auto* dump : {&a_, &b_}) {
      for (const UnitRecord& unit : dump->units()) {
        if (!opened_.contains(&unit)) dump->check_unit(unit);
      }
    }
  }

  void check_tolerances() const {
    std::set<std::string> known;
    for (const char* name : kScalars) known.insert(std::string("step/") + name);
    for (const std::string& name : scalars_) known.insert("step/" + name);
    const std::vector<format::RolloutData> rollouts(1);
    const std::vector<format::TrainData> ranks(1);
    const SampleTable rollout = SampleTable::of(std::span(rollouts));
    const SampleTable train = SampleTable::of(std::span(ranks));
    for (const SampleTable* table : {&rollout, &train}) {
      for (const SampleTable::Field& field : table->fields()) known.insert(field.name);
    }
    for (const auto& [name, value] : options_.tolerance) {
      const auto fits = [&name = name](const std::string& field) {
        return field == name || field.substr(field.find('/') + 1) == name;
      };
      if (std::ranges::any_of(known, fits)) continue;
      std::string all;
      for (const std::string& field : known) all += (all.empty() ? "" : ", ") + field;
      throw Error(ErrorCode::kUsage,
                  "there is no field \"" + name + "\" to tolerate; there are " + all);
    }
  }

  void judge() {
    made_.fields = std::move(values_.fields);
    made_.first = std::move(values_.first);
    made_.first_field = std::move(values_.first_field);
    made_.identical = made_.options.empty() && made_.only.empty() && made_.groups_differing.empty();
    for (const FieldDifference& field : made_.fields) {
      if (field.judged && !field.is_equal()) made_.within_tolerance = false;
    }
  }

  static bool is_assembled(const DumpReader& dump) {
    const auto vendor = imported_from(dump.meta(), "meta");
    return vendor && *vendor != "jsonl";
  }

  const DumpReader& a_;
  const DumpReader& b_;
  const DiffOptions& options_;
  FieldComparison values_;
  DataDifference made_;
  // Of a framework's files: their ranks were put together, and none of them is this dump's.
  bool assembled_ = is_assembled(a_) || is_assembled(b_);
  std::set<const UnitRecord*> opened_;
  std::set<std::string> scalars_;      // names that were met
  std::map<uint64_t, int64_t> ranks_;  // of the step's samples
  // By field, the samples of which only one has a value, and whether A has: another may imply it.
  std::map<std::string, std::vector<std::pair<ValueDifference, bool>>> unsaid_;
  ValueDifference place_;  // the group at hand
};

}  // namespace

DataDifference compare_data(const DumpReader& a, const DumpReader& b, const DiffOptions& options) {
  return Comparer(a, b, options).run();
}

}  // namespace rlreplay::replay
