#include "format/rollout_join.h"

#include <algorithm>

#include "format/rule.h"

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
    fail("sample " + std::to_string(twice->id()) + " stands in two units of the rollout",
         "sample_id");
  }

  RolloutData joined() && {
    for (const PartRow& at : rows_) {
      out_.sample_id.push_back(at.id());
      append(out_.tokens, &at.part->tokens, at.begin(), at.end());
      out_.offsets.push_back(out_.tokens.size());
    }
    for (auto field : {&RolloutData::group_id, &RolloutData::trajectory_id}) numbers(field);
    numbers(&RolloutData::removed);
    numbers(&RolloutData::rewards);
    for (auto field :
         {&RolloutData::prompt_text, &RolloutData::response_text, &RolloutData::label_text}) {
      column(field, [](Texts& to, const Texts* from, const PartRow& at) {
        to.add(from == nullptr ? std::string_view() : from->at(at.row));
      });
    }
    for (auto field : {&RolloutData::loss_mask, &RolloutData::roles}) {
      column(field, [](Column<uint8_t>& to, const Column<uint8_t>* from, const PartRow& at) {
        append(to.values, from == nullptr ? nullptr : &from->values, at.begin(), at.end());
      });
    }
    log_probs();
    nucleus();
    prompt_lengths();
    finish();
    reward_components();
    versions();
    calls();
    experts();
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
      to.presence.push_back(from && from->has(at.row) ? 1 : 0);
    }
    if (std::ranges::find(to.presence, 0) == to.presence.end()) to.presence.clear();
  }

  template <class T>
  void numbers(std::optional<Column<T>> RolloutData::*field) {
    column(field, [](Column<T>& to, const Column<T>* from, const PartRow& at) {
      to.values.push_back(from == nullptr ? T() : from->values[at.row]);
    });
  }

  void log_probs() {
    const bool wide = std::ranges::any_of(parts_, [](const RolloutData& part) {
      return part.log_probs && part.log_probs->is_wide();
    });
    column(&RolloutData::log_probs,
           [&](TokenFloats& to, const TokenFloats* from, const PartRow& at) {
             for (uint64_t t = at.begin(); t < at.end(); ++t) {
               const double value = from == nullptr ? 0 : from->at(t);
               wide ? to.wide.push_back(value) : to.narrow.push_back(static_cast<float>(value));
             }
           });
  }

  void nucleus() {
    column(&RolloutData::nucleus, [](TokenSets& to, const TokenSets* from, const PartRow& at) {
      append(to.sizes, from == nullptr ? nullptr : &from->sizes, at.begin(), at.end());
      if (from != nullptr) {
        append(to.ids, &from->ids, from->offsets[at.row], from->offsets[at.row + 1]);
      }
      to.offsets.push_back(to.ids.size());
    });
  }

  void prompt_lengths() {
    if (!all_have(&RolloutData::prompt_length, "prompt_length")) return;
    auto& to = out_.prompt_length.emplace();
    for (const PartRow& at : rows_) to.push_back((*at.part->prompt_length)[at.row]);
  }

  void finish() {
    if (none_has(&RolloutData::finish)) return;
    auto& to = out_.finish.emplace();
    for (const PartRow& at : rows_) {
      to.push_back(at.part->finish ? (*at.part->finish)[at.row] : Finish::kUnknown);
    }
  }

  void reward_components() {
    if (none_has(&RolloutData::reward_components)) return;
    NamedColumns& to = out_.reward_components.emplace();
    for (const RolloutData& part : parts_) {
      if (part.reward_components) to.names = part.reward_components->names;
    }
    const size_t names = to.names.size();
    for (const PartRow& at : rows_) {
      const auto& from = at.part->reward_components;
      if (from && from->names != to.names)
        fail("its units name other columns", "reward_components");
      append(to.values, from ? &from->values : nullptr, at.row * names, (at.row + 1) * names);
      to.presence.push_back(from && is_present(from->presence, at.row) ? 1 : 0);
    }
    if (std::ranges::find(to.presence, 0) == to.presence.end()) to.presence.clear();
  }

  void versions() {
    if (none_has(&RolloutData::versions)) return;
    Versions& to = out_.versions.emplace();
    const auto lacks_starts = [](const PartRow& at) {
      return at.part->versions && !at.part->versions->starts;
    };
    const auto without = std::ranges::count_if(rows_, lacks_starts);
    if (without == 0) to.starts.emplace();
    for (const PartRow& at : rows_) {
      if (const auto& from = at.part->versions) {
        const uint64_t begin = from->offsets[at.row], end = from->offsets[at.row + 1];
        append(to.versions, &from->versions, begin, end);
        if (from->starts && !to.starts)
          fail("a unit has it, and another has not", "version_starts");
        if (to.starts) append(*to.starts, &*from->starts, begin, end);
      }
      to.offsets.push_back(to.versions.size());
    }
  }

  /// A part without calls says that its samples have none.
  void calls() {
    if (none_has(&RolloutData::calls)) return;
    Calls& to = out_.calls.emplace();
    const auto begin = [&](auto field, const char* name) {
      size_t with = 0, all = 0;
      for (const RolloutData& part : parts_) {
        if (!part.calls || part.calls->size() == 0) continue;
        ++all;
        with += ((*part.calls).*field).has_value() ? 1 : 0;
      }
      if (with != 0 && with != all) fail("a unit has it, and another has not", name);
      if (with != 0) (to.*field).emplace();
    };
    begin(&Calls::finish, "call_finish");
    begin(&Calls::truncated, "call_truncated");
    begin(&Calls::version, "call_version");
    begin(&Calls::seed, "call_seed");
    begin(&Calls::numbers, "call_numbers");
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
    if (to.finish) append(*to.finish, &*from.finish, begin, end);
    if (to.truncated) append(*to.truncated, &*from.truncated, begin, end);
    if (to.version) append(*to.version, &*from.version, begin, end);
    if (to.seed) append(*to.seed, &*from.seed, begin, end);
    if (!to.numbers) return;
    if (to.numbers->names.empty()) to.numbers->names = from.numbers->names;
    if (to.numbers->names != from.numbers->names)
      fail("its units name other columns", "call_numbers");
    const size_t names = to.numbers->names.size();
    append(to.numbers->values, &from.numbers->values, begin * names, end * names);
  }

  void experts() {
    if (!all_have(&RolloutData::experts, "experts")) return;
    Experts& to = out_.experts.emplace();
    to.layers = parts_.front().experts->layers;
    to.slots = parts_.front().experts->slots;
    begin_routes(to);
    for (const PartRow& at : rows_) {
      const Experts& from = *at.part->experts;
      if (from.layers != to.layers || from.slots != to.slots) {
        fail("its units have other numbers of layers or slots", "experts");
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
      if (from.layer_ids != to.layer_ids) fail("its units name other layers", "expert_layers");
      if (from.gates.has_value() != to.gates.has_value()) {
        fail("a unit has it, and another has not", "expert_gates");
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
  bool all_have(Field field, const char* name) const {
    if (none_has(field)) return false;
    for (const RolloutData& part : parts_) {
      if (!(part.*field)) fail("a unit of the rollout has it, and another has not", name);
    }
    return true;
  }

  [[noreturn]] void fail(const std::string& what, const std::string& dataset) const {
    throw FormatError(Rule::kMeaning, what, where_, dataset);
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

}  // namespace rlreplay::format
