#include "format/foreign/dump_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "format/foreign/absent_keys.h"
#include "format/foreign/no_dump.h"
#include "format/foreign/numbers.h"
#include "format/foreign/reward_check.h"
#include "format/foreign/text.h"
#include "format/foreign/train_columns.h"
#include "src/base/first_problems.h"
#include "src/base/words.h"

namespace rlreplay::foreign {
namespace {

constexpr int64_t kMaxToken = INT32_MAX;

constexpr auto kStatuses =
    std::to_array<std::string_view>({"pending", "completed", "truncated", "aborted", "failed"});

/// What every sample of a file has, be it None, in exports of this program, too: those leave out
/// other fields that a sample lacks.
constexpr auto kSampleKeys = std::to_array<std::string_view>(
    {"group_index", "prompt", "response", "response_length", "label", "reward", "loss_mask",
     "weight_versions", "rollout_log_probs", "status"});

/// What one file says of itself, by the kind of dump that it is: fields that must be there, lengths
/// that must agree, values in their ranges. A problem is reported and the check goes on without
/// what is wrong.
class Checker {
 public:
  Checker(const Tree& tree, const ProblemSink& sink) : tree_(tree), sink_(sink) {}

  void run(Value root) {
    if (const auto wrong = unknown_version(tree_, root)) {
      return report("unknown-version", *wrong, "");
    }
    switch (dump_kind(tree_, root)) {
      case DumpKind::kNone:
        sink_(no_dump_problem(tree_, root));
        break;
      case DumpKind::kRollout:
        rollout(root, *tree_.find(root, "samples"));
        break;
      case DumpKind::kTrainRank:
        train_rank(root, *tree_.find(root, "rollout_data"));
        break;
      case DumpKind::kTrainSamples:
        train_samples(root);
        break;
      case DumpKind::kPolicyLoss:
        break;
    }
  }

 private:
  void report(const char* code, const std::string& message, const std::string& where) {
    ++found_;
    sink_({code, message, where});
  }

  const Value* present(Value dict, std::string_view key) const {
    const Value* value = tree_.find(dict, key);
    return value == nullptr || value->kind == Kind::kNone ? nullptr : value;
  }

  /// The length of a list, tensor or array; nothing for other values. A bf16 slice of one element
  /// may have lost its dimension, so a 0-d tensor has length one.
  std::optional<size_t> length(Value value) const {
    if (value.kind == Kind::kList) return tree_.sequence(value).size();
    const std::optional<Numbers> numbers = Numbers::of(tree_, value);
    return numbers ? std::optional<size_t>(numbers->size()) : std::nullopt;
  }

  /// A stated length: an integer of at least 0.
  std::optional<size_t> stated(const Value* value, const char* name, const std::string& where) {
    if (value == nullptr) return std::nullopt;
    if (value->kind != Kind::kInt || value->integer < 0) {
      report("length-mismatch", std::string(name) + " is not a length", where);
      return std::nullopt;
    }
    return static_cast<size_t>(value->integer);
  }

  void equal_length(const Value* value, std::optional<size_t> wanted, std::string_view name,
                    const std::string& where) {
    if (value == nullptr || !wanted) return;
    const std::optional<size_t> found = length(*value);
    if (found == wanted) return;
    report("length-mismatch",
           std::string(name) +
               (found ? " has " + std::to_string(*found) + " entries, "
                      : std::string(" is no list, ")) +
               std::to_string(*wanted) + " are expected",
           where);
  }

  void tokens(Value value, const std::string& where) {
    const std::optional<Numbers> ids = Numbers::of(tree_, value);
    if (!ids || !ids->is_integer()) {
      return report("bad-token", "tokens holds something else than integers", where);
    }
    const std::optional<size_t> bad = ids->find([](auto token) {
      const auto id = static_cast<int64_t>(token);
      return id < 0 || id > kMaxToken;
    });
    if (!bad) return;
    report("bad-token",
           "token " + std::to_string(*bad) + " is " + std::to_string(ids->integer(*bad)), where);
  }

  void mask(const Value* value, std::string_view name, const std::string& where) {
    if (value == nullptr) return;
    const std::optional<Numbers> mask = Numbers::of(tree_, *value);
    if (!mask) {
      return report("bad-mask", std::string(name) + " holds something else than numbers", where);
    }
    const std::optional<size_t> bad = mask->find([](auto m) { return m != 0 && m != 1; });
    if (!bad) return;
    report("bad-mask", std::string(name) + " is neither 0 nor 1 at token " + std::to_string(*bad),
           where);
  }

  /// Whether a column that is there holds numbers alone. What does not is read as if it were not.
  bool numbers(const Value* value, std::string_view name, const std::string& where) {
    if (value == nullptr) return false;
    if (Numbers::of(tree_, *value)) return true;
    report("not-numbers", std::string(name) + " holds something else than numbers", where);
    return false;
  }

  /// Checks the log-probabilities of tokens that count. Of a slice it is not known which those are:
  /// as many values as tokens are masked may be anything.
  void log_probs(const Value* value, std::string_view name, const Value* loss_mask,
                 const std::string& where) {
    const auto column = value == nullptr ? std::nullopt : Numbers::of(tree_, *value);
    if (!column) return;
    const auto is_bad = [](auto number) {
      const auto x = static_cast<double>(number);
      return !std::isfinite(x) || x > kMostLogProb;
    };
    std::optional<size_t> bad = column->find(is_bad);
    const auto mask = loss_mask ? Numbers::of(tree_, *loss_mask) : std::nullopt;
    if (bad && mask) bad = counting(*column, *bad, *mask, is_bad);
    if (!bad) return;
    const double x = column->real(*bad);
    const std::string place = std::string(name) + " of token " + std::to_string(*bad);
    if (!std::isfinite(x)) return report("non-finite", place + " is not finite", where);
    report("bad-log-prob", place + " is " + std::to_string(x) + ", above zero", where);
  }

  /// The first bad value, from `begin`, of a token that counts.
  template <class IsBad>
  static std::optional<size_t> counting(const Numbers& column, size_t begin, const Numbers& mask,
                                        IsBad is_bad) {
    const bool slice = mask.size() != column.size();
    size_t masked = 0;
    for (size_t i = 0; slice && i < mask.size(); ++i) masked += mask.real(i) == 0;
    for (size_t i = begin; i < column.size(); ++i) {
      if (!is_bad(column.real(i)) || (!slice && mask.real(i) == 0)) continue;
      if (masked == 0) return i;
      --masked;
    }
    return std::nullopt;
  }

  void status(const Value* value, const std::string& where) {
    if (value == nullptr) return;
    const Value name = value->kind == Kind::kEnum ? tree_.sequence(*value)[1] : *value;
    const bool known = name.kind == Kind::kText && std::find(kStatuses.begin(), kStatuses.end(),
                                                             tree_.text(name)) != kStatuses.end();
    if (known) return;
    const std::string text = name.kind == Kind::kText ? printable(tree_.text(name)) : "no text";
    report("unknown-status", "the status is " + text, where);
  }

  bool is_own(Value root) const { return tree_.find(root, "rlreplay") != nullptr; }

  void rollout(Value root, Value samples) {
    std::set<int64_t> indices;
    for (size_t i = 0; i < tree_.sequence(samples).size(); ++i) {
      const Value sample = tree_.sequence(samples)[i];
      const std::string where = "sample " + std::to_string(i);
      rollout_sample(sample, where);
      const Value* index = present(sample, "index");
      if (index != nullptr && index->kind == Kind::kInt && !indices.insert(index->integer).second) {
        report("duplicate-index", "two samples have the index " + std::to_string(index->integer),
               where);
      }
    }
    if (!indices.empty()) absent_indices(tree_.sequence(samples));
    // Frameworks write all fields of their samples, be it as None. Two have rules of their own.
    report_absent(tree_.sequence(samples), [&, own = is_own(root)](std::string_view key) {
      if (own) return std::ranges::count(kSampleKeys, key) > 0;
      return key != "index" && key != "tokens";
    });
    check_reward_dicts(tree_, tree_.sequence(samples), sink_);
  }

  /// Samples that lack one of the `wanted` keys that others have.
  void report_absent(const Sequence& samples, const std::function<bool(std::string_view)>& wanted) {
    for (const AbsentKeys& found : absent_keys(tree_, samples, wanted)) {
      report("length-mismatch",
             found.name() +
                 (found.more > 0 ? " and " + counted(found.more, "key") + " more are missing"
                                 : " is missing") +
                 ", and sample " + std::to_string(found.first) + " of the file has " +
                 (found.more > 0 ? "the first" : "it"),
             "sample " + std::to_string(found.row));
    }
  }

  /// Where one sample has none, the place in the file is every sample's id.
  void absent_indices(const Sequence& samples) {
    for (size_t i = 0; i < samples.size(); ++i) {
      if (present(samples[i], "index") != nullptr) continue;
      report("length-mismatch", "index is None or missing, and other samples of the file have one",
             "sample " + std::to_string(i));
    }
  }

  void rollout_sample(Value sample, const std::string& where) {
    const Value* ids = present(sample, "tokens");
    if (ids != nullptr) tokens(*ids, where);
    const std::optional<size_t> response =
        stated(present(sample, "response_length"), "response_length", where);
    if (ids != nullptr && response && *response > length(*ids).value_or(*response)) {
      report("length-mismatch",
             "response_length is " + std::to_string(*response) + ", there are only " +
                 std::to_string(*length(*ids)) + " tokens",
             where);
    }
    equal_length(present(sample, "loss_mask"), response, "loss_mask", where);
    mask(present(sample, "loss_mask"), "loss_mask", where);
    for (const TrainColumn& column : kTrainColumns) {
      if (!column.is_cut() || column.repeats == Repeats::kNothing) continue;
      equal_length(present(sample, column.field), response, column.field, where);
    }
    numbers(present(sample, "rollout_log_probs"), "rollout_log_probs", where);
    log_probs(present(sample, "rollout_log_probs"), "rollout_log_probs",
              present(sample, "loss_mask"), where);
    status(present(sample, "status"), where);
  }

  /// The row of one sample of training data. Under context parallelism a rank holds a slice of the
  /// response, so a column may be shorter unless `whole`.
  template <class Column>
  void train_row(Column column, bool whole, const std::string& where) {
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
      if (!response) continue;
      const bool may_be_slice = known.holds == Holds::kAnySlice || (known.is_cut() && !whole);
      if (may_be_slice && length(*value).value_or(0) <= *response) continue;
      equal_length(value, response, known.name, where);
    }
    mask(column("loss_masks"), "loss_masks", where);
    if (total && response && *response > *total) {
      report("length-mismatch", "the response is longer than the whole sample", where);
    }
    const Value* mask_of = column("loss_masks");
    for (const TrainColumn& known : kTrainColumns) {
      if (known.holds != Holds::kLogProbs) continue;
      log_probs(column(known.name), known.name, mask_of, where);
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

  void train_rank(Value root, Value data) {
    const Value* ids = tree_.find(data, "tokens");
    if (ids == nullptr || ids->kind != Kind::kList) {
      return report("length-mismatch", "rollout_data has no list of tokens", "rollout_data");
    }
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
      train_row(column, false, "sample " + std::to_string(i));
    }
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
               std::string(known.name) + " is None or missing, and sample " +
                   std::to_string(first) + " of the file has it",
               "sample " + std::to_string(i));
      }
    }
  }

  void train_samples(Value root) {
    const bool whole = tree_.find(root, "format_version") != nullptr;
    const Value samples = *tree_.find(root, "samples");
    for (size_t i = 0; i < tree_.sequence(samples).size(); ++i) {
      const Value sample = tree_.sequence(samples)[i];
      const auto column = [&](std::string_view name) { return present(sample, name); };
      train_row(column, whole, "sample " + std::to_string(i));
    }
    const Sequence& rows = tree_.sequence(samples);
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

  const Tree& tree_;
  const ProblemSink& sink_;
  size_t found_ = 0;
};

}  // namespace

std::vector<Problem> check_dump(const Tree& tree, Value root, const ProblemSink& all) {
  FirstProblems<Problem> problems;
  const ProblemSink sink = [&](const Problem& found) {
    if (all) all(found);
    problems.add(found);
  };
  Checker(tree, sink).run(root);
  return std::move(problems).take();
}

}  // namespace rlreplay::foreign
