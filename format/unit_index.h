#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/rule.h"
#include "format/unit.h"
#include "src/base/buffer.h"

namespace rlreplay::format {

/// The table of units beside a manifest: SPEC.md section 2.
inline constexpr char kIndexName[] = "units.index";
inline constexpr uint64_t kMaxIndexBytes = uint64_t{4} << 30;
inline constexpr size_t kMaxUnits = 1'000'000;

/// The bytes that a unit takes in the index.
[[nodiscard]] uint64_t index_bytes(const UnitRecord& unit);

/// What an index says of a group of a unit; its texts lie in the index.
struct IndexedGroup {
  size_t row = 0;
  std::string_view path, name, counts;  // counts: empty where the record has none
  std::optional<Hash> content;

  std::string_view kind() const { return kind_of(path); }
};

/// An index in memory, whose structure is checked: units by row, sorted by path.
class UnitIndex {
 public:
  /// The index of units that are sorted by path.
  static Buffer<std::byte> encode(std::span<const UnitRecord* const> sorted);
  /// Errors: FormatError kUnitCount, kIndexForm, kUnitPath or kDuplicate.
  [[nodiscard]] static UnitIndex parse(Buffer<std::byte> bytes);

  std::span<const std::byte> bytes() const { return {bytes_.data(), bytes_.size()}; }
  size_t size() const { return units_; }
  /// The bytes of all stored units.
  uint64_t stored_bytes() const;
  std::string_view path(size_t row) const;
  /// The groups of all units: by unit, those of one in the order of its record.
  size_t group_count() const { return static_cast<size_t>(groups_); }
  IndexedGroup indexed_group(size_t number) const;
  /// Calls `use` with all groups of one kind and name, in the order of ranks, sorted by both.
  void for_each_name(const std::function<void(std::span<const IndexedGroup>)>& use) const;
  UnitRecord record(size_t row) const;
  /// The row of a path.
  [[nodiscard]] std::optional<size_t> find(std::string_view path) const;
  /// The rows of a kind that hold a group, in the order of ranks.
  [[nodiscard]] std::vector<size_t> find(std::string_view kind, std::string_view group) const;
  /// The hash of everything that a dump means: `meta`, and each unit's path and content.
  Hash root(std::string_view meta) const;

 private:
  struct Unit;
  struct Group;

  explicit UnitIndex(Buffer<std::byte> bytes) : bytes_(std::move(bytes)) {}
  void check_header();
  [[nodiscard]] std::optional<FormatError> check_units() const;
  void check_groups() const;
  void check_order() const;
  Unit unit(size_t row) const;
  Group group(size_t entry) const;
  size_t ordered(size_t place) const;
  [[nodiscard]] const std::byte* area(size_t number) const {
    return bytes_.data() + areas_[number];
  }
  std::string_view text(uint64_t at, uint64_t length) const;

  Buffer<std::byte> bytes_;
  uint64_t units_ = 0, groups_ = 0, strings_ = 0, counts_ = 0;  // how many; how many bytes
  enum Area : size_t { kUnits, kGroups, kOrder, kStrings, kCounts };
  std::array<uint64_t, 5> areas_ = {};  // where they begin
};

/// The records of an index, as a random-access range whose elements are made when they are first
/// asked for and then stay where they are. Several threads may read it at once.
class UnitList {
 public:
  explicit UnitList(UnitIndex index);
  ~UnitList();
  UnitList(UnitList&&) noexcept;

  const UnitIndex& index() const { return index_; }
  size_t size() const { return index_.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  const UnitRecord& operator[](size_t row) const;

  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = UnitRecord;
    using difference_type = std::ptrdiff_t;
    using pointer = const UnitRecord*;
    using reference = const UnitRecord&;

    Iterator() = default;
    Iterator(const UnitList* list, size_t row) : list_(list), row_(row) {}
    reference operator*() const { return (*list_)[row_]; }
    pointer operator->() const { return &(*list_)[row_]; }
    reference operator[](difference_type n) const { return *(*this + n); }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this += -1; }
    Iterator operator++(int) { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) { return std::exchange(*this, *this - 1); }
    Iterator& operator+=(difference_type n) {
      row_ = static_cast<size_t>(static_cast<difference_type>(row_) + n);
      return *this;
    }
    Iterator& operator-=(difference_type n) { return *this += -n; }
    friend Iterator operator+(Iterator at, difference_type n) { return at += n; }
    friend Iterator operator+(difference_type n, Iterator at) { return at += n; }
    friend Iterator operator-(Iterator at, difference_type n) { return at -= n; }
    friend difference_type operator-(const Iterator& a, const Iterator& b) {
      return static_cast<difference_type>(a.row_) - static_cast<difference_type>(b.row_);
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.row_ == b.row_; }
    friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.row_ <=> b.row_; }

   private:
    const UnitList* list_ = nullptr;
    size_t row_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }
  const UnitRecord& front() const { return (*this)[0]; }

 private:
  static constexpr size_t kPiece = 256;
  struct Made;

  UnitIndex index_;
  std::unique_ptr<Made> made_;
};

}  // namespace rlreplay::format
