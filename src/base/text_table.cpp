#include "src/base/text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "src/base/words.h"

namespace rlreplay {
namespace {

constexpr size_t kGap = 2, kIndent = 4;

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

/// Columns that stand side by side, from `begin` on.
struct Band {
  size_t begin, end, indent;
};

/// As many columns in a line as fit; those of further lines are indented.
std::vector<Band> bands_of(const std::vector<size_t>& widths) {
  std::vector<Band> out;
  size_t filled = 0;
  for (size_t c = 0; c < widths.size(); ++c) {
    if (c == 0 || filled + kGap + widths[c] > kLineWidth) {
      out.push_back({c, c, c == 0 ? 0 : kIndent});
      filled = out.back().indent + widths[c];
    } else {
      filled += kGap + widths[c];
    }
    out.back().end = c + 1;
  }
  return out;
}

/// The line in pieces of at most a table's width, further ones indented.
std::string cut_lines(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  std::string out;
  while (width_of(line) > kLineWidth) {
    size_t end = 0;
    for (size_t columns = 0; columns <= kLineWidth; ++end) {
      if ((line[end] & 0xC0) != 0x80) ++columns;
    }
    out += line.substr(0, end - 1) + "\n";
    line = std::string(kIndent, ' ') + line.substr(end - 1);
  }
  return out + line + "\n";
}

}  // namespace

void TextTable::add_texts(const std::string& heading, const std::vector<std::string>& texts) {
  constexpr size_t kLeast = 12;
  size_t filled = 0;
  for (size_t c = 0; c < rows_[0].size(); ++c) {
    size_t width = 0;
    for (const auto& row : rows_) width = std::max(width, c < row.size() ? width_of(row[c]) : 0);
    filled += width + kGap;
  }
  const bool beside = filled + kLeast <= kLineWidth;
  rows_[0].push_back(heading);
  for (size_t r = 1; r < rows_.size(); ++r) {
    rows_[r].resize(rows_[0].size() - 1);
    rows_[r].push_back(one_line(texts[r - 1], kLineWidth - (beside ? filled : kIndent)));
  }
}

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
  const std::vector<Band> bands = bands_of(widths);
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    for (const Band& band : bands) {
      std::string line(band.indent, ' ');
      for (size_t c = band.begin; c < std::min(band.end, row.size()); ++c) {
        const std::string blank(widths[c] - width_of(row[c]), ' ');
        if (c > band.begin) line += std::string(kGap, ' ');
        line += right[c] ? blank + row[c] : row[c] + blank;
      }
      const bool blank = line.find_first_not_of(' ') == line.npos;
      if (band.begin == 0 || !blank) out += cut_lines(line);
    }
  }
  return out;
}

std::string short_number(std::optional<double> value, int digits) {
  if (!value) return "-";
  if (std::isnan(*value)) return "nan";
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, *value);
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
