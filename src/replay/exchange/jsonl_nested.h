#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "format/rollout_data.h"
#include "src/replay/exchange/jsonl_row.h"

/// Columns of rollouts of which a line holds more than a value or a list: several keys, or an
/// object. All give nothing where no line has the column, and take a row a line, in its order.
/// Errors: kCorrupt, naming the line and the key.
namespace rlreplay::replay::jsonl {

/// How a sample or a call ended, by the word for it: "stop". Errors: kCorrupt for another word.
[[nodiscard]] format::Finish finish_of(JsonValue value);

/// The columns of the object `key`, one for each of its members. Lines may lack the object; those
/// that have it must have the members of the first.
[[nodiscard]] std::optional<format::NamedColumns> components(const std::vector<Row>& rows,
                                                             std::string_view key);

/// The keys `versions` and `version_starts`, each of which all lines have or none.
[[nodiscard]] std::optional<format::Versions> versions(const std::vector<Row>& rows);

/// Whether a call's object has room for a number of this name.
[[nodiscard]] bool is_number_of_call(std::string_view name);

/// The key `calls`; a line without it has no call. A call's `finish`, `truncated`, `version` and
/// `seed` are of all calls or of none; its other members are numbers, NaN where a call lacks one.
[[nodiscard]] std::optional<format::Calls> calls(const std::vector<Row>& rows);

/// The key `experts`, which all lines have or none, with the same layers and slots.
[[nodiscard]] std::optional<format::Experts> experts(const std::vector<Row>& rows);

/// The key `nucleus`, which lines may lack: the ids that top-p left for each response token.
[[nodiscard]] std::optional<format::TokenSets> nuclei(const std::vector<Row>& rows);

}  // namespace rlreplay::replay::jsonl
