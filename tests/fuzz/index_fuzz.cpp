#include "format/unit_index.h"
#include "tests/fuzz/answer.h"

/// An index of units as it lies in a file: whatever is taken can be read, and found.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  return fuzz::answer([&] {
    const auto bytes = fuzz::bytes_of(data, size);
    Buffer<std::byte> copy(size);
    std::copy(bytes.begin(), bytes.end(), copy.data());
    const format::UnitList units(format::UnitIndex::parse(std::move(copy)));
    for (const format::UnitRecord& unit : units) {
      check(units.index().find(unit.path).has_value(), "a unit is not found");
      for (const std::string& group : unit.groups) {
        check(!units.index().find(format::kind_of(unit.path), group).empty(),
              "a group is not found");
      }
    }
  });
}
