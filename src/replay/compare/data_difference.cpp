#include "src/replay/compare/data_difference.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "format/dump_content.h"
#include "format/group_io.h"
#include "format/group_name.h"
#include "format/rollout_join.h"
#include "src/base/error.h"
#include "src/replay/compare/group_difference.h"
#include "src/replay/compare/sample_table.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/import_findings.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::GroupName;
using format::UnitReader;
using format::UnitRecord;
using Units = std::vector<const UnitRecord*>;

void add_groups(const DumpReader& dump, std::set<ContentGroup>& groups) {
  for (const auto& [kind, name] : format::content_groups(dump)) {
    groups.insert({GroupName::parse(name), kind, name});
  }
}

/// The names of scalars that our own runs record.
constexpr std::array kScalars = {"loss",          "pg_loss",   "entropy",    "kl",
                                 "clip_fraction", "grad_norm", "clip_scale", "lr"};

/// Options, then every rollout, step and state of either dump in canonical order; groups whose
/// units have equal content hashes are not opened. Then, unless hashes are trusted, the bytes of
/// what was not.
class Comparer {
 public:
  Comparer(const DumpReader& a, const DumpReader& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options), values_(options.tolerance) {}

  DataDifference run() {
    compare_options();
    std::set<ContentGroup> groups;
    add_groups(a_, groups);
    add_groups(b_, groups);
    for (const ContentGroup& group : groups) {
      if (!options_.last || !group.number || !(*options_.last < *group.number)) compare(group);
    }
    if (!options_.last) compare_contradictions();
    if (!options_.trust_hashes) check_bytes();
    check_tolerances();
    judge();
    return std::move(made_);
  }

 private:
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

  void compare(const ContentGroup& group) {
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
    const GroupUnits left = open(group, a_, a), right = open(group, b_, b);
    if (left.fields == right.fields) {
      check_group(group, left);
      check_group(group, right);
      return note_order(group, a, b);
    }
    const bool unrecorded = compare_group(group, left, right, assembled_, values_);
    made_.groups_differing.push_back({group.kind, group.number, unrecorded});
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

  GroupUnits open(const ContentGroup& group, const DumpReader& dump, const Units& units) {
    if (group.kind == "rollout") format::check_samples_once(dump, group.name);
    GroupUnits out{dump, open(dump, units), {}};
    std::vector<format::GroupItems> items;
    format::HeldBytes held;
    for (const UnitReader& unit : out.units) {
      items.push_back(format::read_items(dump, unit, group.name, held));
    }
    format::GroupParts parts(dump, group.name,
                             [&](size_t unit) -> const UnitReader& { return out.units[unit]; });
    out.fields = format::field_hashes(items, parts.source());
    return out;
  }

  /// The order of samples is no part of what a group says. Units that hold it alike are not read.
  void note_order(const ContentGroup& group, const Units& a, const Units& b) {
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
    for (const FieldDifference& met : values_.fields) {
      if (met.judged) known.insert(met.field);
    }
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
  bool assembled_ = is_assembled(a_) || is_assembled(b_);
  std::set<const UnitRecord*> opened_;
};

}  // namespace

DataDifference compare_data(const DumpReader& a, const DumpReader& b, const DiffOptions& options) {
  return Comparer(a, b, options).run();
}

}  // namespace rlreplay::replay
