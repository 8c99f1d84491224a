#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "format/rollout_data.h"
#include "src/replay/exchange/jsonl_row.h"

/// Columns of rollouts of which a line holds more than a value or a list: several keys, or an
/// object. Nothing where no line has them.
/// Errors: kCorrupt, naming the line and the key.
namespace rlreplay::replay::jsonl {

/// By its name: "stop".
format::Finish finish_of(JsonValue value);

[[nodiscard]] std::optional<format::NamedColumns> components(const std::vector<Row>& rows,
                                                             std::string_view key);
[[nodiscard]] std::optional<format::Versions> versions(const std::vector<Row>& rows);
/// Whether a call's object has room for a number of this name.
[[nodiscard]] bool is_number_of_call(std::string_view name);
[[nodiscard]] std::optional<format::Calls> calls(const std::vector<Row>& rows);
[[nodiscard]] std::optional<format::Experts> experts(const std::vector<Row>& rows);
[[nodiscard]] std::optional<format::TokenSets> nuclei(const std::vector<Row>& rows);

}  // namespace rlreplay::replay::jsonl
