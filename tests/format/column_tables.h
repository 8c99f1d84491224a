#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "format/columns.h"

/// The tables of section 3 of format/SPEC.md, printed from `known_datasets()`.
namespace rlreplay::format::test {

inline std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == ' ') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

/// Each once where they are all the same.
inline std::string joined_cells(std::vector<std::string> cells) {
  if (std::ranges::count(cells, cells.front()) == std::ssize(cells)) cells.resize(1);
  std::string out;
  for (const std::string& cell : cells) out += (out.empty() ? "" : ", ") + cell;
  return out;
}

/// `[C, 2]`; letters of events are small in the table, where a kind has them beside its own.
inline std::string shape_cell(const KnownDataset& known) {
  std::string out;
  for (const std::string& word : words_of(known.shape)) out += (out.empty() ? "[" : ", ") + word;
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::toupper(c); });
  return out + "]";
}

/// One row: datasets of which the first says what they are.
inline std::string table_row(const std::vector<KnownDataset>& datasets) {
  std::vector<std::string> dtypes, shapes;
  std::string names;
  for (const KnownDataset& known : datasets) {
    names += (names.empty() ? "`" : ", `") + std::string(known.name) + "`";
    dtypes.push_back(joined_cells(words_of(known.dtypes)));
    shapes.push_back(shape_cell(known));
  }
  return "| " + names + " | " + joined_cells(dtypes) + " | " + joined_cells(shapes) + " | " +
         std::string(datasets.front().said) + " |\n";
}

/// The table of one section: a kind of units, or `events`.
inline std::string column_table(std::string_view section) {
  std::vector<std::vector<KnownDataset>> rows;
  bool values = false;  // one row for all dtypes
  for (const KnownDataset& known : known_datasets()) {
    const bool events = known.name.starts_with("events/");
    if ((events ? "events" : known.kind) != section || known.said == kElsewhere) continue;
    if (known.name.starts_with("events/values_")) {
      if (!values) rows.push_back({{"", "events/values_DTYPE", "DTYPE", "N", known.said}});
      values = true;
    } else if (known.said.empty()) {
      rows.back().push_back(known);
    } else {
      rows.push_back({known});
    }
  }
  std::string out = "| name | dtype | shape | |\n|---|---|---|---|\n";
  for (const auto& row : rows) out += table_row(row);
  return out;
}

}  // namespace rlreplay::format::test
