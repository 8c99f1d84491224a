#include "src/replay/exchange/jsonl_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "src/base/number_text.h"
#include "src/base/words.h"

namespace rlreplay::replay::jsonl {

void check_keys(JsonValue object, const std::set<std::string, std::less<>>& read) {
  for (const auto& [key, value] : object.members()) {
    if (read.contains(key)) continue;
    const auto meant = nearest(key, std::vector<std::string>(read.begin(), read.end()));
    throw object.error("there is no key \"" + std::string(key) + "\"" +
                       (meant ? ", did you mean \"" + *meant + "\"?"
                              : ": rlreplay import --help names those that are read"));
  }
}

void check_line(JsonValue root, std::set<std::string, std::less<>> read) {
  read.insert({"schema", "rollout_id", "sample_id", "step_id", "rank", "columns", "wide"});
  check_keys(root, read);
}

// Text is the bits in hex, by which NaNs and infinities survive, of the column's own width.
double real(JsonValue value, bool wide) {
  if (!value.is_string()) {
    const double number = value.number();
    if (wide || std::isfinite(static_cast<float>(number))) return number;
    throw value.error(value.dump() +
                      " is too large for binary32, the type of a column that `wide` does not name");
  }
  const std::string& text = value.string();
  const auto bits = parse_number<uint64_t>(text, 16);
  const size_t digits = wide ? 16 : 8;
  if (!bits || text.size() != digits) {
    throw value.error("found \"" + text.substr(0, 100) + "\", expected a number or its bits, " +
                      std::to_string(digits) + " hexadecimal digits");
  }
  if (wide) return std::bit_cast<double>(*bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(*bits)));
}

uint64_t id_of(JsonValue value) {
  const std::string text = value.dump();
  const auto id = parse_number<uint64_t>(text);
  if (value.is_integer() && id) return *id;
  throw value.error("expected an integer from 0 to " + std::to_string(UINT64_MAX) + ", found " +
                    text);
}

std::vector<std::string> names_of(JsonValue root, JsonValue object) {
  std::vector<std::string> names;
  if (const auto columns = root.find("columns")) {
    for (size_t i = 0; i < columns->size(); ++i) {
      if (std::ranges::count(names, columns->at(i).string()) > 0) {
        throw columns->at(i).error("`columns` names \"" + columns->at(i).string() + "\" twice");
      }
      names.push_back(columns->at(i).string());
    }
  } else {
    for (const auto& [name, number] : object.members()) names.emplace_back(name);
  }
  for (const std::string& name : names) {
    if (name.empty() || name.find('\n') != name.npos) {
      throw object.error("the name \"" + name + "\" is empty or has a line end: no dump holds it");
    }
  }
  if (names.size() != object.members().size()) {
    throw object.error("it has " + counted(object.members().size(), "member") +
                       ", `columns` names " + std::to_string(names.size()));
  }
  return names;
}

Row make_row(JsonDocument document) {
  Row row{std::move(document)};
  const auto ids = row.find("tokens");
  const auto length = row.find("length");
  if (!ids && !length) throw row.root().error("there are no tokens");
  row.length = ids ? ids->size() : static_cast<uint64_t>(length->integer(0, 1 << 30));
  if (ids && length && length->integer(0, INT64_MAX) != static_cast<int64_t>(row.length)) {
    throw length->error("it is " + length->dump() + ", and `tokens` has " +
                        std::to_string(row.length) + ": leave it out, or write how many there are");
  }
  if (const auto prompt = row.find("prompt_length")) {
    row.prompt = static_cast<uint64_t>(prompt->integer(0, static_cast<int64_t>(row.length)));
  }
  return row;
}

// As columns have it: empty where every row has a value.
std::optional<format::Presence> presence_of(const std::vector<Row>& rows, std::string_view key) {
  format::Presence mask;
  for (const Row& row : rows) mask.push_back(row.find(key) ? 1 : 0);
  const auto count = std::count(mask.begin(), mask.end(), 1);
  if (count == 0) return std::nullopt;
  if (static_cast<size_t>(count) == mask.size()) mask.clear();
  return mask;
}

bool all_or_none(const std::vector<Row>& rows, std::string_view key) {
  const std::optional<format::Presence> mask = presence_of(rows, key);
  if (!mask) return false;
  if (mask->empty()) return true;
  const auto missing = std::find(mask->begin(), mask->end(), 0) - mask->begin();
  throw rows[static_cast<size_t>(missing)].root().error(
      "'" + std::string(key) + "' is missing here, and other lines have it");
}

std::string_view key_of(std::string_view column) {
  constexpr std::string_view kText = "_text";
  if (column == "rewards") return "reward";
  if (column.ends_with(kText)) column.remove_suffix(kText.size());
  return column;
}

}  // namespace rlreplay::replay::jsonl
