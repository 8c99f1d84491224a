#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rlreplay {

/// A table for people: columns as wide as their widest cell, two spaces between, numbers to the
/// right. Columns beyond the 80th character stand in further lines, indented.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}

  /// Missing cells are blank.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// A last column, a text of each row, cut to the room that is left or to a line of its own.
  void add_texts(const std::string& heading, const std::vector<std::string>& texts);
  bool empty() const { return rows_.size() == 1; }
  /// Lines, each ended by a line feed.
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A number for people, its first significant digits; "-" where there is none, a NaN without its
/// sign.
std::string short_number(std::optional<double> value, int digits = 6);

/// Text for one line of a terminal: control characters escaped, at most `width` bytes of UTF-8.
std::string one_line(const std::string& text, size_t width);

/// The same of two texts that differ: where they begin alike beyond what would be shown, from
/// shortly before they part on, behind "...".
std::pair<std::string, std::string> parting_lines(const std::string& a, const std::string& b,
                                                  size_t width);

}  // namespace rlreplay
