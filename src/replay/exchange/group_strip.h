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
  [[nodiscard]] bool cut(const std::string& name, format::Dataset& dataset) const;

 private:
  [[nodiscard]] const format::StoredDataset* find(const std::string& name) const;
  void cut_offsets(format::Dataset& dataset) const;
  void cut_rows(const Lengths& places, format::Dataset& dataset) const;

  const format::DumpReader& dump_;
  const format::UnitReader& unit_;
  std::string group_;
  std::vector<uint8_t> rows_;
};

}  // namespace rlreplay::replay
