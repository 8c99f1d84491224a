#include "format/dataset_copy.h"

#include <memory>
#include <span>
#include <utility>

namespace rlreplay::format {
namespace {

using Held = std::shared_ptr<const Buffer<std::byte>>;

Held held(Buffer<std::byte> bytes) {
  return std::make_shared<const Buffer<std::byte>>(std::move(bytes));
}

}  // namespace

Dataset copy_of(const DumpReader& dump, const UnitReader& unit, const StoredDataset& stored) {
  const Held bytes = held(dump.read(unit, stored));
  Dataset copy;
  copy.path = stored.path;
  copy.dtype = stored.dtype;
  copy.shape = stored.shape;
  copy.attributes = stored.attributes;
  copy.bytes = std::span<const std::byte>(*bytes);
  copy.owner = bytes;
  return copy;
}

Dataset copy_as_stored(const DumpReader& dump, const UnitReader& unit,
                       const StoredDataset& stored) {
  Dataset copy = copy_of(dump, unit, stored);
  if (!stored.base) return copy;
  const Held bytes = held(dump.read_base(unit, stored));
  copy.base = stored.base;
  copy.base_bytes = std::span<const std::byte>(*bytes);
  copy.base_owner = bytes;
  return copy;
}

}  // namespace rlreplay::format
