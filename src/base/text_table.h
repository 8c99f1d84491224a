#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rlreplay {

/// A table for people: columns as wide as their widest cell, two spaces between, numbers to the
/// right. Columns beyond the 80th character stand in further lines, indented.
class TextTable {
 public:
  explicit TextTable(const std::vector<std::string>& header) { add(header); }

  /// Missing cells are blank.
  void add(const std::vector<std::string>& row);
  /// A last column, a text of each row, cut to the room that is left or to a line of its own.
  void add_texts(const std::string& heading, const std::vector<std::string>& texts);
  /// Leaves out the last column of the header, and what rows have there.
  void hide_last();
  [[nodiscard]] bool empty() const { return rows_.size() == 1; }
  /// Lines, each ended by a line feed.
  void print(std::ostream& out) const;
  std::string str() const;

 private:
  TextTable() = default;
  /// Calls `use` with the cells of each row, from the header on.
  template <class Use>
  void for_each_row(Use use) const;

  // A table may have a million rows: cells lie one behind the other.
  std::string cells_;
  std::vector<uint32_t> lengths_;  // of cells
  std::vector<uint32_t> rows_;     // how many cells each has
  std::vector<size_t> widths_;     // of columns
  std::vector<bool> right_;        // whether a column has numbers alone
};

/// A number for people, its first significant digits; "-" where there is none; NaN has no sign.
[[nodiscard]] std::string short_number(std::optional<double> value, int digits = 6);

/// Text for one line of a terminal: control characters escaped, at most `width` bytes of UTF-8.
[[nodiscard]] std::string one_line(const std::string& text, size_t width);

/// Two texts that differ, each as one_line makes it: where they begin alike beyond what would be
/// shown, from shortly before they part on, behind "...".
[[nodiscard]] std::pair<std::string, std::string> parting_lines(const std::string& a,
                                                                const std::string& b, size_t width);

}  // namespace rlreplay
