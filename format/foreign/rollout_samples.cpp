#include "format/foreign/rollout_samples.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "format/foreign/reward_check.h"
#include "format/foreign/sample_values.h"
#include "format/foreign/text.h"
#include "format/foreign/train_columns.h"

namespace rlreplay::foreign {
namespace {

constexpr auto kStatuses =
    std::to_array<std::string_view>({"pending", "completed", "truncated", "aborted", "failed"});

/// What every sample of a file has, be it None, in exports of this program, too: those leave out
/// other fields that a sample lacks.
constexpr auto kSampleKeys = std::to_array<std::string_view>(
    {"group_index", "prompt", "response", "response_length", "label", "reward", "loss_mask",
     "weight_versions", "rollout_log_probs", "status"});

/// The samples of one file: first each alone, then what only all of them can break, an index, a key
/// or a reward that some have and others lack.
class RolloutSamples : SampleValues {
 public:
  using SampleValues::SampleValues;

  void run(Value root, Value samples) {
    std::set<int64_t> indices;
    for (size_t i = 0; i < tree_.sequence(samples).size(); ++i) {
      const Value sample = tree_.sequence(samples)[i];
      const std::string where = "row " + std::to_string(i);
      rollout_sample(sample, where);
      const Value* index = present(sample, "index");
      if (index != nullptr && index->kind == Kind::kInt && index->integer < 0) {
        report("bad-index", "index is " + std::to_string(index->integer) + ", expected 0 or more",
               where);
      }
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
    check_rewards(tree_, tree_.sequence(samples), sink_);
  }

 private:
  void status(const Value* value, const std::string& where) {
    if (value == nullptr) return;
    const Value name = value->kind == Kind::kEnum ? tree_.sequence(*value)[1] : *value;
    const bool known = name.kind == Kind::kText && std::find(kStatuses.begin(), kStatuses.end(),
                                                             tree_.text(name)) != kStatuses.end();
    if (known) return;
    const std::string text = name.kind == Kind::kText ? printable(tree_.text(name)) : "no text";
    report("unknown-status", "the status is " + text, where);
  }

  /// Where one sample has none, the place in the file is every sample's id.
  void absent_indices(const Sequence& samples) {
    for (size_t i = 0; i < samples.size(); ++i) {
      if (present(samples[i], "index") != nullptr) continue;
      report("length-mismatch", "index is None or missing, and other samples of the file have one",
             "row " + std::to_string(i));
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
    const Value* sampled = present(sample, "rollout_log_probs");
    if (numbers(sampled, "rollout_log_probs", where)) {
      log_probs(sampled, "rollout_log_probs", present(sample, "loss_mask"), where);
    }
    for (const std::string_view key : kOfIntegers) integers(present(sample, key), key, where);
    status(present(sample, "status"), where);
  }
};

}  // namespace

void check_rollout_samples(const Tree& tree, Value root, const ProblemSink& sink) {
  RolloutSamples(tree, sink).run(root, *tree.find(root, "samples"));
}

}  // namespace rlreplay::foreign
