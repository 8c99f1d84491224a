#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "format/foreign/dump_check.h"
#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// What the values of one sample must be, whichever kind of dump it is of: lengths that agree,
/// numbers in their ranges. A problem is reported with the sample's place, and the check goes on
/// without what is wrong.
class SampleValues {
 public:
  SampleValues(const Tree& tree, const ProblemSink& sink) : tree_(tree), sink_(sink) {}

 protected:
  /// What holds integers of each token, as a sampler says them.
  static constexpr auto kOfIntegers =
      std::to_array<std::string_view>({"rollout_routed_experts", "rollout_indexer_topk"});

  void report(const char* code, const std::string& message, const std::string& where);

  /// The value of a key; null for None, too.
  [[nodiscard]] const Value* present(Value dict, std::string_view key) const;

  /// The length of a list, tensor or array; nothing for other values. A bf16 slice of one element
  /// may have lost its dimension, so a 0-d tensor has length one.
  [[nodiscard]] std::optional<size_t> length(Value value) const;

  /// A stated length: an integer of at least 0.
  [[nodiscard]] std::optional<size_t> stated(const Value* value, const char* name,
                                             const std::string& where);

  void equal_length(const Value* value, std::optional<size_t> wanted, std::string_view name,
                    const std::string& where);

  void tokens(Value value, const std::string& where);
  void mask(const Value* value, std::string_view name, const std::string& where);

  /// Whether a column that is there holds numbers alone. What does not is read as if it were not.
  [[nodiscard]] bool numbers(const Value* value, std::string_view name, const std::string& where);

  /// Checks what is there of integers, in lists of lists or in a tensor.
  void integers(const Value* value, std::string_view name, const std::string& where);

  /// Checks the log-probabilities of tokens that count. Of a slice it is not known which those are:
  /// as many values as tokens are masked may be anything.
  void log_probs(const Value* value, std::string_view name, const Value* loss_mask,
                 const std::string& where);

  /// Samples that lack one of the `wanted` keys that others have.
  void report_absent(const Sequence& samples, const std::function<bool(std::string_view)>& wanted);

  /// Whether the file is an export of this program: such leave out what is absent.
  [[nodiscard]] bool is_own(Value root) const { return tree_.find(root, "rlreplay") != nullptr; }

  const Tree& tree_;
  const ProblemSink& sink_;
  size_t found_ = 0;

 private:
  [[nodiscard]] bool holds_integers(Value value) const;
};

}  // namespace rlreplay::foreign
