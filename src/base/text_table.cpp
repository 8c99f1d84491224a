#include "src/base/text_table.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace rlreplay {
namespace {

/// Characters, counted by the bytes that begin one.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_number(const std::string& text) {
  const auto first = text.find_first_of("0123456789");
  const bool digits = text.find_first_not_of("0123456789+-.e%") == text.npos;
  return text.empty() || text == "-" || text == "nan" || text.ends_with("inf") ||
         (digits && first != text.npos);
}

}  // namespace

std::string TextTable::str() const {
  std::vector<size_t> widths;
  std::vector<bool> right;
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      if (c == widths.size()) {
        widths.push_back(0);
        right.push_back(true);
      }
      widths[c] = std::max(widths[c], width_of(rows_[r][c]));
      if (r > 0) right[c] = right[c] && is_number(rows_[r][c]);
    }
  }
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string blank(widths[c] - width_of(row[c]), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? blank + row[c] : row[c] + blank;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string short_number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string one_line(const std::string& text, size_t width) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    char escaped[8] = {c, '\0'};
    if (c == '\n' || c == '\t') {
      std::snprintf(escaped, sizeof escaped, "\\%c", c == '\n' ? 'n' : 't');
    } else if (byte < 0x20 || byte == 0x7F) {
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    }
    const std::string piece = escaped;
    const bool begins = (byte & 0xC0) != 0x80;
    if (begins && width_of(out) + width_of(piece) > width) return out;
    out += piece;
  }
  return out;
}

std::pair<std::string, std::string> parting_lines(const std::string& a, const std::string& b,
                                                  size_t width) {
  constexpr size_t kBefore = 16;  // bytes that both have, shown before they part
  const auto parted = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  if (one_line(a.substr(0, parted), SIZE_MAX).size() + kBefore / 2 <= width) {
    return {one_line(a, width), one_line(b, width)};
  }
  size_t begin = parted - std::min(parted, kBefore);
  while (begin > 0 && (static_cast<uint8_t>(a[begin]) & 0xC0) == 0x80) --begin;
  const auto cut = [&](const std::string& text) {
    return "..." + one_line(text.substr(begin), width - 3);
  };
  return {cut(a), cut(b)};
}

}  // namespace rlreplay
