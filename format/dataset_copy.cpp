#include "format/dataset_copy.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "format/folder.h"
#include "format/rule.h"
#include "format/sink.h"
#include "src/base/found_text.h"

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

EncodedUnit stored_unit(const std::string& dump, const UnitRecord& record) {
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  const auto file = Folder::open(dump).open_file(record.path);
  if (!file) throw FormatError(Rule::kUnitMissing, "a unit is missing", record.path);
  if (file->size != record.size) {
    throw FormatError(
        Rule::kUnitSize,
        "the file has " + std::to_string(file->size) + " bytes, not " + std::to_string(record.size),
        record.path);
  }
  MemorySink stored;
  Hasher hasher;
  Buffer<std::byte> piece(std::min(kPiece, record.size));
  for (uint64_t at = 0; at < record.size; at += kPiece) {
    const std::span<std::byte> now(piece.data(), std::min(kPiece, record.size - at));
    file->read(at, now);
    hasher.update(now);
    stored.write(at, now);
  }
  if (const Hash hash = hasher.finish(); hash != record.hash) {
    throw FormatError(Rule::kUnitHash,
                      found_text("the bytes do not have the hash that was recorded", hash.hex(),
                                 record.hash.hex()),
                      record.path);
  }
  return {record, h5::Image(stored.release(), record.size)};
}

}  // namespace rlreplay::format
