#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/replay/exchange/policy_loss_row.h"

namespace rlreplay::replay {

/// The columns of a row that the training data have, too; of a sample, nothing where they do not.
inline constexpr std::array kRepeatedColumns = {&PolicyLossRow::advantages, &PolicyLossRow::mask,
                                                &PolicyLossRow::sampled};
using RepeatedColumns = std::array<std::optional<std::vector<float>>, kRepeatedColumns.size()>;

/// What tells values from others: equal for those of which each is `same_value`.
[[nodiscard]] std::string hash_of_values(std::span<const std::vector<float>* const> columns);

/// Rows of policy_loss_debug that fit the same samples by lengths and old log-probabilities. Which
/// of them is a sample's is told by what it repeats of the training data, in logarithmic time: all
/// responses of one token may fit.
class AlikeRows {
 public:
  void add(PolicyLossRow row);

  /// Takes out the first row that says nothing else than the training data; where all say something
  /// else, the first row. There must be one.
  PolicyLossRow take(const RepeatedColumns& said);

  /// The rows that were not taken, by the order of their arrival.
  std::map<size_t, PolicyLossRow>& rows() { return rows_; }

 private:
  using Pattern = unsigned;  // a bit for each of kRepeatedColumns
  using Index = std::unordered_map<std::string, std::set<size_t>>;

  static std::string key_of(const PolicyLossRow& row, Pattern said);
  Index& index_of(Pattern said);
  [[nodiscard]] std::optional<size_t> find(const RepeatedColumns& said);

  std::map<size_t, PolicyLossRow> rows_;
  std::map<Pattern, Index> indexes_;  // by the columns of them that the samples have
  size_t next_ = 0;
};

}  // namespace rlreplay::replay
