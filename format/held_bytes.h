#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "format/unit.h"

/// What may be taken into memory of what a unit claims to decode to: zeros compress a thousand
/// times, so a small file can claim anything.
namespace rlreplay::format {

/// Refuses to take a dataset of columns of samples and events, of which no real run leaves more,
/// into memory. `bytes` counts all that is held of the unit. Errors: FormatError kDataLimit.
void check_budget(const UnitRecord& unit, const std::string& dataset, uint64_t bytes);

/// Counts what is held at once of units that are read, and put together, with each other.
class HeldBytes {
 public:
  /// Counts bytes before they are held. Errors: as check_budget, of all units counted here.
  void hold(const UnitRecord& unit, const std::string& dataset, uint64_t bytes);
  void give_back(uint64_t bytes) { bytes_ -= bytes; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::set<std::string> units_;
  uint64_t stored_ = 0;  // bytes of their files
  uint64_t bytes_ = 0;
};

/// Refuses to take a tensor into memory above both the budget and half of the memory that is
/// available: it may be zero everywhere. Errors: as above.
void check_memory(const UnitRecord& unit, const std::string& dataset, uint64_t bytes);

}  // namespace rlreplay::format
