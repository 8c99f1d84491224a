#include "format/foreign/training_rows.h"

#include <deque>
#include <map>
#include <string>

#include "format/foreign/numbers.h"
#include "format/foreign/sample_values.h"
#include "format/foreign/train_columns.h"
#include "format/foreign/tree_difference.h"

namespace rlreplay::foreign {
namespace {

constexpr const char* kRawReward = "raw_reward";

/// The samples of one file of training data, which is a dict of columns or a list of dicts. Where
/// columns differ in their lengths no row is looked at: nothing says which elements are of one
/// sample.
class TrainingRows : SampleValues {
 public:
  using SampleValues::SampleValues;

  void columns(Value root, Value data) {
    const Value* ids = tree_.find(data, "tokens");
    if (ids == nullptr || ids->kind != Kind::kList) {
      return report("length-mismatch", "rollout_data has no list of tokens", "rollout_data");
    }
    raw_reward_list(data, "rollout_data");
    const size_t rows = samples_of(data, tree_.sequence(*ids).size());
    const size_t before = found_;
    for (const TrainColumn& known : kTrainColumns) {
      if (!known.is_by_sample()) continue;
      equal_length(present(data, known.name), rows, known.name, "rollout_data");
    }
    if (found_ != before) return;
    absent_cells(root, rows, [&](std::string_view name, size_t row) {
      const Value* values = present(data, name);
      if (values == nullptr || values->kind != Kind::kList) return values != nullptr;
      const Sequence& list = tree_.sequence(*values);
      return row < list.size() && list[row].kind != Kind::kNone;
    });
    for (size_t i = 0; i < rows; ++i) {
      std::deque<Value> cells;  // lists of numbers are packed: their elements have no address
      const auto column = [&](std::string_view name) -> const Value* {
        const Value* values = present(data, name);
        if (values == nullptr || values->kind != Kind::kList) return nullptr;
        const Value cell = tree_.sequence(*values)[i];
        return cell.kind == Kind::kNone ? nullptr : &cells.emplace_back(cell);
      };
      check_row(column, false, "row " + std::to_string(i));
    }
  }

  void samples(Value root) {
    const bool whole = tree_.find(root, "format_version") != nullptr;
    const Value list = *tree_.find(root, "samples");
    for (size_t i = 0; i < tree_.sequence(list).size(); ++i) {
      const Value sample = tree_.sequence(list)[i];
      const auto column = [&](std::string_view name) { return present(sample, name); };
      check_row(column, whole, "row " + std::to_string(i));
    }
    const Sequence& rows = tree_.sequence(list);
    whole ? raw_reward_list(root, "raw_reward") : raw_rewards(rows);
    absent_cells(root, rows.size(), [&](std::string_view name, size_t row) {
      return present(rows[row], name) != nullptr;
    });
    // Samples of text alone may do without what others have of their images.
    report_absent(rows, [own = is_own(root)](std::string_view key) {
      const TrainColumn* const known = train_column(key);
      return !own && key != "sample_index" && key != "multimodal_train_inputs" &&
             (known == nullptr || !known->is_of_each());
    });
  }

 private:
  /// The row of one sample of training data. Under context parallelism a rank holds a slice of the
  /// response, so a column may be shorter unless `whole`.
  template <class Column>
  void check_row(Column column, bool whole, const std::string& where) {
    const Value* ids = column("tokens");
    if (ids != nullptr) tokens(*ids, where);
    const std::optional<size_t> total = stated(column("total_lengths"), "total_lengths", where);
    const std::optional<size_t> response =
        stated(column("response_lengths"), "response_lengths", where);
    equal_length(ids, total, "tokens", where);
    for (const TrainColumn& known : kTrainColumns) {
      const Value* value = known.is_of_response() ? column(known.name) : nullptr;
      const bool is_mask = known.name == "loss_masks";
      if (value == nullptr || (!is_mask && !numbers(value, known.name, where))) continue;
      if (!is_row(*value, known.name, where) || !response) continue;
      const bool may_be_slice = known.holds == Holds::kAnySlice || (known.is_cut() && !whole);
      if (may_be_slice && length(*value).value_or(0) <= *response) continue;
      equal_length(value, response, known.name, where);
    }
    mask(column("loss_masks"), "loss_masks", where);
    for (const std::string_view key : kOfIntegers) integers(column(key), key, where);
    if (total && response && *response > *total) {
      report("length-mismatch", "the response is longer than the whole sample", where);
    }
    const Value* mask_of = column("loss_masks");
    for (const TrainColumn& known : kTrainColumns) {
      if (known.holds != Holds::kLogProbs) continue;
      log_probs(column(known.name), known.name, mask_of, where);
    }
  }

  /// Whether a column of a sample has one axis, as trainers take it: they would broadcast another.
  bool is_row(Value value, std::string_view name, const std::string& where) {
    if (value.kind != Kind::kTensor || tree_.tensor(value).shape.size() < 2) return true;
    std::string shape;
    for (const int64_t size : tree_.tensor(value).shape) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    }
    report("length-mismatch",
           std::string(name) + " has the shape [" + shape + "], expected one axis", where);
    return false;
  }

  /// Reports the raw rewards of samples that are no numbers: of Relax, whose rows have their own.
  void raw_rewards(const Sequence& rows) {
    size_t first = 0;
    while (first < rows.size() && present(rows[first], kRawReward) == nullptr) ++first;
    for (size_t i = 0; first < rows.size() && i < rows.size(); ++i) {
      const Value* reward = tree_.find(rows[i], kRawReward);
      if (reward == nullptr || number_of(*reward)) continue;  // a key is missing: report_absent
      const std::string where = "row " + std::to_string(i);
      if (reward->kind == Kind::kNone) {
        report("length-mismatch",
               "raw_reward is None, and row " + std::to_string(first) + " of the file has it",
               where);
      } else {
        report("not-numbers", "raw_reward is " + in_words(tree_, *reward) + ", expected a number",
               where);
      }
    }
  }

  /// Reports what is no number in a list of the raw rewards of all samples of a rollout. Rewards
  /// may be dicts, and of some samples there may be none.
  void raw_reward_list(Value of, const std::string& where) {
    const Value* rewards = present(of, kRawReward);
    if (rewards == nullptr || Numbers::of(tree_, *rewards)) return;
    if (rewards->kind != Kind::kList) {
      return report("not-numbers",
                    "raw_reward is " + in_words(tree_, *rewards) + ", expected a list of numbers",
                    where);
    }
    const Sequence& list = tree_.sequence(*rewards);
    for (size_t i = 0; i < list.size(); ++i) {
      const Value item = list[i];
      if (number_of(item) || item.kind == Kind::kNone || item.kind == Kind::kDict) continue;
      return report("not-numbers",
                    "raw_reward[" + std::to_string(i) + "] is " + in_words(tree_, item) +
                        ", expected a number",
                    where);
    }
  }

  /// How many samples a file of columns holds: the length that most columns have. Of lengths that
  /// equally many have, that of `tokens` if it is one, else the least.
  size_t samples_of(Value data, size_t tokens) const {
    std::map<size_t, size_t> columns;
    for (const TrainColumn& known : kTrainColumns) {
      const Value* value = known.is_by_sample() ? present(data, known.name) : nullptr;
      const auto found = value == nullptr ? std::nullopt : length(*value);
      if (found) ++columns[*found];
    }
    size_t out = tokens;
    for (const auto& [size, count] : columns) {
      if (count > columns[out]) out = size;
    }
    return out;
  }

  /// Reports the samples that lack a column which other samples of the file have. `has`: of a
  /// column and a sample.
  template <class Has>
  void absent_cells(Value root, size_t samples, Has has) {
    if (is_own(root)) return;  // such leave out what is absent
    for (const TrainColumn& known : kTrainColumns) {
      if (!known.is_of_each()) continue;
      size_t first = 0;
      while (first < samples && !has(known.name, first)) ++first;
      for (size_t i = 0; first < samples && i < samples; ++i) {
        if (has(known.name, i)) continue;
        report("length-mismatch",
               std::string(known.name) + " is None or missing, and row " + std::to_string(first) +
                   " of the file has it",
               "row " + std::to_string(i));
      }
    }
  }
};

}  // namespace

void check_training_rows(const Tree& tree, Value root, const ProblemSink& sink) {
  TrainingRows check(tree, sink);
  if (dump_kind(tree, root) == DumpKind::kTrainRank) {
    check.columns(root, *tree.find(root, "rollout_data"));
  } else {
    check.samples(root);
  }
}

}  // namespace rlreplay::foreign
