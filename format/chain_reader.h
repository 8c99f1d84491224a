#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
#include "format/unit.h"
#include "format/unit_reader.h"

namespace rlreplay::format {

class DumpReader;

/// Reads groups whose datasets are differences to those of another unit. Each unit that they rest
/// on is decoded into the same memory, the full one first and one at a time: what it takes is the
/// tensors and two stored units, however long the chain. What was decoded last stays, so the state
/// after it costs one difference.
class ChainReader {
 public:
  /// The memory of the dataset of this name, whatever the group: always the same, of the size that
  /// the dataset has. None for a dataset that is not wanted.
  using Place = std::function<std::span<std::byte>(const StoredDataset& dataset)>;

  /// `dump` must outlive the reader.
  ChainReader(const DumpReader& dump, Place place);

  /// Decodes what the wanted differences of a group rest on.
  /// Errors: FormatError from kUnitMissing on, naming the unit that breaks the rule.
  void begin(const UnitReader& unit, std::string_view group);

  /// Decodes a wanted dataset of the group into its memory.
  /// Errors: FormatError with kFrame, kParent or kDatasetHash.
  std::span<const std::byte> read(const UnitReader& unit, const StoredDataset& dataset);

  /// Somebody else writes into the memory of the datasets of this name: no difference rests on it.
  void forget(const std::string& name) { held_.erase(name); }

 private:
  /// Differences, by name, and the unit that holds what all of them rest on.
  struct Link {
    std::string of, base_unit;
    std::map<std::string, StoredDataset> differences;
    void add(std::string name, const StoredDataset& dataset);
  };
  struct Held {
    Hash hash;
    int depth = 0;  // differences between it and its full copy
  };

  Link differences_of(const UnitReader& unit, std::string_view group) const;
  [[nodiscard]] bool holds_bases(const Link& link) const;
  const UnitRecord& base_record(const Link& link) const;
  void decode_bases(const Link& link);

  const DumpReader& dump_;
  Place place_;
  std::map<std::string, Held> held_;  // by name
};

}  // namespace rlreplay::format
