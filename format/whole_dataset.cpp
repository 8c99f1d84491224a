#include "format/whole_dataset.h"

#include "format/held_bytes.h"

namespace rlreplay::format {

void check_whole(const UnitRecord& unit, const StoredDataset& dataset) {
  const std::string_view kind = kind_of(unit.path);
  const bool table = kind == "rollout" || kind == "train";
  if (table && !dataset.base) return check_budget(unit, dataset.path, dataset.bytes);
  check_memory(unit, dataset.path, dataset.bytes);
}

}  // namespace rlreplay::format
