#include "format/rollout_join.h"

#include <algorithm>
#include <set>

#include "format/group_io.h"
#include "format/held_bytes.h"
#include "format/rule.h"
#include "src/base/printable.h"
#include "src/base/words.h"

namespace rlreplay::format {
namespace {

/// A sample of a part.
struct PartRow {
  const RolloutData* part = nullptr;
  size_t row = 0;

  uint64_t id() const { return part->sample_id[row]; }
  uint64_t begin() const { return part->offsets[row]; }
  uint64_t end() const { return part->offsets[row + 1]; }
};

/// Appends [begin, end) of `from`, or as many zeros where there are no values.
template <class T>
void append(std::vector<T>& to, const std::vector<T>* from, uint64_t begin, uint64_t end) {
  if (from == nullptr) return to.resize(to.size() + (end - begin));
  to.insert(to.end(), from->begin() + static_cast<ptrdiff_t>(begin),
            from->begin() + static_cast<ptrdiff_t>(end));
}

std::string in_two_units(uint64_t sample) {
  return "sample " + std::to_string(sample) + " stands in two units of the rollout";
}

/// The units of one rollout as one, samples by ascending id. Of a column that some units lack,
/// samples of those have no presence and zeros.
class Join {
 public:
  Join(std::span<const RolloutData> parts, const std::string& where)
      : parts_(parts), where_(where) {
    for (const RolloutData& part : parts) {
      for (size_t row = 0; row < part.size(); ++row) rows_.push_back({&part, row});
    }
    std::ranges::sort(rows_, {}, &PartRow::id);
    const auto twice = std::ranges::adjacent_find(rows_, {}, &PartRow::id);
    if (twice == rows_.end()) return;
    fail(in_two_units(twice->id()), "sample_id");
  }

  RolloutData joined() && {
    for (const PartRow& at : rows_) {
      out_.sample_id.push_back(at.id());
      out_.offsets.push_back(out_.offsets.back() + (at.end() - at.begin()));
    }
    for_each_rollout_column(
        [&](std::string_view name, auto member, Axis axis) { join(name, member, axis); });
    return std::move(out_);
  }

 private:
  /// A column with presence: `take(to, from, row)`, where `from` is null in parts without it.
  template <class C, class Take>
  void column(std::optional<C> RolloutData::*field, Take take) {
    if (none_has(field)) return;
    C& to = (out_.*field).emplace();
    for (const PartRow& at : rows_) {
      const auto& from = at.part->*field;
      take(to, from ? &*from : nullptr, at);
      to.presence.push_back(from && is_present(from->presence, at.row) ? 1 : 0);
    }
    if (std::ranges::find(to.presence, 0) == to.presence.end()) to.presence.clear();
  }

  template <class T>
  void join(std::string_view, std::optional<Column<T>> RolloutData::*field, Axis axis) {
    column(field, [axis](Column<T>& to, const Column<T>* from, const PartRow& at) {
      const bool one = axis == Axis::kSample;
      append(to.values, from == nullptr ? nullptr : &from->values, one ? at.row : at.begin(),
             one ? at.row + 1 : at.end());
    });
  }

  void join(std::string_view, std::optional<Texts> RolloutData::*field, Axis) {
    column(field, [](Texts& to, const Texts* from, const PartRow& at) {
      to.add(from == nullptr ? std::string_view() : from->at(at.row));
    });
  }

  void join(std::string_view, std::optional<TokenFloats> RolloutData::*field, Axis) {
    const bool wide = std::ranges::any_of(
        parts_, [&](const RolloutData& part) { return (part.*field) && (part.*field)->is_wide(); });
    column(field, [wide](TokenFloats& to, const TokenFloats* from, const PartRow& at) {
      for (uint64_t t = at.begin(); t < at.end(); ++t) {
        const double value = from == nullptr ? 0 : from->at(t);
        wide ? to.wide.push_back(value) : to.narrow.push_back(static_cast<float>(value));
      }
    });
  }

  void join(std::string_view, std::optional<TokenSets> RolloutData::*field, Axis) {
    column(field, [](TokenSets& to, const TokenSets* from, const PartRow& at) {
      append(to.sizes, from == nullptr ? nullptr : &from->sizes, at.begin(), at.end());
      if (from != nullptr) {
        append(to.ids, &from->ids, from->offsets[at.row], from->offsets[at.row + 1]);
      }
      to.offsets.push_back(to.ids.size());
    });
  }

  void join(std::string_view name, std::optional<NamedColumns> RolloutData::*field, Axis) {
    std::vector<std::string> names;
    for (const RolloutData& part : parts_) {
      if (part.*field) names = (part.*field)->names;
    }
    column(field, [&](NamedColumns& to, const NamedColumns* from, const PartRow& at) {
      to.names = names;
      if (from != nullptr) expect_names(from->names, names, name);
      append(to.values, from == nullptr ? nullptr : &from->values, at.row * names.size(),
             (at.row + 1) * names.size());
    });
  }

  void join(std::string_view, std::vector<int32_t> RolloutData::*field, Axis) {
    for (const PartRow& at : rows_) {
      append(out_.*field, &(at.part->*field), at.begin(), at.end());
    }
  }

  /// There is no word for a sample without one.
  template <class T>
  void join(std::string_view name, std::optional<std::vector<T>> RolloutData::*field, Axis) {
    if (!all_have(field, name)) return;
    auto& to = (out_.*field).emplace();
    for (const PartRow& at : rows_) to.push_back((*(at.part->*field))[at.row]);
  }

  void join(std::string_view, std::optional<std::vector<Finish>> RolloutData::*field, Axis) {
    if (none_has(field)) return;
    auto& to = (out_.*field).emplace();
    for (const PartRow& at : rows_) {
      const auto& from = at.part->*field;
      to.push_back(from ? (*from)[at.row] : Finish::kUnknown);
    }
  }

  void join(std::string_view, std::optional<Versions> RolloutData::*field, Axis) {
    if (none_has(field)) return;
    Versions& to = (out_.*field).emplace();
    const auto lacks_starts = [](const PartRow& at) {
      return at.part->versions && !at.part->versions->starts;
    };
    const auto without = std::ranges::count_if(rows_, lacks_starts);
    if (without == 0) to.starts.emplace();
    for (const PartRow& at : rows_) {
      if (const auto& from = at.part->versions) {
        const uint64_t begin = from->offsets[at.row], end = from->offsets[at.row + 1];
        append(to.versions, &from->versions, begin, end);
        if (from->starts && !to.starts) {
          const auto other = std::ranges::find_if(rows_, lacks_starts);
          refuse_lack(*at.part, *other->part, "version_starts");
        }
        if (to.starts) append(*to.starts, &*from->starts, begin, end);
      }
      to.offsets.push_back(to.versions.size());
    }
  }

  /// A part without calls says that its samples have none.
  void join(std::string_view, std::optional<Calls> RolloutData::*field, Axis) {
    if (none_has(field)) return;
    Calls& to = (out_.*field).emplace();
    Calls::for_each_column([&](std::string_view name, auto member) {
      const RolloutData *with = nullptr, *without = nullptr;
      for (const RolloutData& part : parts_) {
        if (!part.calls || part.calls->size() == 0) continue;
        (((*part.calls).*member).has_value() ? with : without) = &part;
      }
      if (with != nullptr && without != nullptr) refuse_lack(*with, *without, name);
      if (with != nullptr) (to.*member).emplace();
    });
    for (const PartRow& at : rows_) {
      if (at.part->calls) add_calls(to, *at.part->calls, at.row);
      to.offsets.push_back(to.first.size());
    }
  }

  void add_calls(Calls& to, const Calls& from, size_t row) const {
    const uint64_t begin = from.offsets[row], end = from.offsets[row + 1];
    append(to.first, &from.first, begin, end);
    append(to.length, &from.length, begin, end);
    if (begin == end) return;
    Calls::for_each_column([&](std::string_view name, auto member) {
      if (to.*member) add(name, *(to.*member), *(from.*member), begin, end);
    });
  }

  template <class T>
  static void add(std::string_view, std::vector<T>& to, const std::vector<T>& from, uint64_t begin,
                  uint64_t end) {
    append(to, &from, begin, end);
  }

  void add(std::string_view name, NamedColumns& to, const NamedColumns& from, uint64_t begin,
           uint64_t end) const {
    if (to.names.empty()) to.names = from.names;
    expect_names(from.names, to.names, name);
    append(to.values, &from.values, begin * to.names.size(), end * to.names.size());
  }

  void join(std::string_view name, std::optional<Experts> RolloutData::*field, Axis) {
    if (!all_have(field, name)) return;
    Experts& to = (out_.*field).emplace();
    to.layers = parts_.front().experts->layers;
    to.slots = parts_.front().experts->slots;
    begin_routes(to);
    for (const PartRow& at : rows_) {
      const Experts& from = *at.part->experts;
      if (from.layers != to.layers || from.slots != to.slots) {
        const auto form = [](const Experts& e) {
          return counted(e.layers, "layer") + " of " + counted(e.slots, "slot");
        };
        fail(unit_of(*at.part) + " has " + form(from) + ", " + unit_of(parts_.front()) + " has " +
                 form(to),
             "experts");
      }
      const uint64_t size = to.layers * to.slots;
      append(to.experts, &from.experts, at.begin() * size, at.end() * size);
      if (to.gates) append(*to.gates, &*from.gates, at.begin() * size, at.end() * size);
      if (!to.recorded) continue;
      const std::vector<uint8_t> all(from.recorded ? 0 : at.part->tokens.size(), 1);
      append(*to.recorded, from.recorded ? &*from.recorded : &all, at.begin(), at.end());
    }
  }

  /// Units name the same layers, and all have gates or none; one that does not say which tokens
  /// were recorded has recorded all.
  void begin_routes(Experts& to) const {
    to.layer_ids = parts_.front().experts->layer_ids;
    if (parts_.front().experts->gates) to.gates.emplace();
    for (const RolloutData& part : parts_) {
      const Experts& from = *part.experts;
      if (from.layer_ids != to.layer_ids) {
        fail(unit_of(part) + " names other layers than " + unit_of(parts_.front()),
             "expert_layers");
      }
      if (from.gates.has_value() != to.gates.has_value()) {
        const RolloutData& first = parts_.front();
        refuse_lack(from.gates ? part : first, from.gates ? first : part, "expert_gates");
      }
      if (from.recorded) to.recorded.emplace();
    }
  }

  template <class Field>
  bool none_has(Field field) const {
    return std::ranges::none_of(parts_,
                                [&](const auto& part) { return (part.*field).has_value(); });
  }

  template <class Field>
  bool all_have(Field field, std::string_view name) const {
    const auto has = [&](const RolloutData& part) { return (part.*field).has_value(); };
    const auto with = std::ranges::find_if(parts_, has);
    if (with == parts_.end()) return false;
    const auto without = std::ranges::find_if_not(parts_, has);
    if (without != parts_.end()) refuse_lack(*with, *without, name);
    return true;
  }

  /// Units are told apart by what they hold.
  static std::string unit_of(const RolloutData& part) {
    return part.size() == 0 ? "the unit without samples"
                            : "the unit of sample " + std::to_string(part.sample_id.front());
  }

  void expect_names(const std::vector<std::string>& found, const std::vector<std::string>& expected,
                    std::string_view name) const {
    if (found == expected) return;
    fail("its units name other columns: " + printable(rlreplay::joined(found, ", ")) + ", and " +
             printable(rlreplay::joined(expected, ", ")),
         name);
  }

  [[noreturn]] void refuse_lack(const RolloutData& with, const RolloutData& without,
                                std::string_view name) const {
    fail(unit_of(with) + " has it, " + unit_of(without) + " has not", name);
  }

  [[noreturn]] void fail(const std::string& what, std::string_view dataset) const {
    throw FormatError(Rule::kMeaning, what, where_, std::string(dataset));
  }

  std::span<const RolloutData> parts_;
  std::string where_;
  std::vector<PartRow> rows_;
  RolloutData out_;
};

}  // namespace

RolloutData join_rollout(std::span<const RolloutData> parts, const std::string& where) {
  return Join(parts, where).joined();
}

void check_samples_once(const DumpReader& dump, const std::string& group) {
  const std::vector<const UnitRecord*> units = dump.find("rollout", group);
  if (units.size() < 2) return;
  std::set<uint64_t> seen;
  HeldBytes held;
  for (const UnitRecord* record : units) {
    const UnitReader unit = dump.open_unit(*record);
    const GroupReader reader(dump, unit, group, &held);
    const StoredDataset* ids = reader.find("sample_id");
    if (ids == nullptr) continue;
    held.hold(*record, ids->path, ids->bytes * 5);  // of a node of the set
    for (const uint64_t id : reader.read<uint64_t>(*ids)) {
      if (seen.insert(id).second) continue;
      throw FormatError(Rule::kMeaning, in_two_units(id), record->path, ids->path);
    }
  }
}

}  // namespace rlreplay::format
