#include "src/base/text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <sstream>

#include "src/base/words.h"

namespace rlreplay {
namespace {

constexpr size_t kGap = 2, kIndent = 4;

/// Characters, counted by the bytes that begin one.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_number(std::string_view text) {
  const auto first = text.find_first_of("0123456789");
  const bool digits = text.find_first_not_of("0123456789+-.e%") == text.npos;
  return text.empty() || text == "-" || text == "nan" || text.ends_with("inf") ||
         (digits && first != text.npos);
}

/// Columns that stand side by side, from `begin` on.
struct Band {
  size_t begin, end, indent;
};

/// The lines of a table: as many columns in each as fit; those of further lines are indented.
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

void TextTable::add(const std::vector<std::string>& row) {
  for (size_t c = 0; c < row.size(); ++c) {
    if (c == widths_.size()) {
      widths_.push_back(0);
      right_.push_back(true);
    }
    widths_[c] = std::max(widths_[c], width_of(row[c]));
    if (!rows_.empty()) right_[c] = right_[c] && is_number(row[c]);
    cells_ += row[c];
    lengths_.push_back(static_cast<uint32_t>(row[c].size()));
  }
  rows_.push_back(static_cast<uint32_t>(row.size()));
}

template <class Use>
void TextTable::for_each_row(Use use) const {
  std::vector<std::string_view> row;
  size_t at = 0, cell = 0;
  for (const uint32_t cells : rows_) {
    row.clear();
    for (const size_t end = cell + cells; cell < end; at += lengths_[cell++]) {
      row.emplace_back(cells_.data() + at, lengths_[cell]);
    }
    use(row);
  }
}

void TextTable::add_texts(const std::string& heading, const std::vector<std::string>& texts) {
  constexpr size_t kLeast = 12;
  size_t filled = 0;
  for (size_t c = 0; c < rows_[0]; ++c) filled += widths_[c] + kGap;
  const bool beside = filled + kLeast <= kLineWidth;
  TextTable out;
  for_each_row([&](const std::vector<std::string_view>& cells) {
    std::vector<std::string> row(cells.begin(), cells.end());
    row.resize(rows_[0]);
    const size_t number = out.rows_.size();
    row.push_back(number == 0
                      ? heading
                      : one_line(texts[number - 1], kLineWidth - (beside ? filled : kIndent)));
    out.add(row);
  });
  *this = std::move(out);
}

void TextTable::hide_last() {
  widths_.resize(rows_[0] - 1);
  right_.resize(rows_[0] - 1);
}

void TextTable::print(std::ostream& out) const {
  const std::vector<Band> bands = bands_of(widths_);
  std::string line;
  for_each_row([&](const std::vector<std::string_view>& row) {
    for (const Band& band : bands) {
      line.assign(band.indent, ' ');
      for (size_t c = band.begin; c < std::min(band.end, row.size()); ++c) {
        const size_t blank = widths_[c] - width_of(row[c]);
        if (c > band.begin) line.append(kGap, ' ');
        if (right_[c]) line.append(blank, ' ');
        line += row[c];
        if (!right_[c]) line.append(blank, ' ');
      }
      const bool is_blank = line.find_first_not_of(' ') == line.npos;
      if (band.begin == 0 || !is_blank) out << cut_lines(line);
    }
  });
}

std::string TextTable::str() const {
  std::ostringstream out;
  print(out);
  return out.str();
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
