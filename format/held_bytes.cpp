#include "format/held_bytes.h"

#include "format/rule.h"
#include "src/base/allocation.h"
#include "src/base/budget.h"

namespace rlreplay::format {
namespace {

FormatError too_much(const UnitRecord& unit, const std::string& dataset, uint64_t bytes,
                     const std::string& limit, size_t files, uint64_t stored) {
  const std::string of = files == 1 ? "a file" : std::to_string(files) + " files";
  return {Rule::kDataLimit,
          std::to_string(bytes) + " bytes would be held decoded, of " + of + " of " +
              std::to_string(stored) + " bytes: " + limit,
          unit.path, dataset};
}

void expect_within(const UnitRecord& unit, const std::string& dataset, uint64_t bytes, size_t files,
                   uint64_t stored) {
  const uint64_t most = Budget::bytes_for(stored);
  if (bytes <= most) return;
  throw too_much(unit, dataset, bytes, "no table may take more than " + std::to_string(most), files,
                 stored);
}

}  // namespace

void check_budget(const UnitRecord& unit, const std::string& dataset, uint64_t bytes) {
  expect_within(unit, dataset, bytes, 1, unit.size);
}

void HeldBytes::hold(const UnitRecord& unit, const std::string& dataset, uint64_t bytes) {
  // Units of two dumps that are compared have the same paths.
  if (units_.insert(unit.path + " " + unit.hash.hex()).second) stored_ += unit.size;
  expect_within(unit, dataset, bytes_ + bytes, units_.size(), stored_);
  bytes_ += bytes;
}

void check_memory(const UnitRecord& unit, const std::string& dataset, uint64_t bytes) {
  if (bytes <= Budget::bytes_for(unit.size)) return;
  const auto most = static_cast<uint64_t>(available_memory()) / 2;
  if (bytes <= most) return;
  throw too_much(unit, dataset, bytes,
                 "that is more than half of the available memory, " + std::to_string(most), 1,
                 unit.size);
}

}  // namespace rlreplay::format
