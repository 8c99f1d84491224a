#include "src/replay/exchange/kept_difference.h"

#include "format/foreign/tree_difference.h"
#include "src/base/error.h"
#include "src/replay/exchange/kept_file.h"

namespace rlreplay::replay {
namespace {

const format::UnitRecord* find_unit(const format::DumpReader& dump, const std::string& path) {
  for (const format::UnitRecord& record : dump.units()) {
    if (record.path == path) return &record;
  }
  return nullptr;
}

RestoredFile restored(const format::DumpReader& dump, const format::UnitRecord& record) {
  const format::UnitReader unit = dump.open_unit(record);
  return {dump, unit, NativeReader(dump).of(unit), content_bytes(dump)};
}

}  // namespace

std::optional<std::string> kept_difference(const format::DumpReader& a, const format::DumpReader& b,
                                           const std::string& unit) {
  const format::UnitRecord *in_a = find_unit(a, unit), *in_b = find_unit(b, unit);
  if (in_a == nullptr || in_b == nullptr) return std::nullopt;
  try {
    RestoredFile x = restored(a, *in_a), y = restored(b, *in_b);
    const auto found = tree_difference(x.tree(), x.root(), y.tree(), y.root());
    return found ? found->place + ": " + found->a + ", in B " + found->b : "";
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kEnvironment || error.code() == ErrorCode::kInternal) throw;
    return std::nullopt;  // verify --deep says what is wrong with it
  }
}

}  // namespace rlreplay::replay
