#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "format/unit.h"
#include "format/unit_reader.h"

namespace rlreplay::replay {

/// One group of a rollout or a step, of which some samples stay.
class GroupStrip {
 public:
  using Lengths = std::vector<uint64_t>;

  /// `dump` and `unit` outlive it.
  GroupStrip(const format::DumpReader& dump, const format::UnitReader& unit, std::string group)
      : dump_(dump), unit_(unit), group_(std::move(group)) {}

  /// A dataset of whole numbers; nothing where there is none of this name.
  [[nodiscard]] Lengths numbers(const std::string& name) const;

  /// `rows`: of samples, 1 stays.
  void keep(std::vector<uint8_t> rows) { rows_ = std::move(rows); }
  [[nodiscard]] bool keeps_all() const;
  [[nodiscard]] bool keeps_none() const;

  /// Cuts a dataset down to the rows that are kept; false, unchanged, where nobody knows its rows.
  /// Errors: FormatError kMeaning where it has other rows than the samples or its offsets say.
  [[nodiscard]] bool cut(const std::string& name, format::Dataset& dataset) const;

 private:
  [[nodiscard]] const format::StoredDataset* find(const std::string& name) const;
  /// Sees that `places`, those of the dataset `by`, lead through the rows of the dataset `name`.
  void expect_sound(const std::string& name, const std::string& by, const Lengths& places,
                    uint64_t rows) const;
  void cut_offsets(const std::string& name, format::Dataset& dataset) const;
  void cut_rows(const std::string& name, const std::string& by, const Lengths& places,
                format::Dataset& dataset) const;

  const format::DumpReader& dump_;
  const format::UnitReader& unit_;
  std::string group_;
  std::vector<uint8_t> rows_;
};

}  // namespace rlreplay::replay
