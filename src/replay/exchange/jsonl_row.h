#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "format/sample_columns.h"
#include "src/base/json_value.h"

/// A line of a JSONL file, and the forms that its values have (jsonl.h).
namespace rlreplay::replay::jsonl {

/// One line with what its columns need to know of it.
struct Row {
  JsonDocument document;
  uint64_t length = 0;  // tokens
  uint64_t prompt = 0;
  mutable std::set<std::string, std::less<>> asked = {};  // keys that somebody reads
  JsonValue root() const { return document.root(); }
  [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const {
    asked.emplace(key);
    return root().find(key);
  }
};

/// A line with its lengths. Errors: kCorrupt where it has no tokens, or its lengths are not theirs.
[[nodiscard]] Row make_row(JsonDocument document);

/// A key that nothing reads is a mistake, and would be lost without a word.
void check_keys(JsonValue object, const std::set<std::string, std::less<>>& read);

/// check_keys() of a line: the keys that say its place and its columns' types are read as well.
void check_line(JsonValue root, std::set<std::string, std::less<>> read);

/// A number, or the text of its bits. Errors: kCorrupt for a number that only a wider type holds.
[[nodiscard]] double real(JsonValue value, bool wide);

/// An id: an integer of 64 bits without a sign. Errors: kCorrupt for any other value.
[[nodiscard]] uint64_t id_of(JsonValue value);

/// The names of an object's members, in the order of `columns` beside it where there is one.
[[nodiscard]] std::vector<std::string> names_of(JsonValue root, JsonValue object);

/// Whether every row has the key, or some, or none: nothing for none, an empty mask for all.
[[nodiscard]] std::optional<format::Presence> presence_of(const std::vector<Row>& rows,
                                                          std::string_view key);

/// Whether all lines have the key, or none. Errors: kCorrupt where some have it.
[[nodiscard]] bool all_or_none(const std::vector<Row>& rows, std::string_view key);

/// What lines call a column of the dump: "reward" for `rewards`, "prompt" for `prompt_text`.
[[nodiscard]] std::string_view key_of(std::string_view column);

}  // namespace rlreplay::replay::jsonl
