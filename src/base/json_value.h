#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/error.h"

namespace rlreplay {

/// What a JSON text may cost its reader.
struct JsonLimits {
  size_t max_bytes = size_t{1} << 30;
  int max_depth = 64;
  bool unique_keys = false;  // whether a key that occurs twice in an object is an error
};

class JsonDocument;

/// One value of a JsonDocument, typed on demand. Cheap to copy; valid as long as its document.
/// Errors: every getter throws kCorrupt with the value's place when the value is not what it asks.
class JsonValue {
 public:
  [[nodiscard]] bool is_null() const;
  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_array() const;
  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_integer() const;
  [[nodiscard]] bool is_number() const;

  const std::string& string() const;
  [[nodiscard]] bool boolean() const;
  double number() const;
  /// An integer of [min, max].
  int64_t integer(int64_t min, int64_t max) const;

  /// Number of elements of an array.
  size_t size() const;
  JsonValue at(size_t index) const;

  /// The member of an object, which must be there.
  JsonValue operator[](std::string_view key) const;
  /// The member of an object, or nothing when it is absent or null.
  [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const;
  /// All members of an object, sorted by key.
  std::vector<std::pair<std::string_view, JsonValue>> members() const;

  /// The value as compact JSON text.
  std::string dump() const;

  /// An error about this value: its place is `where` of the document and a JSON pointer.
  Error error(ErrorCode code, const std::string& message) const;
  Error error(const std::string& message) const { return error(ErrorCode::kCorrupt, message); }

 private:
  friend class JsonDocument;
  JsonValue(const nlohmann::json* value, const JsonDocument* document)
      : value_(value), document_(document) {}

  const nlohmann::json* value_;
  const JsonDocument* document_;
};

/// A parsed JSON text.
class JsonDocument {
 public:
  /// `where` names the text in errors: a path, or `path:line`.
  /// Errors: kCorrupt when the text breaks JSON's rules or the limits.
  [[nodiscard]] static JsonDocument parse(std::string_view text, std::string where,
                                          const JsonLimits& limits = {});
  /// Errors: kIncomplete when there is no such file, else as `parse`.
  [[nodiscard]] static JsonDocument read(const std::string& path, const JsonLimits& limits = {});

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  JsonValue root() const { return {root_.get(), this}; }
  const std::string& where() const { return where_; }

 private:
  friend class JsonValue;
  explicit JsonDocument(std::string where);

  std::unique_ptr<nlohmann::json> root_;
  std::string where_;
};

/// Text as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// The texts as a JSON list.
[[nodiscard]] std::string json_list(std::span<const std::string> texts);

/// A JSON list of what `write` makes of each item.
template <class Items, class Write>
[[nodiscard]] std::string json_list(const Items& items, const Write& write) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ",") + write(item);
  return "[" + out + "]";
}

}  // namespace rlreplay
