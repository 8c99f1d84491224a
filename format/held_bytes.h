#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "format/unit.h"

/// What may be taken into memory of what a unit claims to decode to: zeros compress a thousand
/// times, so a small file can claim anything.
namespace rlreplay::format {

/// For columns of samples and events, of which no real run leaves more. `bytes` counts all that is
/// held of the unit. Errors: FormatError kDataLimit.
void check_budget(const UnitRecord& unit, const std::string& dataset, uint64_t bytes);

/// What is held at once of units that are read together, and of what is put together of them.
class HeldBytes {
 public:
  /// Before so many more are held of a unit. Errors: as of check_budget, of all units that were
  /// named.
  void hold(const UnitRecord& unit, const std::string& dataset, uint64_t bytes);
  void give_back(uint64_t bytes) { bytes_ -= bytes; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::set<std::string> units_;
  uint64_t stored_ = 0;  // bytes of their files
  uint64_t bytes_ = 0;
};

/// For tensors, which may be zero everywhere: beyond the budget, half of the memory that is
/// available. Errors: as above.
void check_memory(const UnitRecord& unit, const std::string& dataset, uint64_t bytes);

}  // namespace rlreplay::format
