#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace rlreplay {

/// A value of a JSON object that is read without a tree, typed on demand; valid in its call alone.
/// Errors: every getter throws kCorrupt with the value's place when the value is not what it asks.
class ScannedValue {
 public:
  enum class Other { kNull, kFraction, kArray, kObject };
  using Value = std::variant<Other, bool, int64_t, uint64_t, std::string_view>;

  ScannedValue(const std::string& where, std::string_view member, std::span<const size_t> place,
               Value value)
      : where_(where), member_(member), place_(place), value_(value) {}

  /// The name of the outermost object's member that the value is, or lies in.
  std::string_view member() const { return member_; }
  /// The number in each array of the member that the value lies in, from the outermost on.
  std::span<const size_t> place() const { return place_; }

  [[nodiscard]] bool is_null() const { return value_ == Value(Other::kNull); }
  std::string_view string() const;
  [[nodiscard]] bool boolean() const;
  /// An integer of [min, max].
  int64_t integer(int64_t min, int64_t max) const;
  /// That an array begins: its elements come next.
  void begin_array() const;

  /// Ends in kCorrupt.
  [[noreturn]] void refuse(const std::string& message) const;

 private:
  const std::string& where_;
  std::string_view member_;
  std::span<const size_t> place_;
  Value value_;
};

/// Calls `use` with each value of a JSON object in the order of the text: members, arrays when they
/// begin, then their elements; objects when they begin, and nothing that is in them.
/// Errors: as JsonDocument::parse; kCorrupt where the text is no object.
void scan_json(std::string_view text, const std::string& where,
               const std::function<void(const ScannedValue&)>& use);

}  // namespace rlreplay
