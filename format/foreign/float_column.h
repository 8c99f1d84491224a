#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/foreign/numbers.h"

namespace rlreplay::foreign {

/// Floats of every response token, row by row (a row a sample). Kept as binary32 as long as that
/// is exact: what frameworks write as Python floats nearly always came from binary32.
class FloatColumn {
 public:
  explicit FloatColumn(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  size_t rows() const { return offsets_.size() - 1; }
  size_t row_size(size_t row) const { return offsets_[row + 1] - offsets_[row]; }

  /// Whether all values are exact in binary32.
  [[nodiscard]] bool is_narrow() const { return wide_.empty(); }

  /// Shapes: [rows + 1]; row i is [offsets[i], offsets[i + 1]) of the values.
  const std::vector<uint64_t>& offsets() const { return offsets_; }

  /// The values where is_narrow(), otherwise those of wide().
  const std::vector<float>& narrow() const { return narrow_; }
  const std::vector<double>& wide() const { return wide_; }

  double at(size_t row, size_t i) const {
    const size_t place = offsets_[row] + i;
    return is_narrow() ? static_cast<double>(narrow_[place]) : wide_[place];
  }

  /// Appends a row; an empty one where a sample has no such column.
  void add_row(const std::vector<double>& values);

 private:
  std::string name_;
  std::vector<uint64_t> offsets_ = {0};
  std::vector<float> narrow_;
  std::vector<double> wide_;
};

}  // namespace rlreplay::foreign
