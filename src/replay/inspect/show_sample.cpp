#include "src/replay/inspect/show_sample.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "format/rollout_data.h"
#include "format/rollout_join.h"
#include "format/train_ranks.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/compare/sample_table.h"
#include "src/replay/record/chosen_ids.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::TrainData;
using format::UnitRecord;

constexpr uint64_t kMostRows = uint64_t{1} << 17;  // tokens of a table for people

/// The beginning of a text, and that it is no more than that.
std::string cut_line(const std::string& text, size_t width) {
  const std::string whole = one_line(text, SIZE_MAX), out = one_line(text, width);
  return out == whole ? out : one_line(text, width - 1) + "…";
}

/// A field's value at a token of the whole sample; blank where there is none.
std::string value_at(const FieldValues& field, uint64_t token) {
  return std::visit(
      [&](auto values) -> std::string {
        if constexpr (std::is_same_v<decltype(values), std::string_view>) {
          return "";
        } else {
          if (!field.token || token < *field.token) return "";
          const uint64_t i = token - *field.token;
          return i < values.size() ? shortest(values[i]) : "";
        }
      },
      field.values);
}

std::string list_json(const FieldValues& field) {
  return std::visit(
      [&](auto values) -> std::string {
        if constexpr (std::is_same_v<decltype(values), std::string_view>) {
          return json_quoted(values);
        } else {
          std::string out = "[";
          for (const auto value : values) {
            if (out.size() > 1) out += ',';
            const std::string text = shortest(value);
            const bool finite = text.find_first_not_of("0123456789+-.e") == text.npos;
            out += finite ? text : json_quoted(text);
          }
          return out + "]";
        }
      },
      field.values);
}

/// One sample: what the rollout and each step say of it.
class SampleView {
 public:
  SampleView(const DumpReader& dump, const ShowOptions& options)
      : dump_(dump), options_(options), id_(*options.sample) {
    find_rollout();
    find_steps();
  }

  std::string str() const {
    if (options_.json) return json();
    if (options_.text) return texts();
    return table();
  }

 private:
  struct Named {
    std::string name;
    FieldValues values;
  };

  void find_rollout() {
    std::set<uint64_t> there;
    for (const UnitRecord& record : dump_.units()) {
      if (format::kind_of(record.path) != "rollout") continue;
      const format::UnitReader unit = dump_.open_unit(record);
      for (const std::string& group : record.groups) {
        if (options_.rollout && std::to_string(*options_.rollout) != group) continue;
        if (dump_.find("rollout", group).front() == &record)
          format::check_samples_once(dump_, group);
        if (holds_events_alone(unit, group)) continue;
        data_ = {};
        held_ = {};
        data_ = read_rollout_data(dump_, unit, group, &held_);
        rollout_ = group;
        const SampleTable table = SampleTable::of(data_);
        if (table.rows().contains(id_)) {
          add_fields(table, "", 0);
          return;
        }
        there.insert(data_.sample_id.begin(), data_.sample_id.end());
      }
    }
    check_chosen("sample", {id_}, there, "");
  }

  void find_steps() {
    for (const UnitRecord& record : dump_.units()) {
      if (format::kind_of(record.path) != "train") continue;
      const bool mine =
          std::any_of(record.groups.begin(), record.groups.end(),
                      [&](const std::string& group) { return group.starts_with(rollout_ + "-"); });
      if (!mine) continue;
      const format::UnitReader unit = dump_.open_unit(record);
      for (const std::string& group : record.groups) {
        if (!group.starts_with(rollout_ + "-") || !unit.find(group + "/sample_id")) continue;
        const uint64_t before = held_.bytes();
        trains_.push_back(std::make_unique<std::vector<TrainData>>());
        trains_.back()->push_back(read_train_rank(dump_, unit, group, held_));
        const SampleTable table = SampleTable::of(*trains_.back());
        const bool there = table.rows().contains(id_);
        const int64_t rank = format::rank_of(record.path);
        if (there) ranks_[group].insert(rank);
        if (there && add_fields(table, group + "/", rank)) continue;
        trains_.pop_back();  // what it says is there
        held_.give_back(held_.bytes() - before);
      }
    }
  }

  /// What the table says of its sample. What ranks say alike stands once, what a later one says
  /// otherwise under its rank. Whether there was anything to add.
  bool add_fields(const SampleTable& table, const std::string& prefix, int64_t rank) {
    const auto row = table.rows().find(id_);
    bool added = false;
    for (const SampleTable::Field& field : table.fields()) {
      const auto values = field.values(row->second);
      std::string name = field.name.substr(field.name.find('/') + 1);
      if (!values || name == "prompt_length") continue;  // the tokens show it
      const FieldValues* said = find(prefix + name);
      if (said != nullptr && is_same(*said, *values)) continue;
      if (said != nullptr) name = "rank" + std::to_string(rank) + "/" + name;
      fields_.push_back({prefix + name, *values});
      added = true;
    }
    return added;
  }

  static bool is_same(const FieldValues& a, const FieldValues& b) {
    return a.token == b.token &&
           std::visit(
               [](auto x, auto y) {
                 if constexpr (std::is_same_v<decltype(x), decltype(y)>) {
                   return std::ranges::equal(x, y, [](auto v, auto w) { return same_value(v, w); });
                 } else {
                   return false;
                 }
               },
               a.values, b.values);
  }

  /// The ranks that recorded a step, as text: "0, 1".
  static std::string ranks_text(const std::set<int64_t>& ranks) {
    std::string out;
    for (const int64_t rank : ranks) out += (out.empty() ? "" : ", ") + std::to_string(rank);
    return out;
  }

  const FieldValues* find(std::string_view name) const {
    for (const Named& field : fields_) {
      if (field.name == name) return &field.values;
    }
    return nullptr;
  }

  std::string text_of(std::string_view name) const {
    const FieldValues* field = find(name);
    if (field == nullptr) return "(not recorded)";
    const auto* text = std::get_if<std::string_view>(&field->values);
    return text == nullptr ? "" : std::string(*text);
  }

  std::string texts() const {
    return text_of("prompt_text") + "\n---\n" + text_of("response_text") + "\n";
  }

  std::string json() const {
    JsonLine line;
    line.text("schema", "rlreplay.show.sample/1").json("rollout_id", rollout_);
    line.json("sample_id", std::to_string(id_));
    for (const Named& field : fields_) line.json(field.name, list_json(field.values));
    for (const auto& [step, ranks] : ranks_) {
      if (ranks.size() > 1) line.json(step + "/ranks", "[" + ranks_text(ranks) + "]");
    }
    if (options_.token_text) line.json("token_texts", token_texts_json());
    return line.str() + "\n";
  }

  std::string table() const {
    std::string out = "sample " + std::to_string(id_) + " of rollout " + rollout_ + "\n";
    for (const Named& field : fields_) {
      if (field.values.token) continue;
      const std::string value = value_text(field);
      out += field.name + "  " + cut_line(value, kLineWidth - 2 - field.name.size()) + "\n";
    }
    for (const auto& [step, ranks] : ranks_) {
      if (ranks.size() > 1) out += step + "/ranks  " + ranks_text(ranks) + "\n";
    }
    out += removed_text();
    std::string more;
    const std::vector<const Named*> columns = token_columns(more);
    std::vector<std::string> header = {"token"};
    for (const Named* column : columns) {
      header.push_back(column->name == "tokens" ? "id" : column->name);
    }
    if (options_.token_text) header.push_back("text");
    TextTable rows(header);
    const FieldValues& tokens = *find("tokens");
    const uint64_t end = *tokens.token + size_of(tokens);
    const uint64_t shown = std::min(end, *tokens.token + kMostRows);
    for (uint64_t t = *tokens.token; t < shown; ++t) {
      std::vector<std::string> row = {std::to_string(t)};
      for (const Named* column : columns) row.push_back(value_at(column->values, t));
      if (options_.token_text) row.push_back(options_.token_text(token_at(t - *tokens.token)));
      rows.add(row);
    }
    if (!more.empty()) more = "\n" + wrapped("more, with --json: " + more, kLineWidth) + "\n";
    if (shown < end) {
      more = "\n" + std::to_string(end - shown) + " tokens more, with --json\n" + more;
    }
    return out + "\n" + rows.str() + more;
  }

  /// The lines of masks that a trainer has otherwise than the rollout; empty where all are alike.
  std::string removed_text() const {
    std::string out;
    for (const Named& field : fields_) {
      if (!field.name.ends_with("/loss_mask") || !differs(field)) continue;
      const auto* mask = std::get_if<std::span<const uint8_t>>(&field.values.values);
      const bool all = mask != nullptr && std::ranges::count(*mask, 0) == std::ssize(*mask);
      out += field.name + "  " +
             (all ? "0 of every token: removed from training" : "another than the rollout's") +
             "\n";
    }
    return out;
  }

  int32_t token_at(uint64_t place) const {
    return std::get<std::span<const int32_t>>(find("tokens")->values)[place];
  }

  std::string token_texts_json() const {
    std::string out;
    for (uint64_t t = 0; t < size_of(*find("tokens")); ++t) {
      out += (out.empty() ? "[" : ",") + json_quoted(options_.token_text(token_at(t)));
    }
    return out.empty() ? "[]" : out + "]";
  }

  /// The value of a field that has one for the whole sample, as text.
  std::string value_text(const Named& field) const {
    if (field.name == "reward_components") return components_text(field);
    if (field.name == "removed") return removed_value(field);
    const auto* text = std::get_if<std::string_view>(&field.values.values);
    if (text != nullptr) return std::string(*text);
    const auto* codes = std::get_if<std::span<const uint8_t>>(&field.values.values);
    if (field.name == "finish" && codes != nullptr && codes->size() == 1) {
      return std::string(to_string(static_cast<format::Finish>((*codes)[0])));
    }
    std::string list = list_json(field.values);
    const bool single = list.size() > 2 && list.find(',') == list.npos;
    return single ? list.substr(1, list.size() - 2) : list;
  }

  static std::string removed_value(const Named& field) {
    const auto& values = std::get<std::span<const uint8_t>>(field.values.values);
    return values[0] != 0 ? "1: out of training, its mask counts as zeros" : "0";
  }

  /// "acc 1, format 0".
  std::string components_text(const Named& field) const {
    const auto& values = std::get<std::span<const double>>(field.values.values);
    std::string out;
    for (size_t i = 0; i < values.size(); ++i) {
      out += (i == 0 ? "" : ", ") + data_.reward_components->names[i] + " " + shortest(values[i]);
    }
    return out;
  }

  /// Whether a step's field says of a token otherwise than the rollout's of that name.
  bool differs(const Named& field) const {
    const FieldValues* own = find(field.name.substr(field.name.find('/') + 1));
    if (own == nullptr || !field.values.token) return false;
    for (uint64_t t = *field.values.token; t < *field.values.token + size_of(field.values); ++t) {
      const std::string known = value_at(*own, t);
      if (!known.empty() && known != value_at(field.values, t)) return true;
    }
    return false;
  }

  /// The per-token fields that fit into a line, without the trainer's copies of what the rollout
  /// says. `more`: the names of those that do not fit.
  std::vector<const Named*> token_columns(std::string& more) const {
    std::vector<const Named*> columns;
    size_t width = options_.token_text ? 22 : 8;
    for (const Named& field : fields_) {
      const bool copy = field.name.ends_with("/tokens") ||
                        (field.name.ends_with("/loss_mask") && !differs(field)) ||
                        field.name.ends_with("/rollout_log_probs");
      if (!field.values.token || field.name == "prompt" || copy) continue;
      const bool narrow = field.name == "tokens" || field.name.ends_with("loss_mask");
      const size_t own = std::max<size_t>(field.name.size(), narrow ? 6 : 12) + 2;
      if (width + own > kLineWidth) {
        more += (more.empty() ? "" : " ") + field.name;
        continue;
      }
      width += own;
      columns.push_back(&field);
    }
    return columns;
  }

  static size_t size_of(const FieldValues& field) {
    return std::visit([](auto values) { return values.size(); }, field.values);
  }

  const DumpReader& dump_;
  const ShowOptions& options_;
  uint64_t id_;
  std::string rollout_;
  format::RolloutData data_;
  std::vector<std::unique_ptr<std::vector<TrainData>>> trains_;
  format::HeldBytes held_;                          // of both
  std::map<std::string, std::set<int64_t>> ranks_;  // of each step
  std::vector<Named> fields_;
};

}  // namespace

std::string show_sample(const DumpReader& dump, const ShowOptions& options) {
  return SampleView(dump, options).str();
}

}  // namespace rlreplay::replay
