#include "format/group_io.h"

#include <algorithm>
#include <cstring>

#include "format/columns.h"
#include "src/base/ascii.h"

namespace rlreplay::format {

// Ends and order are enough: then every range of neighbours lies inside the values.
bool sound_offsets(const std::vector<uint64_t>& offsets, size_t size, size_t total) {
  return offsets.size() == size + 1 && offsets.front() == 0 && offsets.back() == total &&
         std::is_sorted(offsets.begin(), offsets.end());
}

void check_mask(std::span<const std::byte> mask, const std::string& unit, const std::string& path) {
  const auto odd = std::ranges::find_if(mask, [](std::byte m) { return m >= std::byte{2}; });
  if (odd == mask.end()) return;
  throw FormatError(Rule::kMeaning,
                    "element " + std::to_string(odd - mask.begin()) + " of a mask is " +
                        std::to_string(std::to_integer<int>(*odd)) + ", expected 0 or 1",
                    unit, path);
}

namespace {

std::string other_size(size_t size, size_t expected) {
  return "there are " + std::to_string(size) + " values, and the others make it " +
         std::to_string(expected);
}

}  // namespace

void GroupWriter::expect(bool condition, std::string_view name, std::string_view message) const {
  if (!condition) throw Error(ErrorCode::kUsage, std::string(message), path(name));
}

void GroupWriter::expect_size(size_t size, size_t expected, std::string_view name) const {
  if (size != expected) expect(false, name, other_size(size, expected));
}

void GroupWriter::add(std::string_view name, DType dtype, std::vector<uint64_t> shape,
                      std::span<const std::byte> bytes) {
  datasets_.push_back(
      {path(name), dtype, std::move(shape), bytes, owner_, {}, std::nullopt, {}, nullptr});
}

void GroupWriter::presence(std::string_view name, const Presence& presence) {
  if (presence.empty()) return;
  expect_size(presence.size(), extents_.samples, presence_name(name));
  add(presence_name(name), DType::kU8, {presence.size()}, std::as_bytes(std::span(presence)));
}

void GroupWriter::put(std::string_view name, const TokenFloats& column, size_t rows) {
  expect(column.narrow.empty() || column.wide.empty(), name, "it is there as f32 and as f64");
  if (column.is_wide()) {
    put(name, column.wide, rows);
  } else {
    put(name, column.narrow, rows);
  }
  presence(name, column.presence);
}

void GroupWriter::put(std::string_view name, const Texts& texts, size_t) {
  offsets(offsets_name(name), texts.offsets, texts.bytes.size());
  add(name, DType::kU8, {texts.bytes.size()}, std::as_bytes(std::span(texts.bytes)));
  presence(name, texts.presence);
}

void GroupWriter::put(std::string_view name, const TokenSets& sets, size_t rows) {
  offsets(offsets_name(name), sets.offsets, sets.ids.size());
  put(size_name(name), sets.sizes, rows);
  add(name, DType::kI32, {sets.ids.size()}, std::as_bytes(std::span(sets.ids)));
  presence(name, sets.presence);
}

void GroupWriter::offsets(std::string_view name, const std::vector<uint64_t>& offsets,
                          size_t total) {
  expect_size(offsets.size(), extents_.samples + 1, name);
  expect(sound_offsets(offsets, extents_.samples, total), name,
         "offsets do not ascend from 0 to their total, " + std::to_string(total));
  add(name, DType::kU64, {offsets.size()}, std::as_bytes(std::span(offsets)));
}

void GroupWriter::put(std::string_view name, const NamedColumns& columns, size_t rows) {
  expect(rows > 0, name, "there is nothing that they are of");
  named(name, columns, rows);
}

void GroupWriter::named(std::string_view name, const NamedColumns& columns, size_t rows) {
  expect_size(columns.values.size(), columns.names.size() * std::max<size_t>(rows, 1), name);
  std::vector<uint64_t> shape = {columns.names.size()};  // of one row without an axis of rows
  if (rows != 0) shape.insert(shape.begin(), rows);
  add(name, DType::kF64, std::move(shape), std::as_bytes(std::span(columns.values)));
  std::string names;
  for (const std::string& column : columns.names) {
    expect(column.find('\n') == column.npos, name, "the name of a column has a line break");
    names += (names.empty() ? "" : "\n") + column;
  }
  datasets_.back().attributes["columns"] = names;
  presence(name, columns.presence);
}

const StoredDataset* GroupReader::find(std::string_view name) const {
  return unit_.find(group_ + "/" + std::string(name));
}

void GroupReader::refuse(std::string_view name, const std::string& message) const {
  throw FormatError(Rule::kMeaning, message, unit_.record().path, group_ + "/" + std::string(name));
}

const StoredDataset& GroupReader::needed(std::string_view name) const {
  const StoredDataset* dataset = find(name);
  if (dataset == nullptr) refuse(name, "it is missing");
  return *dataset;
}

void GroupReader::expect_size(size_t size, size_t expected, std::string_view name) const {
  if (size != expected) refuse(name, other_size(size, expected));
}

void GroupReader::check_form(const StoredDataset& dataset, DType dtype) const {
  const auto refuse = [&](const std::string& message) {
    throw FormatError(Rule::kMeaning, message, unit_.record().path, dataset.path);
  };
  if (dataset.dtype != dtype) refuse(other_dtype(dataset.dtype, to_string(dtype)));
  const std::string_view path = dataset.path;
  const KnownDataset* row =
      find_known(kind_of(unit_.record().path), path.substr(path.find('/') + 1));
  if (row != nullptr && dataset.shape.size() != dimensions_of(*row)) refuse(other_dimensions(*row));
}

void GroupReader::hold(const StoredDataset& dataset) const {
  // Before memory is taken: the size is what the file claims.
  (shared_ != nullptr ? *shared_ : own_).hold(unit_.record(), dataset.path, dataset.bytes);
}

void GroupReader::read_into(const StoredDataset& dataset, std::span<std::byte> out) const {
  if (!dataset.base) return unit_.read(dataset, out);
  // Stored as a difference from another unit: the dump puts it together.
  const Buffer<std::byte> bytes = dump_.read(unit_, dataset);
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size());
}

void GroupReader::presence(std::string_view name, Presence& presence) {
  asked_.emplace(name);
  const std::string own = presence_name(name);
  const StoredDataset* dataset = find(own);
  if (dataset == nullptr) return;
  presence = read<uint8_t>(*dataset);
  expect_size(presence.size(), extents_.samples, own);
  check_mask(std::as_bytes(std::span(presence)), unit_.record().path, dataset->path);
}

void GroupReader::check_presences() {
  const std::string_view kind = kind_of(unit_.record().path);
  for (const KnownDataset& known : known_datasets()) {
    const bool by_sample = known.name.find('/') == known.name.npos &&
                           known.values != Values::kOffsets && known.values != Values::kSampleIds &&
                           known.shape.front() != 'M' && !is_digit(known.shape.front());
    const bool taken = by_sample && known.kind == kind && find(known.name) != nullptr;
    if (!taken || asked_.contains(known.name)) continue;
    if (is_left_out(known.name) || is_left_out(known.part_of)) continue;
    Presence there;
    presence(known.name, there);
    const auto absent = std::ranges::find(there, 0);
    if (absent == there.end()) continue;
    throw Error(ErrorCode::kUnsupported,
                presence_name(known.name) + " says that the sample in row " +
                    std::to_string(absent - there.begin()) + " has no " + std::string(known.name) +
                    ", which this program reads of all samples or of none: take the column out "
                    "(rlreplay strip --columns " +
                    std::string(known.name) + ")",
                unit_.record().path + ":" + group_ + "/" + presence_name(known.name));
  }
}

void GroupReader::take(std::string_view name, TokenFloats& column, size_t rows) {
  const StoredDataset* dataset = find(name);
  if (dataset != nullptr && dataset->dtype == DType::kF64) {
    take(name, column.wide, rows);
  } else {
    take(name, column.narrow, rows);
  }
  presence(name, column.presence);
}

void GroupReader::take(std::string_view name, Texts& texts, size_t) {
  const StoredDataset& dataset = needed(name);
  check_form(dataset, DType::kU8);
  texts.bytes = read_bytes<std::string>(dataset);
  texts.offsets = offsets(offsets_name(name), extents_.samples, texts.bytes.size());
  presence(name, texts.presence);
}

void GroupReader::take(std::string_view name, TokenSets& sets, size_t rows) {
  sets.ids = read<int32_t>(needed(name));
  sets.offsets = offsets(offsets_name(name), extents_.samples, sets.ids.size());
  take(size_name(name), sets.sizes, rows);
  presence(name, sets.presence);
}

std::vector<uint64_t> GroupReader::offsets(std::string_view name, size_t size, size_t total) {
  std::vector<uint64_t> values = read<uint64_t>(needed(name));
  expect_size(values.size(), size + 1, name);
  if (!sound_offsets(values, size, total)) {
    refuse(name, "offsets do not ascend from 0 to their total, " + std::to_string(total));
  }
  return values;
}

void GroupReader::named(std::string_view name, std::optional<NamedColumns>& columns, size_t rows) {
  const StoredDataset* dataset = find(name);
  if (dataset == nullptr) return;
  NamedColumns& made = columns.emplace();
  const auto it = dataset->attributes.find("columns");
  const auto* names =
      it == dataset->attributes.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (names == nullptr) refuse(name, "its columns have no names: expected an attribute `columns`");
  // `<=`: behind the last newline stands one more name, be it empty.
  for (size_t at = 0; !names->empty() && at <= names->size();) {
    const size_t end = std::min(names->find('\n', at), names->size());
    made.names.push_back(names->substr(at, end - at));
    at = end + 1;
  }
  made.values = read<double>(*dataset);
  expect_size(made.values.size(), made.names.size() * std::max<size_t>(rows, 1), name);
  presence(name, made.presence);
}

}  // namespace rlreplay::format
