#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "format/held_bytes.h"
#include "format/rule.h"
#include "format/sample_columns.h"

/// Writes and reads the columns of RolloutData and TrainData, a form of column each way.
namespace rlreplay::format {

/// The dtype of a column of T; of masks, flags and enumerations a byte.
template <class T>
[[nodiscard]] constexpr DType dtype_for() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, uint16_t>) return DType::kU16;
  if constexpr (std::is_same_v<T, uint32_t>) return DType::kU32;
  if constexpr (std::is_same_v<T, uint64_t>) return DType::kU64;
  if constexpr (sizeof(T) == 1) return DType::kU8;
}

/// The numbers of samples and tokens that every column must fit.
struct Extents {
  size_t samples = 0;
  size_t tokens = 0;
  size_t of(Axis axis) const { return axis == Axis::kSample ? samples : tokens; }
};

inline constexpr std::string_view kPresenceSuffix = "_present";

/// The names of the datasets beside the column `name`: which samples have a value, where the values
/// of each sample begin, and how many each token has.
[[nodiscard]] inline std::string presence_name(std::string_view name) {
  return std::string(name) + std::string(kPresenceSuffix);
}
[[nodiscard]] inline std::string offsets_name(std::string_view name) {
  return std::string(name) + "_offsets";
}
[[nodiscard]] inline std::string size_name(std::string_view name) {
  return std::string(name) + "_size";
}

/// Errors: FormatError kMeaning unless the bytes of a mask are 0 or 1.
void check_mask(std::span<const std::byte> mask, const std::string& unit, const std::string& path);

/// Whether offsets begin with 0, ascend, are `size` + 1 and end with `total`.
[[nodiscard]] bool sound_offsets(const std::vector<uint64_t>& offsets, size_t size, size_t total);

/// Collects the datasets of a group; they view the data that `owner` keeps alive.
class GroupWriter {
 public:
  GroupWriter(std::string group, std::shared_ptr<const void> owner, Extents extents)
      : group_(std::move(group)), owner_(std::move(owner)), extents_(extents) {}

  template <class T>
  void put(std::string_view name, const std::vector<T>& values, size_t rows) {
    expect_size(values.size(), rows, name);
    add(name, dtype_for<T>(), {values.size()}, std::as_bytes(std::span(values)));
  }
  template <class T>
  void put(std::string_view name, const std::optional<T>& field, size_t rows) {
    if (field) put(name, *field, rows);
  }
  template <class T>
  void put(std::string_view name, const Column<T>& column, size_t rows) {
    put(name, column.values, rows);
    presence(name, column.presence);
  }
  void put(std::string_view name, const TokenFloats& column, size_t rows);
  void put(std::string_view name, const Texts& texts, size_t rows);
  void put(std::string_view name, const TokenSets& sets, size_t rows);
  void put(std::string_view name, const NamedColumns& columns, size_t rows);
  void offsets(std::string_view name, const std::vector<uint64_t>& offsets, size_t total);
  /// Shapes: [rows, names], or [names] for `rows` 0.
  void named(std::string_view name, const NamedColumns& columns, size_t rows);

  void add(std::string_view name, DType dtype, std::vector<uint64_t> shape,
           std::span<const std::byte> bytes);
  void add(Dataset dataset) { datasets_.push_back(std::move(dataset)); }
  /// Errors: kUsage unless `condition`.
  void expect(bool condition, std::string_view name, std::string_view message) const;
  /// Errors: kUsage, with both sizes, where they differ.
  void expect_size(size_t size, size_t expected, std::string_view name) const;
  std::string path(std::string_view name) const { return group_ + "/" + std::string(name); }

  std::vector<Dataset> finish() { return std::move(datasets_); }

 private:
  void presence(std::string_view name, const Presence& presence);

  std::string group_;
  std::shared_ptr<const void> owner_;  // each of `datasets_` has it, too
  Extents extents_;
  std::vector<Dataset> datasets_;
};

/// Fills fields from the datasets of a group; a field without its dataset stays absent.
class GroupReader {
 public:
  /// Draws on `held` where other groups are held with it.
  GroupReader(const DumpReader& dump, const UnitReader& unit, std::string group,
              HeldBytes* held = nullptr)
      : dump_(dump), unit_(unit), group_(std::move(group)), shared_(held) {}

  void set_extents(Extents extents) { extents_ = extents; }
  /// Optional fields of these names stay absent, their datasets undecoded.
  void leave_out(std::vector<std::string> names) { left_out_ = std::move(names); }

  template <class T>
  void take(std::string_view name, std::vector<T>& values, size_t rows) {
    values = read<T>(needed(name));
    expect_size(values.size(), rows, name);
  }
  template <class T>
  void take(std::string_view name, std::optional<T>& field, size_t rows) {
    if (is_left_out(name)) return;
    if (find(name) != nullptr) take(name, field.emplace(), rows);
  }
  template <class T>
  void take(std::string_view name, Column<T>& column, size_t rows) {
    take(name, column.values, rows);
    presence(name, column.presence);
  }
  void take(std::string_view name, TokenFloats& column, size_t rows);
  void take(std::string_view name, Texts& texts, size_t rows);
  void take(std::string_view name, TokenSets& sets, size_t rows);
  /// Reads a table that has a row a sample. Without rows it stays absent: it has no names either.
  void take(std::string_view name, std::optional<NamedColumns>& columns, size_t rows) {
    if (rows > 0) named(name, columns, rows);
  }
  /// Reads the `size` + 1 offsets of `size` rows. Errors: FormatError kMeaning unless they ascend
  /// from 0 to `total`.
  std::vector<uint64_t> offsets(std::string_view name, size_t size, size_t total);
  void named(std::string_view name, std::optional<NamedColumns>& columns, size_t rows);
  /// Which samples have a value of a column; stays empty where nothing says so.
  void presence(std::string_view name, Presence& presence);
  /// Sees that what says of a column that samples have no value was asked for by whoever took it.
  /// Errors: kUnsupported, naming column and sample.
  void check_presences();

  [[nodiscard]] const StoredDataset* find(std::string_view name) const;
  /// Errors: FormatError kMeaning where it is missing.
  [[nodiscard]] const StoredDataset& needed(std::string_view name) const;
  template <class T>
  std::vector<T> read(const StoredDataset& dataset) const {
    check_form(dataset, dtype_for<T>());
    hold(dataset);
    std::vector<T> values(dataset.bytes / sizeof(T));
    read_into(dataset, std::as_writable_bytes(std::span(values)));
    return values;
  }
  /// The bytes of a dataset of any dtype, in a container of bytes.
  template <class Container>
  [[nodiscard]] Container read_bytes(const StoredDataset& dataset) const {
    hold(dataset);
    Container bytes(static_cast<size_t>(dataset.bytes), typename Container::value_type{});
    read_into(dataset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  /// Errors: FormatError kMeaning for another dtype, or other dimensions than the tables say.
  void check_form(const StoredDataset& dataset, DType dtype) const;
  /// Throws FormatError kMeaning of the dataset.
  [[noreturn]] void refuse(std::string_view name, const std::string& message) const;
  /// Errors: FormatError kMeaning, with both sizes, where they differ.
  void expect_size(size_t size, size_t expected, std::string_view name) const;

 private:
  /// Counts what the columns of the group take. Errors: FormatError kDataLimit.
  void hold(const StoredDataset& dataset) const;
  void read_into(const StoredDataset& dataset, std::span<std::byte> out) const;
  [[nodiscard]] bool is_left_out(std::string_view name) const {
    return std::find(left_out_.begin(), left_out_.end(), name) != left_out_.end();
  }

  const DumpReader& dump_;
  const UnitReader& unit_;
  std::string group_;
  Extents extents_;
  std::vector<std::string> left_out_;
  std::set<std::string, std::less<>> asked_;  // columns whose presence somebody wanted
  HeldBytes* shared_;
  mutable HeldBytes own_;
};

}  // namespace rlreplay::format
