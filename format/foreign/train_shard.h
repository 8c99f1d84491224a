#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/numbers.h"
#include "format/foreign/torch_file.h"

namespace rlreplay::foreign {

/// One train dump as rows of samples, whichever way round the file holds them. Source: slime,
/// train_dump_utils.py, save_debug_train_data.
class TrainShard {
 public:
  /// Errors: kUnsupported where the file is no train dump, kCorrupt.
  explicit TrainShard(const TorchFile& file);

  const std::string& path() const { return file_->path(); }
  std::string name() const { return file_->name(); }
  /// The file and the sample of a row, for errors.
  std::string place(size_t row) const;
  int64_t rollout_id() const { return rollout_id_; }
  int64_t rank() const { return rank_; }

  /// What the file says of its place in context parallelism, if it does.
  [[nodiscard]] std::optional<int64_t> cp_rank() const { return cp_rank_; }
  [[nodiscard]] std::optional<int64_t> cp_size() const { return cp_size_; }

  /// Whether the framework has put context-parallel slices together already.
  [[nodiscard]] bool is_whole() const { return whole_; }

  const Tree& tree() const { return file_->tree(); }

  /// The names of its columns; of a file of rows those that any row has.
  std::vector<std::string> columns() const;

  /// Whether there is such a column; in a file of rows, of any row.
  [[nodiscard]] bool has(std::string_view column) const;

  /// A column's value for a row; nothing where it is absent.
  [[nodiscard]] std::optional<Value> find(size_t row, std::string_view column) const;

  /// Whether a column of a file of columns has a value for each row.
  [[nodiscard]] bool is_by_sample(std::string_view column) const;

  /// What lies beside the columns ("micro_batch_indices"), or a column as a whole.
  const Value* batch_value(std::string_view name) const;

  /// The indices of the samples, in the order of the file.
  const std::vector<int64_t>& indices() const { return indices_; }

  /// The cell of a row as numbers; nothing where the column is absent or holds something else.
  [[nodiscard]] std::optional<Numbers> cell(size_t row, std::string_view column) const;

  /// The cell as one number; nothing where it is absent. Errors: kCorrupt for anything else.
  [[nodiscard]] std::optional<double> scalar(size_t row, std::string_view column) const;

  /// The cell as one number, also of a column that is one tensor with an element a sample. Errors:
  /// as of `scalar`; kCorrupt where such a tensor has another number of elements.
  [[nodiscard]] std::optional<double> number(size_t row, std::string_view column) const;

  /// The cell as a length. Errors: kCorrupt where it is absent or no integer of 0 or more.
  int64_t length(size_t row, std::string_view column) const;

  /// The cell as an integer; nothing where it is absent or no whole number.
  [[nodiscard]] std::optional<int64_t> whole_number(size_t row, std::string_view column) const;

  /// The cell as a number of tokens; nothing where it is absent. Errors: kCorrupt for another.
  [[nodiscard]] std::optional<int64_t> token_count(size_t row, std::string_view column) const;

 private:
  [[nodiscard]] std::optional<int64_t> integer(std::string_view key) const;

  const TorchFile* file_;
  Value data_;           // dict of columns, or list of rows
  bool by_row_ = false;  // data_ is a list of rows
  bool whole_ = false;
  int64_t rollout_id_ = 0;
  int64_t rank_ = 0;
  std::optional<int64_t> cp_rank_;
  std::optional<int64_t> cp_size_;
  std::vector<int64_t> indices_;
  // Columns that are one tensor: of one that is not contiguous reading makes a copy.
  mutable std::map<std::string, std::optional<Numbers>, std::less<>> columns_;
};

}  // namespace rlreplay::foreign
