#include "format/budget.h"

#include "format/rule.h"
#include "src/base/available_memory.h"
#include "src/base/budget.h"

namespace rlreplay::format {
namespace {

FormatError too_much(const UnitRecord& unit, const std::string& dataset, uint64_t bytes,
                     const std::string& limit) {
  return {Rule::kDataLimit,
          std::to_string(bytes) + " bytes would be held decoded, of a file of " +
              std::to_string(unit.size) + " bytes: " + limit,
          unit.path, dataset};
}

}  // namespace

void check_budget(const UnitRecord& unit, const std::string& dataset, uint64_t bytes) {
  const uint64_t most = Budget::bytes_for(unit.size);
  if (bytes <= most) return;
  throw too_much(unit, dataset, bytes, "no table may take more than " + std::to_string(most));
}

void check_memory(const UnitRecord& unit, const std::string& dataset, uint64_t bytes) {
  if (bytes <= Budget::bytes_for(unit.size)) return;
  const auto most = static_cast<uint64_t>(available_memory()) / 2;
  if (bytes <= most) return;
  throw too_much(unit, dataset, bytes,
                 "that is more than half of the available memory, " + std::to_string(most));
}

}  // namespace rlreplay::format
